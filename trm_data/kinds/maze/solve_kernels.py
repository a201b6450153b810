"""Breadth-first search in mazes, compiled.

Input: mazes as tokens uint8 [N, S]. Output: labels and lengths, written in place.
Neighbours: wrapped by `solve.maze`.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba decides the types of kernels; their annotations are for readers)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.encode.vocab import MAZE_FREE, MAZE_GOAL, MAZE_PATH, MAZE_START
from trm_data.kernel import kernel

NO_PATH = -1


@kernel
def _find_path(
    cells: NDArray[np.uint8],
    rows: int,
    columns: int,
    free: int,
    parents: NDArray[np.int64],
    queue: NDArray[np.int64],
) -> int:
    """Search from S over cells of the token `free` until G is met; return the place of G, or -1.

    Neighbours in the order down, left, right, up; the first parent wins.
    """
    for cell in range(rows * columns):
        parents[cell] = -1
        if cells[cell] == MAZE_START:
            queue[0] = cell
    parents[queue[0]] = queue[0]
    head, tail = 0, 1
    while head < tail:
        cell = queue[head]
        head += 1
        row, column = cell // columns, cell % columns
        for direction in range(4):
            if direction == 0:
                inside, other = row < rows - 1, cell + columns
            elif direction == 1:
                inside, other = column > 0, cell - 1
            elif direction == 2:
                inside, other = column < columns - 1, cell + 1
            else:
                inside, other = row > 0, cell - columns
            if not inside or parents[other] >= 0:
                continue
            if cells[other] == free:
                parents[other] = cell
                queue[tail] = other
                tail += 1
            elif cells[other] == MAZE_GOAL:
                parents[other] = cell
                return other
    return NO_PATH


@kernel
def _count_steps(parents: NDArray[np.int64], goal: int) -> int:
    """The number of steps from S to a cell; -1 for no cell."""
    steps, cell = 0, goal
    while cell >= 0 and parents[cell] != cell:
        cell = parents[cell]
        steps += 1
    return NO_PATH if goal < 0 else steps


@kernel
def label_many(
    inputs: NDArray[np.uint8], rows: int, columns: int, labels: NDArray[np.uint8], steps: NDArray[np.int32]
) -> None:
    """Fill labels [N, S] and path lengths [N], -1 where there is no path."""
    parents = np.empty(rows * columns, np.int64)
    queue = np.empty(rows * columns, np.int64)
    for i in range(inputs.shape[0]):
        labels[i] = inputs[i]
        goal = _find_path(inputs[i], rows, columns, MAZE_FREE, parents, queue)
        steps[i] = _count_steps(parents, goal)
        if goal >= 0:
            cell = parents[goal]
            while parents[cell] != cell:
                labels[i, cell] = MAZE_PATH
                cell = parents[cell]


@kernel
def marked_many(labels: NDArray[np.uint8], rows: int, columns: int, steps: NDArray[np.int32]) -> None:
    """Fill steps [N] with the length of the shortest path over marked cells alone, -1 where there is none."""
    parents = np.empty(rows * columns, np.int64)
    queue = np.empty(rows * columns, np.int64)
    for i in range(labels.shape[0]):
        goal = _find_path(labels[i], rows, columns, MAZE_PATH, parents, queue)
        steps[i] = _count_steps(parents, goal)
