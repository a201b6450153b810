"""Read mazes from files of every format that `sources.forms` supports.

Input: an open `LocalSource`. Output: `StatedRows` with the valid rows, and a `Reject` for each invalid row.
`kinds.maze.solve` checks whether there is a path and whether the answer marks a shortest one.
Spaces are free cells, so nothing is stripped.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from trm_data.encode.vocab import MAZE_GOAL, MAZE_PATH, MAZE_START
from trm_data.errors import SourceError
from trm_data.kinds.maze.encode import CELLS, cell_tokens, check_cells, check_maze_size, decode_maze
from trm_data.records import Reject
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource
from trm_data.sources.columns import is_json, json_cells
from trm_data.sources.forms import Board, join_rows, read_puzzle_rows
from trm_data.sources.rows import Decoder, StatedRows, TextRow, read_rows


def read_mazes(
    source: LocalSource,
    rows: int,
    columns: int,
    *,
    distinct: bool = True,
    progress: Progress | None = None,
) -> tuple[StatedRows, list[Reject]]:
    """Read all rows of a file.

    Args:
        source: A `csv`, `txt` or `table` source.
        rows: Rows R of the grid.
        columns: Columns C of the grid.
        distinct: Reject exact duplicates.
        progress: Shows the number of rows read.

    Returns:
        The valid rows as tokens, without duplicates of earlier rows if `distinct`; and the rejected rows with the
        reason.
    """
    check_maze_size(rows, columns)

    try:
        cells = source.spec.symbols and check_cells(source.spec.symbols)
    except ValueError as error:
        raise SourceError(f"{source.shown}: --symbols {error}") from error

    def decode(row: TextRow) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | None]:
        maze = decode_maze(_in_a_line(row.question, rows, columns, cells), rows, columns, cells)
        _check_one_each(maze)
        if np.any(maze == MAZE_PATH):
            position = int(np.argmax(maze == MAZE_PATH)) + 1
            raise ValueError(f"question: path cell 'o' at position {position}: only answers have path cells")
        return maze, _decode_answer(row.answer, rows, columns, cells) if row.answer else None

    board = Board(rows, columns, frozenset(cells or CELLS), spaces=True)
    read = partial(read_puzzle_rows, board=board)
    decoder = Decoder(
        rows * columns,
        decode,
        cell_tokens(cells or CELLS),
        is_question=lambda cells: (
            (cells < MAZE_PATH).all(axis=1)
            & ((cells == MAZE_START).sum(axis=1) == 1)
            & ((cells == MAZE_GOAL).sum(axis=1) == 1)
        ),
        is_answer=lambda cells: np.all(cells <= MAZE_PATH, axis=1),
    )
    return read_rows(source, read, decoder, "maze", distinct=distinct, progress=progress)


def _in_a_line(text: str, rows: int, columns: int, cells: str) -> str:
    """Join a maze of several lines, or of numbers under `--symbols`, into one line."""
    if is_json(text):
        if not cells:
            raise ValueError(
                "is of numbers; expected characters. --symbols names the numbers of wall, free, start, goal and path, "
                "such as --symbols 10234"
            )
        numbers = json_cells(text)
        lines = numbers if isinstance(numbers[0], list) else [numbers]
        if any(not 0 <= cell <= 9 for line in lines for cell in line):
            raise ValueError("has numbers of two digits; expected a digit for each cell")
        text = "\n".join("".join(map(str, line)) for line in lines)
    if "\n" not in text and "\r" not in text:
        return text
    return join_rows(text.splitlines(), rows, columns)


def _decode_answer(text: str, rows: int, columns: int, cells: str) -> NDArray[np.uint8]:
    try:
        return decode_maze(_in_a_line(text, rows, columns, cells), rows, columns, cells)
    except ValueError as error:
        raise ValueError(f"answer: {error}") from error


def _check_one_each(maze: NDArray[np.uint8]) -> None:
    for token, name in ((MAZE_START, "start 'S'"), (MAZE_GOAL, "goal 'G'")):
        places = np.flatnonzero(maze == token) + 1
        if not len(places):
            raise ValueError(f"no {name}: expected one")
        if len(places) > 1:
            raise ValueError(
                f"{len(places)} cells are a {name}: expected one, got positions {places[0]}, {places[1]}"
            )
