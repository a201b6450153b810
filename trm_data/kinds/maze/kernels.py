"""Breadth-first search in mazes, and the generator of perfect mazes, compiled.

Labels, lengths and counts of shortest paths are written in place (wrapped by `kinds.maze.solve`). Searches run on a
grid with a border of zeros, so that no step needs a bounds check.

A perfect maze is a uniformly drawn spanning tree with a long pair of its cells (wrapped by
`kinds.maze.generate.generate_unique_mazes`, which explains what is drawn). Rooms are at every second row and column.
Wilson's algorithm (loop-erased random walks) draws a spanning tree of the lattice of rooms. The cell between two rooms
of an edge is free, all others are walls. So exactly one path joins any two free cells.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba infers the types of kernels; their annotations are for readers)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.encode import MAZE_FREE, MAZE_GOAL, MAZE_PATH, MAZE_START, MAZE_WALL
from trm_data.kernel import inner_kernel, kernel
from trm_data.seeds.draws import Purpose
from trm_data.seeds.kernels import STREAM_WORDS, next_bounded, open_stream

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


_GENERATE = int(Purpose.GENERATE)


@inner_kernel
def _draw_tree(stream: NDArray[np.uint64], high: int, wide: int, ways: NDArray[np.int8]) -> None:
    """Set each room's direction (down, left, right, up) to its parent in the tree; -1 for the root.

    A room that the walk has left is -2 - direction until the walk reaches the tree.
    """
    rooms = high * wide
    ways[:rooms] = -8
    ways[np.int64(next_bounded(stream, np.uint64(rooms)))] = -1
    for first in range(rooms):
        room = first
        while ways[room] < -1:
            row, column = room // wide, room % wide
            way = np.int64(next_bounded(stream, np.uint64(4)))
            if way == 0 and row < high - 1:
                after = room + wide
            elif way == 1 and column > 0:
                after = room - 1
            elif way == 2 and column < wide - 1:
                after = room + 1
            elif way == 3 and row > 0:
                after = room - wide
            else:
                continue
            ways[room] = -2 - way
            room = after
        room = first
        while ways[room] < -1:
            way = -2 - ways[room]
            ways[room] = way
            room += wide if way == 0 else -1 if way == 1 else 1 if way == 2 else -wide


@inner_kernel
def _write_tree(
    ways: NDArray[np.int8], high: int, wide: int, top: int, left: int, columns: int, maze: NDArray[np.uint8]
) -> None:
    """Write the layout of a tree whose first room is at (top, left)."""
    for cell in range(maze.shape[0]):
        maze[cell] = MAZE_WALL
    for room in range(high * wide):
        cell = (top + 2 * (room // wide)) * columns + left + 2 * (room % wide)
        way = ways[room]
        maze[cell] = MAZE_FREE
        if way >= 0:
            maze[cell + (columns if way == 0 else -1 if way == 1 else 1 if way == 2 else -columns)] = (
                MAZE_FREE
            )


@inner_kernel
def _search(
    maze: NDArray[np.uint8],
    start: int,
    rows: int,
    columns: int,
    before: NDArray[np.int32],
    distances: NDArray[np.int32],
    queue: NDArray[np.int32],
) -> int:
    """List in `queue` all free cells by their distance from `start`; return their number."""
    queue[0], before[start], distances[start] = start, -1, 0
    head, tail = 0, 1
    while head < tail:
        cell = np.int64(queue[head])
        head += 1
        row, column = cell // columns, cell % columns
        for way in range(4):
            if way == 0:
                inside, other = row < rows - 1, cell + columns
            elif way == 1:
                inside, other = column > 0, cell - 1
            elif way == 2:
                inside, other = column < columns - 1, cell + 1
            else:
                inside, other = row > 0, cell - columns
            if inside and other != before[cell] and maze[other] == MAZE_FREE:
                before[other], distances[other] = cell, distances[cell] + 1
                queue[tail] = other
                tail += 1
    return tail


@inner_kernel
def _far(queue: NDArray[np.int32], distances: NDArray[np.int32], count: int, min_path: int) -> int:
    """Return the number of listed cells that are at least `min_path` steps away; the list is sorted by distance."""
    far = 0
    while far < count and distances[queue[count - 1 - far]] >= min_path:
        far += 1
    return far


@kernel
def generate_trees(
    seed: np.uint64,
    stream_number: np.uint64,
    start: int,
    rows: int,
    columns: int,
    min_path: int,
    most_layouts: int,
    mazes: NDArray[np.uint8],
) -> int:
    """Fill mazes [N, S] with those numbered from `start`.

    Return the number of mazes written: less than N if `most_layouts` layouts gave no maze.
    """
    high, wide, cells = (rows + 1) // 2, (columns + 1) // 2, rows * columns
    stream = np.empty(STREAM_WORDS, np.uint64)
    ways = np.empty(high * wide, np.int8)
    before, distances = np.empty(cells, np.int32), np.empty(cells, np.int32)
    queue, listed, counts = np.empty(cells, np.int32), np.empty(cells, np.int32), np.empty(cells, np.int64)
    for i in range(mazes.shape[0]):
        open_stream(stream, seed, _GENERATE, start + i, stream_number)
        maze, total, layouts, free = mazes[i], 0, 0, 0
        while total == 0:
            if layouts == most_layouts:
                return i
            layouts += 1
            top = 0 if rows % 2 else np.int64(next_bounded(stream, np.uint64(2)))
            left = 0 if columns % 2 else np.int64(next_bounded(stream, np.uint64(2)))
            _draw_tree(stream, high, wide, ways)
            _write_tree(ways, high, wide, top, left, columns, maze)
            free = _search(maze, top * columns + left, rows, columns, before, distances, listed)
            # In a tree, the cell farthest from any cell is one end of a longest path.
            _search(maze, np.int64(listed[free - 1]), rows, columns, before, distances, queue)
            if distances[queue[free - 1]] < min_path:
                continue
            for j in range(free):
                _search(maze, np.int64(listed[j]), rows, columns, before, distances, queue)
                counts[j] = _far(queue, distances, free, min_path)
                total += counts[j]
        number, j = np.int64(next_bounded(stream, np.uint64(total))), 0
        while number >= counts[j]:
            number -= counts[j]
            j += 1
        _search(maze, np.int64(listed[j]), rows, columns, before, distances, queue)
        maze[listed[j]] = MAZE_START
        maze[queue[free - 1 - number]] = MAZE_GOAL
    return mazes.shape[0]
