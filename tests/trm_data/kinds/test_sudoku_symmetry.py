"""Properties of Sudoku symmetries that hold for any element and any grid.

Canonical forms against the explicit group of 2x2 boxes, known automorphisms, and Royle's complete list.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.solve import solve
from trm_data.kinds.sudoku.symmetry import SudokuSymmetry, canonical_hashes, canonicalize, num_elements

SHAPES = st.sampled_from([(2, 2), (2, 3), (3, 2), (3, 3), (3, 4), (4, 4), (3, 5)])


@st.composite
def elements(draw, boxes):
    return SudokuSymmetry.from_index(draw(st.integers(0, num_elements(*boxes) - 1)), *boxes)


def grid(draw, boxes):
    side = boxes[0] * boxes[1]
    values = draw(st.binary(min_size=side * side, max_size=side * side))
    return np.frombuffer(values, np.uint8) % (side + 1)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_group_laws(data):
    boxes = data.draw(SHAPES)
    first = data.draw(elements(boxes))
    cells = grid(data.draw, boxes)
    np.testing.assert_array_equal(first.inverse().apply(first.apply(cells)), cells)
    assert first.inverse().inverse() == first


@settings(deadline=None, max_examples=50)
@given(st.data(), st.integers(0, 10_000))
def test_symmetries_keep_puzzles_valid(data, number):
    boxes = data.draw(st.sampled_from([(2, 2), (2, 3), (3, 3)]))
    element = data.draw(elements(boxes))
    puzzles, solutions = generate(8, 0, number, 1, *boxes)
    solved = solve(element.apply(puzzles), *boxes)
    assert solved.counts[0] == 1
    np.testing.assert_array_equal(solved.solutions, element.apply(solutions))


@settings(deadline=None, max_examples=100)
@given(st.data(), st.integers(0, 10_000))
def test_symmetries_keep_the_canonical_form(data, number):
    boxes = data.draw(st.sampled_from([(2, 2), (2, 3), (3, 2), (3, 3), (4, 4)]))
    element = data.draw(elements(boxes))
    puzzles, solutions = generate(9, 0, number, 1, *boxes)
    if data.draw(st.booleans()):
        puzzles = solutions
    before = canonicalize(puzzles, solutions, *boxes)
    after = canonicalize(element.apply(puzzles), element.apply(solutions), *boxes)
    np.testing.assert_array_equal(before.forms, after.forms)
    np.testing.assert_array_equal(before.automorphisms, after.automorphisms)


SUDOKU = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "sudoku"
needs_lists = pytest.mark.skipif(not SUDOKU.is_dir(), reason=f"no puzzle lists at {SUDOKU}")


def parse(lines):
    text = "".join(lines).replace(".", "0")
    return (np.frombuffer(text.encode(), np.uint8) - ord("0")).reshape(len(lines), -1)


def linear_grid(size):
    """A very symmetric full grid of size x size boxes: digits are linear in rows and columns."""
    a, b, x, y = np.meshgrid(*[np.arange(size)] * 4, indexing="ij")
    mixed = (lambda u, v: u ^ v) if size == 4 else (lambda u, v: (u + v) % size)
    return (mixed(a, y) * size + mixed(b, x) + 1).reshape(1, -1).astype(np.uint8)


def test_forms_of_small_puzzles_equal_the_explicit_orbits():
    """For 2x2 boxes: the orbit is the smallest image over all 3,072 elements; also check the stabilizer's size."""
    puzzles, solutions = generate(1, 0, 0, 150, 2, 2)
    more, full = generate(2, 0, 0, 50, 2, 2)
    puzzles = np.concatenate([puzzles, full, np.where(np.arange(16) % 2, full, more)])
    solutions = np.concatenate([solutions, full, full])
    orbits = np.stack([SudokuSymmetry.from_index(i, 2, 2).apply(puzzles) for i in range(3072)])
    canonical = canonicalize(puzzles, solutions, 2, 2)
    smallest = [min(images.tolist()) for images in orbits.swapaxes(0, 1)]
    forms = canonical.forms.tolist()
    for i in range(len(puzzles)):
        assert forms[i] in orbits[:, i].tolist()
        assert canonical.automorphisms[i] == (orbits[:, i] == puzzles[i]).all(axis=1).sum()
        for j in range(i):
            assert (forms[i] == forms[j]) == (smallest[i] == smallest[j])
    assert canonical.automorphisms.max() > 1
    assert len(set(map(tuple, forms))) > 5


@pytest.mark.parametrize(("size", "automorphisms"), [(2, 32), (3, 648), (4, 18432)])
def test_very_symmetric_grids(size, automorphisms):
    grid = linear_grid(size)
    element = SudokuSymmetry.from_index(num_elements(size, size) // 3, size, size)
    for image in (grid, element.apply(grid)):
        canonical = canonicalize(image, image, size, size)
        assert canonical.automorphisms[0] == automorphisms
    np.testing.assert_array_equal(canonical.forms, canonicalize(grid, grid, size, size).forms)


def test_the_form_is_an_image_with_the_same_clue_count_and_one_solution():
    puzzles, solutions = generate(5, 0, 0, 50, 3, 3)
    forms = canonicalize(puzzles, solutions, 3, 3).forms
    np.testing.assert_array_equal((forms > 0).sum(1), (puzzles > 0).sum(1))
    assert (solve(forms, 3, 3).counts == 1).all()


def test_one_clue_moved_is_another_form():
    puzzles, solutions = generate(6, 0, 0, 1, 3, 3)
    added = np.repeat(puzzles, 81, axis=0)
    np.fill_diagonal(added, solutions[0])
    forms = canonicalize(added, np.repeat(solutions, 81, axis=0), 3, 3).forms
    assert len({form.tobytes() for form in forms}) == int((puzzles == 0).sum()) + 1


def test_hashes_name_form_and_boxes():
    forms = np.zeros((2, 36), np.uint8)
    forms[1, 0] = 1
    names = canonical_hashes(forms, 2, 3) + canonical_hashes(forms, 3, 2)
    assert len(set(names)) == 4
    assert all(len(name) == 32 for name in names)
    assert canonical_hashes(forms, 2, 3) == names[:2]


def test_what_is_no_solution_is_refused():
    puzzles, solutions = generate(1, 0, 0, 2, 3, 3)
    with pytest.raises(ValueError, match="row 0 is not a solution"):
        canonicalize(puzzles, solutions[::-1], 3, 3)
    with pytest.raises(ValueError, match="not the same"):
        canonicalize(puzzles, solutions[:1], 3, 3)


@needs_lists
def test_royle_puzzles_differ_and_hold_the_17_clue_rows_of_sudoku_extreme():
    lines = (SUDOKU / "royle_17_clue.txt").read_text().splitlines()
    royle = parse([line.split()[0] for line in lines if line and not line.startswith("#")])
    forms = canonicalize(royle, solve(royle, 3, 3, limit=1).solutions, 3, 3).forms
    names = canonical_hashes(forms, 3, 3)
    assert len(names) == 49_158 == len(set(names))
    with (SUDOKU / "sudoku_extreme_1k.csv").open() as file:
        rows = list(csv.DictReader(file))
    puzzles, answers = parse([row["question"] for row in rows]), parse([row["answer"] for row in rows])
    in_royle = np.isin(canonical_hashes(canonicalize(puzzles, answers, 3, 3).forms, 3, 3), names)
    np.testing.assert_array_equal(in_royle, (puzzles > 0).sum(axis=1) == 17)
    assert in_royle.sum() == 14
