"""Figures of a group by rating and by network calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trm_data.storage.root import Layout
from trm_eval.report.ask import Asked, ask
from trm_eval.report.blocks import Picture
from trm_eval.report.canvas import draw, looks, plot_shares, reach
from trm_eval.report.group import Group

RATING_SQL = """\
SELECT
    evaluation,
    any_value(run) AS run,
    CASE
        WHEN rating = 0 THEN '0'
        WHEN rating <= 1 THEN '0 to 1'
        WHEN rating <= 10 THEN '1 to 10'
        WHEN rating <= 50 THEN '10 to 50'
        ELSE 'above 50'
    END AS rating_bucket,
    min(rating) AS lowest_rating,
    count(*) AS puzzles,
    count_if(exact) AS exact_count,
    exact_count / puzzles AS exact_accuracy,
    wilson_low(exact_count, puzzles) AS exact_low,
    wilson_high(exact_count, puzzles) AS exact_high
FROM rated_predictions
WHERE list_contains(?, evaluation) AND rating IS NOT NULL AND exact IS NOT NULL
GROUP BY evaluation, rating_bucket
ORDER BY lowest_rating, evaluation"""
"""Accuracy by rating, in the buckets of `@accuracy_by_rating`."""

SCALING_SQL = """\
SELECT evaluation, run, step, precision, selection, noise, count, depth, samples_per_row, network_calls, flops,
       exact_count, exact_accuracy, exact_low, exact_high, oracle_exact_accuracy, seconds_of
FROM scaling
WHERE list_contains(?, run) AND split = 'test' AND weights = 'ema' AND count > 0 AND network_calls > 0
ORDER BY run, evaluation, samples_per_row, depth"""


def _pictures(
    group: Group, ending: str, title: str, says: str, asked: Asked, paint: Callable[[Any], None]
) -> list[Picture]:
    """Return a figure of a group as a block, with its rows and its SQL."""
    says = f"{group.name}: {says}"
    return [Picture(f"{group.name}-{ending}", draw(paint), title, says, asked.rows, (asked.query,))]


def rating_pictures(layout: Layout, group: Group, problems: list[str]) -> list[Picture]:
    """Return the figure of a group by rating, if its puzzles have ratings in more than one bucket."""
    asked = ask(layout, "accuracy by rating", RATING_SQL, [group.evaluations], problems)
    if len({row["rating_bucket"] for row in asked.rows}) < 2:
        return []
    names = dict(reversed(group.names().items()))
    tests = [(name, [row for row in asked.rows if row["run"] == run]) for run, name in names.items()]
    title = "Accuracy by rating: guesses that a solver needs"
    says = "exact accuracy on test puzzles by their rating, with 95% intervals"
    return _pictures(group, "rating", title, says, asked, lambda axis: paint_ratings(axis, tests))


def paint_ratings(axis: Any, tests: Sequence[tuple[str, Sequence[dict[str, Any]]]]) -> None:
    """Draw the accuracy of named tests by rating, from rows of `RATING_SQL`."""
    rows = [row for _, own in tests for row in own]
    order = list(
        dict.fromkeys(row["rating_bucket"] for row in sorted(rows, key=lambda row: row["lowest_rating"]))
    )
    names = list(dict.fromkeys(name for name, _ in tests))
    for style, (name, own) in zip(looks([name for name, _ in tests]), tests, strict=True):
        if not own:
            continue
        beside = (names.index(name) - (len(names) - 1) / 2) * min(0.12, 0.7 / len(names))
        places = [order.index(row["rating_bucket"]) + beside for row in own]
        exact = [100 * row["exact_accuracy"] for row in own]
        axis.errorbar(places, exact, yerr=reach(own), capsize=2, elinewidth=1, **style | {"linewidth": 0})
    counts = [{row["rating_bucket"]: row["puzzles"] for row in own} for _, own in tests if own]
    alike = all(one == counts[0] for one in counts)  # all tests have the same puzzles
    shown = counts[:1] if alike else counts
    axis.set_xticks(
        range(len(order)),
        [f"{bucket}\n({' / '.join(f'{one.get(bucket, 0):,}' for one in shown)})" for bucket in order],
    )
    axis.set_xlim(-0.5, len(order) - 0.5)
    axis.set_xlabel(
        "rating (puzzles)" if alike else "rating (puzzles of each test, in the order of the legend)"
    )
    axis.set_ylabel("exact accuracy, test (%)")
    axis.grid(axis="y")


def scaling_pictures(layout: Layout, group: Group, problems: list[str]) -> list[Picture]:
    """Return the figure of accuracy against network calls, if tests have several numbers of steps and samples."""
    names = group.names()
    asked = ask(layout, "accuracy by network calls", SCALING_SQL, [list(names)], problems)
    if max((row["samples_per_row"] for row in asked.rows), default=1) < 2:
        return []  # the figure by supervision step shows the same
    title = "Accuracy against network calls"
    says = "exact accuracy over the applications of a stack of layers a puzzle, with 95% intervals"

    def paint(axis: Any) -> None:
        curves = scaling_curves(names, asked.rows)
        for style, (_, own) in zip(looks([name for name, _ in curves], 60), curves, strict=True):
            plot_shares(axis, [row["network_calls"] for row in own], own, style)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_xlabel("network calls a puzzle")
        axis.grid()

    return _pictures(group, "scaling", title, says, asked, paint)


def scaling_curves(
    names: Mapping[str, str], rows: Sequence[dict[str, Any]]
) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return labelled curves: for each evaluation, the rows with one sample and with the most samples.

    Args:
        names: Label of each run.
        rows: Rows of `SCALING_SQL` for these runs.
    """
    most: dict[str, int] = {}
    for row in rows:
        most[row["evaluation"]] = max(row["samples_per_row"], most.get(row["evaluation"], 1))
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    precisions, counts = ({row[column] for row in rows} for column in ("precision", "count"))
    for row in rows:
        samples = row["samples_per_row"]
        if samples not in (1, most[row["evaluation"]]):
            continue
        said = [names[row["run"]]]
        said += [row["precision"] or "?"] if len(precisions) > 1 else []
        if row["noise"] is not None:
            said += [f"{samples} samples" if samples > 1 else "1 sample", row["selection"]]
        said += [f"{row['count']:,} puzzles"] if len(counts) > 1 else []
        found.setdefault((row["evaluation"], ", ".join(said)), []).append(row)
    return [(name, sorted(own, key=lambda row: row["network_calls"])) for (_, name), own in found.items()]
