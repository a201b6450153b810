"""Puzzles of an evaluation, to choose one from."""

from __future__ import annotations

from dataclasses import dataclass

from trm_data.storage.root import Layout
from trm_eval.report.ask import Asked, ask

OUTCOMES = {"all": "true", "solved": "exact", "failed": "NOT exact"}
"""What puzzles may have come to, as SQL."""
PAGE_ROWS = 200
"""Puzzles that are listed at a time."""

RANGE_SQL = """\
SELECT count(*) AS puzzles, count_if(exact) AS solved, min(rating) AS lowest, max(rating) AS highest
FROM predicted_puzzles
WHERE evaluation = ?"""

COUNT_SQL = """\
SELECT count(*) AS puzzles
FROM predicted_puzzles
WHERE evaluation = ? AND {condition}"""

PUZZLES_SQL = f"""\
SELECT row, exact, wrong_cells, cells, rating, clues, path_length, halt_step, group_index, augmentation
FROM predicted_puzzles
WHERE evaluation = ? AND {{condition}}
ORDER BY row
LIMIT {PAGE_ROWS} OFFSET ?"""


@dataclass(frozen=True)
class Wanted:
    """Which puzzles of an evaluation are listed.

    Attributes:
        outcome: Of `OUTCOMES`.
        ratings: Lowest and highest; None for any, and for those that have none.
    """

    outcome: str = "all"
    ratings: tuple[float, float] | None = None

    def condition(self) -> tuple[str, list[object]]:
        """As SQL, and its values."""
        if self.ratings is None:
            return OUTCOMES[self.outcome], []
        return f"{OUTCOMES[self.outcome]} AND rating BETWEEN ? AND ?", list(self.ratings)


def range_of(layout: Layout, evaluation: str, problems: list[str]) -> Asked:
    """How many puzzles an evaluation has, how many it solves, and their ratings."""
    return ask(
        layout, "puzzles and their ratings", RANGE_SQL, [evaluation], problems, evaluations=[evaluation]
    )


def count_puzzles(layout: Layout, evaluation: str, wanted: Wanted, problems: list[str]) -> int:
    """How many puzzles are as wanted."""
    condition, values = wanted.condition()
    sql = COUNT_SQL.format(condition=condition)
    asked = ask(layout, "puzzles", sql, [evaluation, *values], problems, evaluations=[evaluation])
    return asked.rows[0]["puzzles"]


def puzzles_of(layout: Layout, evaluation: str, wanted: Wanted, page: int, problems: list[str]) -> Asked:
    """A page of the puzzles that are as wanted, from page 0 on."""
    condition, values = wanted.condition()
    sql = PUZZLES_SQL.format(condition=condition)
    given = [evaluation, *values, page * PAGE_ROWS]
    return ask(layout, "puzzles", sql, given, problems, evaluations=[evaluation])
