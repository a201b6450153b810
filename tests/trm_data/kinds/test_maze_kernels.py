"""Labels by the published rule, and messages about wrong labels.

Hashes are equal for images of one maze, and differ for different mazes.
Operations on boards of both sizes equal the same operations cell by cell.
Generated mazes have long paths, the distribution of blind rejection, and depend only on their number.
"""

# pyright: basic, reportCallIssue=false
# (numba passes the first argument of intrinsics)
from __future__ import annotations

import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray
from scipy.stats import chi2, ks_2samp

from trm_data.encode import MAZE_FREE, MAZE_GOAL, MAZE_START, MAZE_WALL
from trm_data.errors import SpecError
from trm_data.kinds.maze import boards
from trm_data.kinds.maze.generate import _generate, choose_scale, generate_mazes, wall_range
from trm_data.kinds.maze.kind import layout_hashes, maze_hashes
from trm_data.kinds.maze.options import usual_min_path
from trm_data.kinds.maze.solve import label_mazes, path_problems
from trm_data.kinds.maze.source import decode_maze, encode_maze, read_mazes
from trm_data.kinds.vectors import any_bit
from trm_data.sources.base import fetch_source, parse_source
from trm_data.symmetry.dihedral import Dihedral

OPEN = "S  " "   " "  G"  # fmt: skip


def tokens(*texts: str, rows: int = 3, columns: int = 3) -> np.ndarray:
    return np.stack([decode_maze(text, rows, columns) for text in texts])


def test_published_labels_follow_the_rule(shared_data: Path) -> None:
    """Checks all 1,000 rows; their rating is the number of path cells including S and G."""
    path = shared_data / "maze" / "maze_30x30_hard_1k_train.csv"
    with fetch_source(parse_source(f"csv:{path}")) as source:
        rows, rejects = read_mazes(source, 30, 30)
    assert len(rows) == 1000
    assert not rejects
    found = label_mazes(rows.questions, 30, 30)
    np.testing.assert_array_equal(found.labels, rows.answers)
    np.testing.assert_array_equal(found.path_steps + 1, rows.ratings)
    assert path_problems(rows.questions, rows.answers, 30, 30) == [None] * 1000


@pytest.mark.parametrize(
    ("text", "label", "steps"),
    [
        (OPEN, "S  o  ooG", 4),  # down is tried before right
        ("  G" "   " "S  ", "  G  oSoo", 4),  # right before up
        ("SG " "###" "   ", "SG ###   ", 1),
        ("S##" "###" "##G", "S#####" "##G", -1),
        ("   #S" "   ##" "G    ", "   #S" "   ##" "G    ", -1),
    ],
)  # fmt: skip
def test_ties_and_edges(text: str, label: str, steps: int) -> None:
    columns = len(text) // 3
    found = label_mazes(tokens(text, columns=columns), 3, columns)
    assert encode_maze(found.labels[0]) == label
    assert found.path_steps.tolist() == [steps]
    assert found.path_steps.dtype == np.int32


@pytest.mark.parametrize(
    ("maze", "label", "problem"),
    [
        (OPEN, OPEN, "the marked cells are no path from S to G"),
        (OPEN, "Soo  oo G", "4 cells are marked, 1 more than a shortest path of 4 steps has"),
        (OPEN, "S#o  o  G", "'#' at position 2 where the maze has ' '"),
        (OPEN, "GooooooS ", "'G' at position 1 where the maze has 'S'"),
        ("S G" " # " "   ", "S Go#oooo", "the marked path has 6 steps, a shortest one has 2"),
        ("S##" "###" "##G", "S#####" "##G", "the maze has no path"),
    ],
)  # fmt: skip
def test_wrong_labels_are_named(maze: str, label: str, problem: str) -> None:
    (found,) = path_problems(tokens(maze), tokens(label), 3, 3)
    assert found is not None
    assert problem in found


def test_a_longer_path_is_right_where_it_was_given_and_stray_marks_are_not() -> None:
    maze, detour, stray = "S G #    ", "S Go#oooo", "SoG # o  "
    inputs, labels = tokens(maze, maze, OPEN), tokens(detour, stray, "Soo  oo G")
    problems = path_problems(inputs, labels, 3, 3, shortest=False)
    assert problems[0] is None
    assert problems[1] is not None
    assert "2 cells are marked, but the way through them has 2 steps" in problems[1]
    assert problems[2] is not None
    (said,) = path_problems(inputs[:1], labels[:1], 3, 3)
    assert said is not None
    assert "--labels given keeps it" in said


def test_none_and_wrong_inputs() -> None:
    assert label_mazes(np.empty((0, 9), np.uint8), 3, 3).labels.shape == (0, 9)
    assert path_problems(np.empty((0, 9), np.uint8), np.empty((0, 9), np.uint8), 3, 3) == []
    with pytest.raises(ValueError, match="row 1 has 2 cells 'S'"):
        label_mazes(tokens(OPEN, "SS      G"), 3, 3)
    with pytest.raises(ValueError, match="1 inputs and 2 labels"):
        path_problems(tokens(OPEN), tokens(OPEN, OPEN), 3, 3)


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


def test_none_and_wrong_tokens() -> None:
    assert maze_hashes(np.empty((0, 9), np.uint8), 3, 3) == []
    with pytest.raises(ValueError, match="tokens 0 to 0"):
        maze_hashes(np.zeros((1, 9), np.uint8), 3, 3)


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
    [(3, 3, 2, 0.3, 0.6), (3, 3, 4, 0.0, 0.5), (3, 4, 5, 0.4, 0.5)],
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
    mazes, shares = _generate(7, 0, 0, 150, 30, 30, 109, 0.3, 0.5)
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
    min_path = usual_min_path(rows, columns, unique=False) if rows < 50 else 150
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
    assert [usual_min_path(*size, unique=False) for size in sizes] == [4, 12, 27, 47, 70, 109, 109, 187, 242]


def test_wall_ranges() -> None:
    assert wall_range(30, 30, 0.3, 0.5) == (270, 450)
    assert wall_range(10, 10, 0.07, 0.07) == (7, 7)
    with pytest.raises(SpecError, match="whole number"):
        wall_range(3, 3, 0.35, 0.4)
    for low, high in ((-0.1, 0.5), (0.5, 0.3), (0.3, 1.0)):
        with pytest.raises(SpecError, match="expected 0 <= low <= high < 1"):
            wall_range(30, 30, low, high)


def test_what_cannot_be_found_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trm_data.kinds.maze.generate.MOST_LAYOUTS", 2000)
    with pytest.raises(SpecError, match="path of at least 30 steps among 2,000 random layouts"):
        generate_mazes(1, 0, 0, 2, 7, 7, 30, 0.3, 0.5)
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
    mazes = generate_mazes(3, 1, 0, 4, rows, columns, usual_min_path(rows, columns, unique=False), 0.3, 0.5)
    assert hashlib.sha256(mazes.tobytes()).hexdigest()[:16] == digest
