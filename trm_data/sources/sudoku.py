"""Sudoku puzzles from files: the Sudoku-Extreme CSV columns, or one puzzle a line.

Input: an open `LocalSource`. Output: `PuzzleRows`, the rows whose form is right, and a `Reject` for each of
the others. Whether a puzzle has one solution and its answer fits is for `trm_data.kinds.sudoku`, which looks
only at the rows a dataset needs. Neighbours: `sources.rows` reads the columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trm_data.encode.grid import BLANKS, decode_grid
from trm_data.records import Reject
from trm_data.sources.base import LocalSource
from trm_data.sources.rows import SourceRows, TextRow, read_csv, read_rows


@dataclass(frozen=True)
class PuzzleRows(SourceRows):
    """Rows of a source, N of S cells.

    Attributes:
        puzzles: Cell values, 0 blank, uint8 [N, S].
        answers: Cell values as stated, all 0 where none is, uint8 [N, S].
        ratings: As stated, NaN where none is, float32 [N].
        lines: Line in the file, from 1, int64 [N].
    """

    puzzles: NDArray[np.uint8]
    answers: NDArray[np.uint8]
    ratings: NDArray[np.float32]
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.puzzles)


def read_puzzles(source: LocalSource, side: int) -> tuple[PuzzleRows, list[Reject]]:
    """All rows of a file.

    Args:
        source: A `csv` or `txt` source.
        side: Cells in a row of the grid.

    Returns:
        The rows whose form is right and no exact duplicate of an earlier one, and the others with the reason.

    Raises:
        SourceError: The file as a whole is no such source (no rows, a missing column, not text).
    """

    def decode(row: TextRow) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | None]:
        answer = row.answer.strip()
        return decode_grid(row.question.strip(), side), _decode_answer(answer, side) if answer else None

    read = read_csv if source.spec.kind == "csv" else _read_txt
    rows, rejects = read_rows(source, read, decode, side * side, "puzzle")
    return PuzzleRows(rows.questions, rows.answers, rows.ratings, rows.lines), rejects


def _read_txt(text: Iterator[str], shown: str) -> Iterator[TextRow]:
    for number, line in enumerate(text, start=1):
        content = line.split("#", 1)[0].strip()
        if content:
            yield TextRow(number, content)


def _decode_answer(text: str, side: int) -> NDArray[np.uint8]:
    try:
        answer = decode_grid(text, side)
    except ValueError as error:
        raise ValueError(f"answer: {error}") from error
    if not answer.all():
        raise ValueError(
            f"answer: blank ({BLANKS[0]!r} or {BLANKS[1]!r}) at position {int(np.argmin(answer)) + 1}"
        )
    return answer
