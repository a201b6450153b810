"""Operations on boards of both sizes equal the same operations cell by cell."""

# pyright: basic, reportCallIssue=false
# (numba passes the first argument of intrinsics)
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from trm_data.kinds.maze import boards
from trm_data.kinds.vectors import any_bit

Cells = NDArray[np.bool_]


@njit
def _run(words: Any, other: Any, row: int, bit: Any, out: Any, found: Any) -> None:
    board, second = boards.load(words), boards.load(other)
    boards.store(out[0], board)
    boards.store(out[1], boards.next_to(board))
    boards.store(out[2], boards.without_ends(board))
    boards.store(out[3], board & second)
    boards.store(out[4], board | second)
    boards.store(out[5], board ^ second)
    boards.store(out[6], boards.one_cell(board, row, bit))
    found[0] = boards.count_in(board)
    found[1] = any_bit(board)
    found[2] = np.int64(boards.rows_of(board))


def _words(cells: Cells, lanes: int, word: Any) -> NDArray[Any]:
    """Return cells as words: each row in its lane, each column as a bit."""
    words = np.empty(lanes, word)
    for row, each in enumerate(cells):
        words[boards.lane_of(row, lanes)] = sum(1 << int(c) for c in np.flatnonzero(each))
    return words


def _cells(words: NDArray[Any], lanes: int) -> Cells:
    rows = [int(words[boards.lane_of(row, lanes)]) for row in range(lanes)]
    return np.array([[word >> c & 1 for c in range(lanes)] for word in rows], bool)


def _neighbours(cells: Cells) -> NDArray[np.int64]:
    """Return how many of the four neighbours of each cell are in the set."""
    edged = np.pad(cells, 1).astype(np.int64)
    return edged[:-2, 1:-1] + edged[2:, 1:-1] + edged[1:-1, :-2] + edged[1:-1, 2:]


@pytest.mark.parametrize(("rows", "columns"), [(3, 3), (30, 30), (32, 32), (33, 5), (64, 64)])
@pytest.mark.parametrize("share", [0.0, 0.4, 0.9, 1.0])
def test_every_operation_is_the_one_on_cells(rows: int, columns: int, share: float) -> None:
    lanes, word = boards.lanes_for(rows, columns)
    assert lanes == (32 if max(rows, columns) <= 32 else 64)
    rng = np.random.default_rng(rows * 100 + columns)
    cells, other = np.zeros((2, lanes, lanes), bool)
    cells[:rows, :columns] = rng.random((rows, columns)) < share
    other[:rows, :columns] = rng.random((rows, columns)) < 0.5
    row, column = int(rng.integers(rows)), int(rng.integers(columns))
    out, found = np.empty((7, lanes), word), np.empty(3, np.int64)

    _run(_words(cells, lanes, word), _words(other, lanes, word), row, np.uint64(1 << column), out, found)

    one = np.zeros_like(cells)
    one[row, column] = True
    expected = [
        cells,
        _neighbours(cells) > 0,
        cells & (_neighbours(cells) >= 2),
        cells & other,
        cells | other,
        cells ^ other,
        one,
    ]
    for number, (got, wanted) in enumerate(zip(out, expected, strict=True)):
        np.testing.assert_array_equal(_cells(got, lanes), wanted, err_msg=f"operation {number}")
    filled = sum(1 << int(row) for row in np.flatnonzero(cells.any(axis=1)))
    assert found[:2].tolist() == [cells.sum(), cells.any()]
    assert int(found.view(np.uint64)[2]) == filled
