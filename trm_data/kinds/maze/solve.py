"""Label mazes with a shortest path, and check given labels.

Input: mazes as tokens uint8 [N, S]. Output: `MazeLabels`, or the problem of each given label.
Neighbours: `kinds.maze.kernels` has the search; builds label mazes that are generated or have no answer,
`verify` checks labels by rule or by `path_problems`.

A maze has up to millions of shortest paths. The published rule marks one: breadth-first from S, neighbours
in the order down, left, right, up, the first parent wins. A label by another rule can also be right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trm_data.encode import MAZE_FREE, MAZE_PATH, MAZE_WALL
from trm_data.kinds.maze.source import CELLS, check_inputs, check_tokens


@dataclass(frozen=True)
class MazeLabels:
    """Search results, one entry for each maze."""

    labels: NDArray[np.uint8]
    """[N, S], the input with the cells between S and G marked; the input itself where there is no path."""
    path_steps: NDArray[np.int32]
    """[N], steps from S to G on a shortest path, -1 where there is none."""


def label_mazes(inputs: NDArray[np.uint8], rows: int, columns: int) -> MazeLabels:
    """Return the labels of the published rule."""
    from trm_data.kinds.maze import kernels as maze_kernels

    inputs = check_inputs(inputs, rows, columns)
    labels = np.empty_like(inputs)
    steps = np.empty(len(inputs), np.int32)
    maze_kernels.label_many(inputs, rows, columns, labels, steps)
    return MazeLabels(labels=labels, path_steps=steps)


def count_shortest_paths(
    inputs: NDArray[np.uint8], rows: int, columns: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the number of shortest paths, and the share of a path's cells between S and G that all of them use.

    Both are float64 [N], and 0 if there is no path.
    """
    from trm_data.kinds.maze import kernels as maze_kernels

    inputs = check_inputs(inputs, rows, columns)
    paths, forced = np.empty(len(inputs)), np.empty(len(inputs))
    maze_kernels.count_paths_many(inputs, rows, columns, paths, forced)
    return paths, forced


def marked_steps(
    inputs: NDArray[np.uint8], answers: NDArray[np.uint8], rows: int, columns: int
) -> NDArray[np.int32]:
    """Return the length of the shortest path from S to G over marked cells alone, int32 [N].

    It is -1 if there is no such path, or if an answer, which may be any tokens, does not only mark free cells.
    """
    from trm_data.kinds.maze import kernels as maze_kernels

    inputs = check_inputs(inputs, rows, columns)
    steps = np.full(len(inputs), maze_kernels.NO_PATH, np.int32)
    same = np.flatnonzero(~_changed(inputs, answers).any(axis=1))
    found = np.empty(len(same), np.int32)
    maze_kernels.marked_many(np.ascontiguousarray(answers[same]), rows, columns, found)
    steps[same] = found
    return steps


def _changed(inputs: NDArray[np.uint8], answers: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which cells [N, S] are neither those of the maze nor marked free cells."""
    return (answers != inputs) & ~((inputs == MAZE_FREE) & (answers == MAZE_PATH))


def path_problems(
    inputs: NDArray[np.uint8], labels: NDArray[np.uint8], rows: int, columns: int, *, shortest: bool = True
) -> list[str | None]:
    """Return the problem of each label, whichever shortest path it marks; None if it is right.

    Args:
        inputs: Tokens [N, S].
        labels: Tokens [N, S].
        rows: R.
        columns: C.
        shortest: Reject a path that is not a shortest one.
    """
    inputs = check_inputs(inputs, rows, columns)
    labels = check_tokens("labels", labels, rows, columns)
    if len(inputs) != len(labels):
        raise ValueError(f"got {len(inputs)} inputs and {len(labels)} labels: not the same")
    steps = label_mazes(inputs, rows, columns).path_steps
    differs = _changed(inputs, labels)
    marked = np.count_nonzero(labels == MAZE_PATH, axis=1)
    through = marked_steps(inputs, labels, rows, columns)
    problems: list[str | None] = []
    for i in range(len(inputs)):
        if differs[i].any():
            cell = int(np.argmax(differs[i]))
            problems.append(
                f"{_show(labels[i, cell])} at position {cell + 1} where the maze has {_show(inputs[i, cell])}"
            )
        elif steps[i] < 0:
            problems.append("the maze has no path from S to G")
        else:
            problems.append(
                _path_problem(int(steps[i]), int(through[i]), int(marked[i]) + 1, must_be_shortest=shortest)
            )
    return problems


def _path_problem(shortest: int, through_marked: int, steps: int, *, must_be_shortest: bool) -> str | None:
    """Return the problem of `steps - 1` marked cells, over which the shortest path has `through_marked` steps."""
    if through_marked < 0:
        return "the marked cells are no path from S to G"
    if steps == shortest:
        return None
    if steps == through_marked:
        if not must_be_shortest:
            return None
        return f"the marked path has {steps} steps, a shortest one has {shortest}; --labels given keeps it"
    if not must_be_shortest:
        return f"{steps - 1} cells are marked, but the way through them has {through_marked} steps: no single path"
    return (
        f"{steps - 1} cells are marked, {steps - shortest} more than a shortest path of {shortest} steps has"
    )


def _show(token: np.uint8) -> str:
    return repr(CELLS[int(token) - MAZE_WALL])
