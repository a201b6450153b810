"""Generated puzzles have one solution, are minimal up to side 9, and depend only on their number."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.solve import solve


@pytest.mark.parametrize("boxes", [(2, 2), (2, 3), (3, 2), (3, 3)])
def test_puzzles_are_unique_and_minimal(boxes):
    puzzles, solutions = generate(1, 0, 0, 40, *boxes)
    solved = solve(puzzles, *boxes)
    assert (solved.counts == 1).all()
    np.testing.assert_array_equal(solved.solutions, solutions)
    without = []
    for puzzle in puzzles:
        for cell in np.flatnonzero(puzzle):
            without.append(puzzle.copy())
            without[-1][cell] = 0
    assert (solve(np.array(without), *boxes).counts == 2).all()


@pytest.mark.parametrize("boxes", [(3, 4), (4, 3), (4, 4), (2, 5)])
def test_large_puzzles_are_unique(boxes):
    puzzles, solutions = generate(1, 0, 0, 4, *boxes)
    solved = solve(puzzles, *boxes, node_limit=1_000_000)
    assert (solved.counts == 1).all()
    assert not solved.limited.any()
    np.testing.assert_array_equal(solved.solutions, solutions)
    assert ((puzzles > 0).mean(axis=1) < 0.6).all()


def test_a_puzzle_depends_on_its_number_alone():
    puzzles, solutions = generate(5, 2, 0, 30, 3, 3)
    with ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(lambda start: generate(5, 2, start, 10, 3, 3), (0, 10, 20)))
    np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), puzzles)
    np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), solutions)


def test_seed_and_stream_make_other_puzzles():
    series = [generate(*name, 0, 5, 3, 3)[1] for name in [(5, 2), (6, 2), (5, 3)]]
    assert len({grid.tobytes() for grids in series for grid in grids}) == 15


def test_grids_are_not_all_equivalent():
    """The rows of a band split the digits in minirows; how often they agree is constant within one orbit."""
    _, solutions = generate(3, 0, 0, 60, 3, 3)
    kinds = set()
    for grid in solutions.reshape(-1, 3, 3, 3, 3):  # [grid, band, row, stack, column]
        equal = [
            sum(
                frozenset(grid[band, i, s]) == frozenset(grid[band, j, t])
                for i in range(3)
                for j in range(3)
                for s in range(3)
                for t in range(3)
            )
            for band in range(3)
        ]
        kinds.add(tuple(sorted(equal)))
    assert len(kinds) > 1


def test_first_rows_are_spread():
    """Every digit is about equally frequent in some cells inside and outside the diagonal boxes."""
    _, solutions = generate(4, 0, 0, 1800, 3, 3)
    for cell in (0, 8, 40, 72):
        counts = np.bincount(solutions[:, cell], minlength=10)[1:]
        assert np.abs(counts - 200).max() < 70


def test_none_and_wrong_numbers():
    assert generate(1, 0, 0, 0, 3, 3)[0].shape == (0, 81)
    with pytest.raises(ValueError, match="start, count"):
        generate(1, 0, -1, 2, 3, 3)
    with pytest.raises(ValueError, match="boxes"):
        generate(1, 0, 0, 2, 1, 9)
