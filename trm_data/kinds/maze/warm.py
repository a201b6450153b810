"""Run each kernel of a maze build once, to compile it or to load it before workers are forked."""

from __future__ import annotations

import numpy as np

from trm_data.encode import MAZE_FREE, MAZE_GOAL, MAZE_START
from trm_data.kernel import without_unused
from trm_data.kinds.maze.generate import generate_mazes
from trm_data.kinds.maze.kind import layout_hashes
from trm_data.kinds.maze.solve import count_shortest_paths, label_mazes, path_problems
from trm_data.symmetry.dihedral import GridAugmenter


def write(generated: bool) -> None:
    """Label, check, hash and augment a maze without walls."""
    del generated
    maze = np.full((1, 9), MAZE_FREE, np.uint8)
    maze[0, 0], maze[0, 8] = MAZE_START, MAZE_GOAL
    labels = label_mazes(maze, 3, 3).labels
    path_problems(maze, labels, 3, 3)
    count_shortest_paths(maze, 3, 3)
    layout_hashes(maze, 3, 3)
    one = np.zeros(1, np.int64)
    GridAugmenter(maze, labels, one, 0, 3, 3).fill(one, one, one, np.empty_like(maze), np.empty_like(maze))


def generate(generated: bool) -> None:
    """Generate a small maze, if builds generate theirs."""
    if generated:
        generate_mazes(0, 0, 0, 1, 5, 5, 4, 0.2, 0.4)


PARTS = (generate, write)
"""Parts that share few kernels, so that processes compile them at the same time."""


def warm() -> None:
    """Run the kernels of every build."""
    with without_unused():
        for part in PARTS:
            part(generated=False)
