"""Generated mazes have long paths, the distribution of blind rejection, and depend only on their number."""

import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, ks_2samp

from trm_data.encode import MAZE_FREE, MAZE_GOAL, MAZE_START, MAZE_WALL
from trm_data.errors import SpecError
from trm_data.kinds.maze.generate import _generate, choose_scale, default_min_path, generate_mazes, wall_range
from trm_data.kinds.maze.solve import label_mazes
from trm_data.kinds.maze.source import read_mazes
from trm_data.sources.base import fetch_source, parse_source


def all_mazes(rows: int, columns: int, walls: range) -> tuple[np.ndarray, np.ndarray]:
    """Return every maze of a size, and its probability under blind draws, up to a constant factor."""
    cells = rows * columns
    mazes, chances = [], []
    for count in walls:
        layouts = list(combinations(range(cells), count))
        free = cells - count
        for layout in layouts:
            maze = np.full(cells, MAZE_FREE, np.uint8)
            maze[list(layout)] = MAZE_WALL
            open_cells = np.flatnonzero(maze == MAZE_FREE)
            for start in open_cells:
                for goal in open_cells:
                    if start != goal:
                        mazes.append(maze.copy())
                        mazes[-1][start], mazes[-1][goal] = MAZE_START, MAZE_GOAL
                        chances.append(1 / (len(layouts) * free * (free - 1)))
    return np.array(mazes), np.array(chances)


@pytest.mark.parametrize(
    ("rows", "columns", "min_path", "low", "high"),
    [(3, 3, 1, 0.3, 0.5), (3, 3, 2, 0.3, 0.6), (3, 3, 4, 0.0, 0.5), (3, 4, 5, 0.4, 0.5), (4, 3, 4, 0.5, 0.7)],
)
def test_every_maze_is_as_likely_as_under_blind_rejection(
    rows: int, columns: int, min_path: int, low: float, high: float
) -> None:
    """Chi-square against all possible mazes.

    It fails if layouts are accepted regardless of their share of long pairs, or if a pair in one of several
    components is drawn with the weights of another.
    """
    count = 60_000
    least, most = wall_range(rows, columns, low, high)
    every, chances = all_mazes(rows, columns, range(least, most + 1))
    fits = label_mazes(every, rows, columns).path_steps >= min_path
    expected = {maze.tobytes(): chance for maze, chance in zip(every[fits], chances[fits], strict=True)}
    total = sum(expected.values())
    mazes = generate_mazes(1, 0, 0, count, rows, columns, min_path, low, high)
    found = Counter(maze.tobytes() for maze in mazes)
    assert set(found) <= set(expected)
    distance = sum(
        (found[maze] - count * chance / total) ** 2 / (count * chance / total)
        for maze, chance in expected.items()
    )
    assert min(expected.values()) * count / total > 5
    assert 1e-4 < chi2.sf(distance, len(expected) - 1) < 1 - 1e-4


@pytest.mark.integration
def test_larger_mazes_are_distributed_as_under_blind_rejection() -> None:
    """8x9 and at least 18 steps, with layouts from independent code; long pairs may be in several components."""
    rows, columns, min_path, draws = 8, 9, 18, 400_000
    random = np.random.default_rng(2)
    order = random.permuted(np.broadcast_to(np.arange(72, dtype=np.uint8), (draws, 72)), axis=1)
    walls = random.integers(22, 37, draws)
    blind = np.full((draws, 72), MAZE_FREE, np.uint8)
    np.put_along_axis(
        blind, order, np.where(np.arange(72) < walls[:, None], MAZE_WALL, MAZE_FREE).astype(np.uint8), axis=1
    )
    blind[np.arange(draws), order[:, -1]] = MAZE_START
    blind[np.arange(draws), order[:, -2]] = MAZE_GOAL
    kept = label_mazes(blind, rows, columns).path_steps >= min_path
    blind = blind[kept]
    ours = generate_mazes(3, 0, 0, 2000, rows, columns, min_path, 0.3, 0.5)
    assert len(blind) > 800
    for measure in (
        lambda mazes: label_mazes(mazes, rows, columns).path_steps,
        lambda mazes: (mazes == MAZE_WALL).sum(axis=1),
        lambda mazes: (mazes == MAZE_START).argmax(axis=1),
        lambda mazes: (mazes == MAZE_GOAL).argmax(axis=1) % columns,
    ):
        assert ks_2samp(measure(blind), measure(ours)).pvalue > 1e-3


@pytest.mark.integration
def test_mazes_are_like_the_published_ones(shared_data: Path) -> None:
    """Compare 150 mazes; over 2,000 the mean path is 113.9 (sd 5.1) and the mean wall share 0.3733 (sd 0.0254)."""
    path = shared_data / "maze" / "maze_30x30_hard_1k_train.csv"
    with fetch_source(parse_source(f"csv:{path}")) as source:
        published, _ = read_mazes(source, 30, 30)
    mazes, shares = _generate(7, 0, 0, 150, 30, 30, 109, 0.3, 0.5, 1_000_000)
    steps = [label_mazes(inputs, 30, 30).path_steps for inputs in (mazes, published.questions)]
    walls = [(inputs == MAZE_WALL).mean(axis=1) for inputs in (mazes, published.questions)]
    assert steps[0].min() >= 109
    assert abs(steps[0].mean() - steps[1].mean()) < 1.6
    assert ks_2samp(*steps).pvalue > 1e-3
    assert abs(walls[0].mean() - walls[1].mean()) < 0.008
    assert abs(walls[0].std() - walls[1].std()) < 0.006
    assert (shares * choose_scale(30, 30, 109, 270, 450) < 1).all()


WIDE = [pytest.param(*size, marks=pytest.mark.integration) for size in ((3, 64), (50, 50), (64, 64))]
"""Sizes whose vector code takes long to compile."""


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(3, 3), (3, 5), (5, 3), (5, 5), (9, 9), (10, 20), (32, 8), *WIDE],
)
def test_every_size_has_mazes(rows: int, columns: int) -> None:
    """The narrow range of walls needs a few corrections of a layout, the wide one none."""
    min_path = default_min_path(rows, columns) if rows < 50 else 150
    low, high = 0.3, 0.4
    mazes = generate_mazes(2, 1, 0, 4, rows, columns, min_path, low, high)
    found = label_mazes(mazes, rows, columns)  # checks one start, one goal, known tokens
    assert (found.path_steps >= min_path).all()
    walls = (mazes == MAZE_WALL).sum(axis=1)
    least, most = wall_range(rows, columns, low, high)
    assert (walls >= least).all()
    assert (walls <= most).all()
    assert len({maze.tobytes() for maze in mazes}) > 1


def test_all_numbers_of_walls_are_drawn() -> None:
    mazes = generate_mazes(2, 1, 0, 20_000, 6, 7, 1, 0.0, 0.9)
    walls = (mazes == MAZE_WALL).sum(axis=1)
    assert walls.min() == 0
    assert walls.max() >= 34


def test_a_maze_depends_on_its_number_alone() -> None:
    mazes = generate_mazes(5, 2, 0, 30, 9, 9, 24, 0.3, 0.5)
    with ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(lambda start: generate_mazes(5, 2, start, 10, 9, 9, 24, 0.3, 0.5), (0, 10, 20)))
    np.testing.assert_array_equal(np.concatenate(parts), mazes)
    others = [
        generate_mazes(*name, 9, 9, 24, 0.3, 0.5) for name in ((6, 2, 0, 30), (5, 3, 0, 30), (5, 2, 30, 30))
    ]
    assert len({maze.tobytes() for part in (mazes, *others) for maze in part}) == 120


def test_default_paths() -> None:
    sizes = [(3, 3), (5, 5), (9, 9), (10, 20), (20, 20), (30, 30), (20, 45), (50, 50), (64, 64)]
    assert [default_min_path(*size) for size in sizes] == [4, 12, 27, 47, 70, 109, 109, 187, 242]


def test_wall_ranges() -> None:
    assert wall_range(30, 30, 0.3, 0.5) == (270, 450)
    assert wall_range(10, 10, 0.07, 0.07) == (7, 7)
    with pytest.raises(SpecError, match="whole number"):
        wall_range(3, 3, 0.35, 0.4)
    for low, high in ((-0.1, 0.5), (0.5, 0.3), (0.3, 1.0)):
        with pytest.raises(SpecError, match="expected 0 <= low <= high < 1"):
            wall_range(30, 30, low, high)


def test_what_cannot_be_found_is_said() -> None:
    with pytest.raises(SpecError, match="path of at least 30 steps among 2,000 random layouts"):
        generate_mazes(1, 0, 0, 2, 7, 7, 30, 0.3, 0.5, most_layouts=2000)
    with pytest.raises(SpecError, match="least path: got 32 steps; expected 1 to 31"):
        generate_mazes(1, 0, 0, 2, 7, 7, 32, 0.34, 0.5)
    with pytest.raises(SpecError, match="least path: got 0"):
        generate_mazes(1, 0, 0, 2, 7, 7, 0, 0.3, 0.5)
    with pytest.raises(ValueError, match="maze of 2x7 cells"):
        generate_mazes(1, 0, 0, 2, 2, 7, 3, 0.3, 0.5)
    with pytest.raises(ValueError, match="start, count"):
        generate_mazes(1, 0, -1, 2, 7, 7, 3, 0.3, 0.5)
    assert generate_mazes(1, 0, 0, 0, 7, 7, 3, 0.3, 0.5).shape == (0, 49)


@pytest.mark.parametrize(
    ("rows", "columns", "digest"),
    [
        (3, 3, "b36be05d186865dc"),
        (30, 30, "830e56f5dd46cc6f"),
        (32, 32, "6755ac3cee7ef1a1"),
        pytest.param(33, 5, "e3a3a1aafae46093", marks=pytest.mark.integration),
        pytest.param(5, 64, "8eb37a011943f8a0", marks=pytest.mark.integration),
    ],
)
def test_mazes_are_those_of_every_version(rows: int, columns: int, digest: str) -> None:
    mazes = generate_mazes(3, 1, 0, 4, rows, columns, default_min_path(rows, columns), 0.3, 0.5)
    assert hashlib.sha256(mazes.tobytes()).hexdigest()[:16] == digest
