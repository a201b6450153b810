"""Generated puzzles have one solution, are minimal up to side 9, and depend only on their number.

Hard puzzles have one solution, are minimal, depend only on their number, and have ratings like Sudoku-Extreme.
"""

from __future__ import annotations

import csv
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from trm_data.kinds.sudoku.generate import generate, generate_hard
from trm_data.kinds.sudoku.solve import RATE_IMAGES, rate, solve
from trm_data.kinds.sudoku.symmetry import canonicalize


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
    solved = solve(puzzles, *boxes)
    assert (solved.counts == 1).all()
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


@pytest.fixture(scope="module")
def block():
    """Return puzzles 0 to 31: one from each part of the distribution."""
    return generate_hard(5, 2, 0, 32)


@pytest.mark.integration
def test_hard_puzzles_are_unique_and_minimal(block):
    puzzles, solutions, _ = block
    solved = solve(puzzles, 3, 3)
    assert (solved.counts == 1).all()
    np.testing.assert_array_equal(solved.solutions, solutions)
    without = []
    for puzzle in puzzles:
        for cell in np.flatnonzero(puzzle):
            without.append(puzzle.copy())
            without[-1][cell] = 0
    assert (solve(np.array(without), 3, 3).counts == 2).all()


@pytest.mark.integration
def test_hard_a_puzzle_depends_on_its_number_alone(block):
    parts = [(0, 3), (3, 4), (21, 2), (30, 2)]
    with ThreadPoolExecutor(2) as pool:
        for (start, count), part in zip(
            parts, pool.map(lambda part: generate_hard(5, 2, *part), parts), strict=True
        ):
            np.testing.assert_array_equal(part[0], block[0][start : start + count])
            np.testing.assert_array_equal(part[1], block[1][start : start + count])


def test_hard_seed_and_stream_make_other_puzzles(block):
    others = np.concatenate([generate_hard(5, 3, 0, 4)[1], generate_hard(6, 2, 0, 4)[1], block[1]])
    assert len(np.unique(others, axis=0)) == 40


def test_the_walk_counts_what_rate_counts(block):
    np.testing.assert_array_equal(rate(block[0], 3, 3) * RATE_IMAGES, block[2])


def test_puzzles_are_harder_than_random_ones(block):
    assert rate(block[0], 3, 3).mean() > 10 * rate(generate(5, 2, 0, 500, 3, 3)[0], 3, 3).mean()


def test_hard_none_and_wrong_numbers():
    assert generate_hard(1, 0, 0, 0)[0].shape == (0, 81)
    with pytest.raises(ValueError, match="start, count"):
        generate_hard(1, 0, -1, 2)
    with pytest.raises(ValueError, match="start, count"):
        generate_hard(1, 0, 1 << 62, 1)
    with pytest.raises(ValueError, match="seed"):
        generate_hard(-1, 0, 0, 2)


@pytest.mark.slow
def test_ratings_are_those_of_sudoku_extreme(shared_data):
    puzzles, solutions, _ = generate_hard(1, 0, 0, 300)
    with (shared_data / "sudoku" / "sudoku_extreme_1k.csv").open() as file:
        questions = [row["question"] for row in csv.DictReader(file)]
    extreme = np.array([[int(c.replace(".", "0")) for c in question] for question in questions], np.uint8)
    quarters = (0.25, 0.5, 0.75)
    np.testing.assert_allclose(
        np.quantile(rate(puzzles, 3, 3), quarters), np.quantile(rate(extreme, 3, 3), quarters), rtol=0.25
    )
    forms = canonicalize(solutions, solutions, 3, 3).forms
    assert len(np.unique(forms, axis=0)) >= 0.9 * len(forms)
