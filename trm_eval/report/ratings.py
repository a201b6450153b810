"""Accuracy by how hard the puzzles are: by the rating of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trm_data.storage.root import Layout
from trm_eval.report.ask import ask
from trm_eval.report.blocks import Picture
from trm_eval.report.canvas import draw, look, short
from trm_eval.report.group import Group

SQL = """\
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
"""The buckets are those of `@accuracy_by_rating`."""


def rating_pictures(layout: Layout, group: Group, problems: list[str]) -> list[Picture]:
    """The figure of a group, where its puzzles have ratings of more than one bucket."""
    asked = ask(layout, "accuracy by rating", SQL, [group.evaluations], problems)
    if len({row["rating_bucket"] for row in asked.rows}) < 2:
        return []
    names = dict(reversed(group.names().items()))
    tests = [(name, [row for row in asked.rows if row["run"] == run]) for run, name in names.items()]
    drawn = draw(lambda axis: paint_ratings(axis, tests))
    return [
        Picture(
            f"{group.name}-rating",
            drawn,
            "Accuracy by rating: guesses that a solver needs",
            f"{group.name}: exact accuracy on test puzzles by their rating, with 95% intervals",
            asked.rows,
            (asked.query,),
        )
    ]


def paint_ratings(axis: Any, tests: Sequence[tuple[str, Sequence[dict[str, Any]]]]) -> None:
    """Draw the accuracies of named tests by rating, from rows of `SQL`."""
    rows = [row for _, own in tests for row in own]
    order = list(
        dict.fromkeys(row["rating_bucket"] for row in sorted(rows, key=lambda row: row["lowest_rating"]))
    )
    for number, (name, own) in enumerate(tests):
        if not own:
            continue
        beside = (number - (len(tests) - 1) / 2) * min(0.12, 0.7 / len(tests))
        places = [order.index(row["rating_bucket"]) + beside for row in own]
        exact = [100 * row["exact_accuracy"] for row in own]
        below = [100 * max(row["exact_accuracy"] - row["exact_low"], 0) for row in own]
        above = [100 * max(row["exact_high"] - row["exact_accuracy"], 0) for row in own]
        style = look(number) | {"linewidth": 0}
        axis.errorbar(places, exact, yerr=[below, above], label=short(name), capsize=2, elinewidth=1, **style)
    counts = [{row["rating_bucket"]: row["puzzles"] for row in own} for _, own in tests if own]
    alike = all(one == counts[0] for one in counts)  # tests of one set of puzzles
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
