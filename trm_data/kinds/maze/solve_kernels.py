"""Breadth-first search in mazes, compiled.

Input: mazes as tokens uint8 [N, S]. Output: labels, lengths and counts of shortest paths, written in place.
Searches run on a grid with a border of zeros, so that no step needs a bounds check.
Neighbours: wrapped by `kinds.maze.solve`.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba infers the types of kernels; their annotations are for readers)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.encode.vocab import MAZE_FREE, MAZE_GOAL, MAZE_PATH, MAZE_START
from trm_data.kernel import inner_kernel, kernel

NO_PATH = -1


@inner_kernel(forceinline=True)
def _pad(cells: NDArray[np.uint8], rows: int, columns: int, padded: NDArray[np.uint8]) -> int:
    """Copy a maze into the middle of `padded`, whose border is 0; return the position of S there."""
    start = 0
    for row in range(rows):
        first = (row + 1) * (columns + 2) + 1
        for column in range(columns):
            token = cells[row * columns + column]
            padded[first + column] = token
            if token == MAZE_START:
                start = first + column
    return start


@inner_kernel(forceinline=True)
def _find_path(
    padded: NDArray[np.uint8],
    start: int,
    stride: int,
    free: int,
    parents: NDArray[np.int32],
    queue: NDArray[np.int32],
) -> int:
    """Search from S over cells of the token `free` up to G; return the position of G, or -1.

    Visited cells become 0. Neighbours in the order down, left, right, up; the first parent wins.
    """
    queue[0] = start
    parents[start] = start
    head, tail = 0, 1
    while head < tail:
        cell = np.int64(queue[head])
        head += 1
        for other in (cell + stride, cell - 1, cell + 1, cell - stride):
            token = padded[other]
            if token == free:
                padded[other] = 0
                parents[other] = cell
                queue[tail] = other
                tail += 1
            elif token == MAZE_GOAL:
                parents[other] = cell
                return other
    return NO_PATH


@inner_kernel
def _count_steps(parents: NDArray[np.int32], goal: int) -> int:
    """Return the number of steps from S to a cell; -1 for no cell."""
    steps, cell = 0, goal
    while cell >= 0 and parents[cell] != cell:
        cell = np.int64(parents[cell])
        steps += 1
    return NO_PATH if goal < 0 else steps


@kernel
def label_many(
    inputs: NDArray[np.uint8], rows: int, columns: int, labels: NDArray[np.uint8], steps: NDArray[np.int32]
) -> None:
    """Fill labels [N, S] and path lengths [N], -1 if there is no path."""
    stride = columns + 2
    padded = np.zeros((rows + 2) * stride, np.uint8)
    parents = np.empty(len(padded), np.int32)
    queue = np.empty(len(padded), np.int32)
    for i in range(inputs.shape[0]):
        labels[i] = inputs[i]
        start = _pad(inputs[i], rows, columns, padded)
        goal = _find_path(padded, start, stride, np.int64(MAZE_FREE), parents, queue)
        steps[i] = _count_steps(parents, goal)
        if goal >= 0:
            cell = np.int64(parents[goal])
            while parents[cell] != cell:
                labels[i, (cell // stride - 1) * columns + cell % stride - 1] = MAZE_PATH
                cell = np.int64(parents[cell])


@kernel
def marked_many(labels: NDArray[np.uint8], rows: int, columns: int, steps: NDArray[np.int32]) -> None:
    """Fill steps [N] with the length of the shortest path over marked cells alone, -1 if there is none."""
    stride = columns + 2
    padded = np.zeros((rows + 2) * stride, np.uint8)
    parents = np.empty(len(padded), np.int32)
    queue = np.empty(len(padded), np.int32)
    for i in range(labels.shape[0]):
        start = _pad(labels[i], rows, columns, padded)
        goal = _find_path(padded, start, stride, np.int64(MAZE_PATH), parents, queue)
        steps[i] = _count_steps(parents, goal)


@inner_kernel
def _count_ways(
    padded: NDArray[np.uint8],
    start: int,
    stride: int,
    distances: NDArray[np.int32],
    ways: NDArray[np.float64],
    queue: NDArray[np.int32],
) -> int:
    """Fill distance from S and number of shortest paths for all cells up to G; return the position of G, or -1."""
    for cell in range(distances.shape[0]):
        distances[cell] = -1
    distances[start], ways[start] = 0, 1.0
    queue[0] = start
    head, tail = 0, 1
    while head < tail:
        cell = np.int64(queue[head])
        head += 1
        if padded[cell] == MAZE_GOAL:  # all cells one step nearer were visited before
            return cell
        for other in (cell + stride, cell - 1, cell + 1, cell - stride):
            if padded[other] != MAZE_FREE and padded[other] != MAZE_GOAL:
                continue
            if distances[other] < 0:
                distances[other], ways[other] = distances[cell] + 1, ways[cell]
                queue[tail] = other
                tail += 1
            elif distances[other] == distances[cell] + 1:
                ways[other] += ways[cell]
    return NO_PATH


@kernel
def count_paths_many(
    inputs: NDArray[np.uint8],
    rows: int,
    columns: int,
    paths: NDArray[np.float64],
    forced: NDArray[np.float64],
) -> None:
    """Fill the numbers of shortest paths [N], and the share of the cells between S and G that all of them use [N].

    Both are 0 if there is no path; the share is 1 if S and G are neighbours. A cell is on every shortest path
    if no other cell of a shortest path has its distance from S. So the share is exact for any number of paths.
    """
    stride = columns + 2
    padded = np.zeros((rows + 2) * stride, np.uint8)
    distances = np.empty(len(padded), np.int32)
    ways = np.empty(len(padded), np.float64)
    queue = np.empty(len(padded), np.int32)
    cells_at = np.empty(len(padded), np.int32)
    for i in range(inputs.shape[0]):
        start = _pad(inputs[i], rows, columns, padded)
        goal = _count_ways(padded, start, stride, distances, ways, queue)
        paths[i] = forced[i] = 0.0
        if goal < 0:
            continue
        paths[i] = ways[goal]
        steps = distances[goal]
        beyond = steps + 2
        cells_at[: steps + 1] = 0
        queue[0] = goal
        head, tail = 0, 1
        # Back from G: the distance of a visited cell becomes its level plus `beyond`.
        while head < tail:
            cell = np.int64(queue[head])
            head += 1
            level = steps - 1 if cell == goal else distances[cell] - beyond - 1
            for other in (cell + stride, cell - 1, cell + 1, cell - stride):
                if level >= 0 and distances[other] == level:
                    cells_at[level] += 1
                    distances[other] = level + beyond
                    queue[tail] = other
                    tail += 1
        single = 0
        for level in range(1, steps):
            single += cells_at[level] == 1
        forced[i] = single / (steps - 1) if steps > 1 else 1.0
