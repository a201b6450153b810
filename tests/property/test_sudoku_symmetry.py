"""Properties of Sudoku symmetries that hold for any element and any grid."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.solve import solve
from trm_data.kinds.sudoku.symmetry import SudokuSymmetry, canonicalize, num_elements

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
    first, second, third = (data.draw(elements(boxes)) for _ in range(3))
    cells = grid(data.draw, boxes)
    np.testing.assert_array_equal(first.inverse().apply(first.apply(cells)), cells)
    np.testing.assert_array_equal(second.compose(first).apply(cells), second.apply(first.apply(cells)))
    assert third.compose(second).compose(first) == third.compose(second.compose(first))
    assert first.compose(first.inverse()) == SudokuSymmetry.identity(*boxes)
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
