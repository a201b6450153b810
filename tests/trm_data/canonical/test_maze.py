"""Hashes are equal for images of one maze, and differ for different mazes."""

import time

import numpy as np
import pytest

from trm_data.kinds.maze.kind import layout_hashes, maze_hashes
from trm_data.symmetry.dihedral import Dihedral

SIZES = [(3, 3), (5, 5), (4, 6), (6, 4)]


def random_mazes(count: int, rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(5).integers(1, 5, (count, rows * columns)).astype(np.uint8)


def images(maze: np.ndarray, rows: int, columns: int) -> dict[int, np.ndarray]:
    grids = {d: Dihedral(d).apply(maze.reshape(rows, columns)) for d in range(8)}
    return {d: grid.reshape(-1) for d, grid in grids.items() if grid.shape == (rows, columns)}


@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_images_have_one_hash_and_others_another(rows: int, columns: int) -> None:
    mazes = random_mazes(200, rows, columns)
    names = maze_hashes(mazes, rows, columns)
    classes = {frozenset(image.tobytes() for image in images(maze, rows, columns).values()) for maze in mazes}
    assert len(set(names)) == len(classes)
    for maze, name in zip(mazes[:20], names, strict=False):
        same = np.stack(list(images(maze, rows, columns).values()))
        assert len(same) == (8 if rows == columns else 4)
        assert set(maze_hashes(same, rows, columns)) == {name}
    assert all(len(name) == 32 for name in names)


def test_shape_and_marks_are_part_of_the_name() -> None:
    maze = random_mazes(1, 4, 6)
    assert maze_hashes(maze, 4, 6) != maze_hashes(maze, 6, 4)
    swapped = np.array([0, 1, 2, 4, 3], np.uint8)[maze]
    assert maze_hashes(maze, 4, 6) != maze_hashes(swapped, 4, 6)
    assert layout_hashes(maze, 4, 6) == layout_hashes(swapped, 4, 6)
    walls = maze.copy()
    walls[0, 0] = 3 - min(walls[0, 0], 2)
    assert layout_hashes(maze, 4, 6) != layout_hashes(walls, 4, 6)


def test_a_thousand_take_milliseconds() -> None:
    mazes = random_mazes(1000, 30, 30)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        maze_hashes(mazes, 30, 30)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.2


def test_none_and_wrong_tokens() -> None:
    assert maze_hashes(np.empty((0, 9), np.uint8), 3, 3) == []
    with pytest.raises(ValueError, match="tokens 0 to 0"):
        maze_hashes(np.zeros((1, 9), np.uint8), 3, 3)
