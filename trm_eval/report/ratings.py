"""Accuracy by how hard the puzzles are: by the rating that the dataset catalog has of each."""

from __future__ import annotations

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
FROM predicted_puzzles
WHERE list_contains(?, evaluation) AND rating IS NOT NULL AND exact IS NOT NULL
GROUP BY evaluation, rating_bucket
ORDER BY lowest_rating, evaluation"""
"""The buckets are those of `@accuracy_by_rating`."""


def rating_pictures(layout: Layout, group: Group, problems: list[str]) -> list[Picture]:
    """The figure of a group, where its puzzles have ratings of more than one bucket."""
    asked = ask(layout, "accuracy by rating", SQL, [group.evaluations], problems)
    buckets = {row["rating_bucket"]: row["lowest_rating"] for row in reversed(asked.rows)}
    if len(buckets) < 2:
        return []
    order = sorted(buckets, key=lambda bucket: buckets[bucket])
    drawn = draw(lambda axis: _paint(axis, group, order, asked.rows))
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


def _paint(axis: Any, group: Group, order: list[str], rows: list[dict[str, Any]]) -> None:
    names = group.names()
    for number, (run, name) in enumerate(reversed(names.items())):
        own = {row["rating_bucket"]: row for row in rows if row["run"] == run}
        if not own:
            continue
        beside = (number - (len(names) - 1) / 2) * min(0.12, 0.7 / len(names))
        places = [order.index(bucket) + beside for bucket in own]
        exact = [100 * row["exact_accuracy"] for row in own.values()]
        below = [100 * max(row["exact_accuracy"] - row["exact_low"], 0) for row in own.values()]
        above = [100 * max(row["exact_high"] - row["exact_accuracy"], 0) for row in own.values()]
        style = look(number) | {"linewidth": 0}
        axis.errorbar(places, exact, yerr=[below, above], label=short(name), capsize=2, elinewidth=1, **style)
    puzzles = {
        bucket: max(row["puzzles"] for row in rows if row["rating_bucket"] == bucket) for bucket in order
    }
    axis.set_xticks(range(len(order)), [f"{bucket}\n({puzzles[bucket]:,})" for bucket in order])
    axis.set_xlim(-0.5, len(order) - 0.5)
    axis.set_xlabel("rating (puzzles)")
    axis.set_ylabel("exact accuracy, test (%)")
    axis.grid(axis="y")
