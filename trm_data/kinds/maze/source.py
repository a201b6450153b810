"""Mazes as text, and mazes read from files of every format that `sources.forms` supports.

A maze has one character for each cell, row by row: `#` wall, space free, `S` start, `G` goal, `o` path. Spaces are free
cells, so nothing is stripped. `decode_maze` and `encode_maze` are inverses; the tokens are those of `encode`.

`read_mazes` returns `StatedRows` with the valid rows of an open `LocalSource`, and a `Reject` for each invalid row.
`kinds.maze.solve` checks whether there is a path and whether the answer marks a shortest one.
"""

from __future__ import annotations

import math
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from trm_data.encode import MAZE_GOAL, MAZE_PATH, MAZE_START, MAZE_VOCABULARY_SIZE, MAZE_WALL
from trm_data.errors import SourceError
from trm_data.records import Reject
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource
from trm_data.sources.columns import is_json, json_cells
from trm_data.sources.forms import Board, join_rows, read_puzzle_rows
from trm_data.sources.rows import OTHER, CellTable, Decoder, StatedRows, TextRow, read_rows

CELLS = "# SGo"
"""Default characters of the tokens, from `MAZE_WALL` on."""
NAMES = ("wall", "free", "start", "goal", "path")
MIN_SIDE = 3
MAX_SIDE = 64


def check_maze_size(rows: int, columns: int) -> None:
    """Raise a ValueError unless both sides are 3 to 64."""
    if not (MIN_SIDE <= rows <= MAX_SIDE and MIN_SIDE <= columns <= MAX_SIDE):
        raise ValueError(
            f"maze of {rows}x{columns} cells: expected {MIN_SIDE} to {MAX_SIDE} rows and columns"
        )


def check_tokens(name: str, tokens: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.uint8]:
    """Check tokens [N, S] of mazes; return them contiguous."""
    check_maze_size(rows, columns)
    if tokens.ndim != 2 or tokens.shape[1] != rows * columns or tokens.dtype != np.uint8:
        raise ValueError(
            f"{name}: got {tokens.dtype}{list(tokens.shape)}, expected uint8 [N, {rows * columns}] for {rows}x{columns}"
        )
    if tokens.size and not (int(tokens.min()) >= MAZE_WALL and int(tokens.max()) < MAZE_VOCABULARY_SIZE):
        raise ValueError(
            f"{name}: got tokens {tokens.min()} to {tokens.max()}; expected {MAZE_WALL} to {MAZE_PATH}"
        )
    return np.ascontiguousarray(tokens)


def check_inputs(inputs: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.uint8]:
    """Check that inputs [N, S] have one start, one goal and no path; return them contiguous."""
    inputs = check_tokens("inputs", inputs, rows, columns)
    for token, name, expected in ((MAZE_START, "S", 1), (MAZE_GOAL, "G", 1), (MAZE_PATH, "o", 0)):
        counts = np.count_nonzero(inputs == token, axis=1)
        if (counts != expected).any():
            row = int(np.argmax(counts != expected))
            raise ValueError(f"inputs: row {row} has {counts[row]} cells {name!r}, expected {expected}")
    return inputs


def encode_maze(tokens: NDArray[np.uint8]) -> str:
    """Return tokens [S] as text."""
    return "".join(CELLS[token - MAZE_WALL] for token in tokens.tolist())


def check_cells(cells: str) -> str:
    """Check the user's cell characters: wall, free, start, goal and, if answers are given, path."""
    if len(cells) not in (len(CELLS) - 1, len(CELLS)) or len(set(cells)) != len(cells):
        raise ValueError(
            f"{cells!r} has {len(cells)} characters; expected those of wall, free, start, goal and path, all different "
            f"(usual: {CELLS!r})"
        )
    return cells


def decode_maze(text: str, rows: int, columns: int, cells: str = "") -> NDArray[np.uint8]:
    """Decode one line of text to tokens, uint8 [S].

    Args:
        text: One character for each cell.
        rows: R.
        columns: C.
        cells: Characters of wall, free, start, goal and path; default: `CELLS`.
    """
    if len(text) != rows * columns:
        side = math.isqrt(len(text))
        square = (
            f" (--grid {side}x{side} reads mazes of this size)" if side >= 3 and side**2 == len(text) else ""
        )
        raise ValueError(f"expected {rows * columns} characters, got {len(text)}{square}")
    values = np.frombuffer(text.translate(cell_tokens(cells or CELLS)).encode("latin-1"), dtype=np.uint8)
    if values.max() == OTHER:
        position = int(np.argmax(values == OTHER))
        raise ValueError(
            f"character {text[position]!r} at position {position + 1}: expected "
            + ", ".join(f"{mark!r} ({name})" for mark, name in zip(cells or CELLS, NAMES, strict=False))
        )
    return values


@cache
def cell_tokens(cells: str) -> CellTable:
    """Return the table from the characters of cells to tokens."""
    return CellTable({ord(c): token for token, c in enumerate(cells, start=MAZE_WALL)})


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
