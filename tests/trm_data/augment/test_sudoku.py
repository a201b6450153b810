"""The symmetry group: its size, its numbering, and the compiled rows against the plain elements."""

import numpy as np
import pytest

from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.symmetry import (
    SudokuAugmenter,
    SudokuSymmetry,
    element_index,
    num_elements,
    num_symmetries,
)
from trm_data.symmetry.base import keyed_elements

SHAPES = [(2, 2), (2, 3), (3, 2), (3, 3), (3, 4), (4, 4), (2, 8)]


@pytest.mark.parametrize(
    ("boxes", "order"),
    [
        ((2, 2), 3072),
        ((2, 3), 2_488_320),
        ((3, 3), 1_218_998_108_160),
        ((4, 4), 2 * 24**10 * 20_922_789_888_000),
    ],
)
def test_group_order(boxes, order):
    assert num_symmetries(*boxes) == order
    assert num_elements(*boxes) == order if order < 2**62 else 2**61 < num_elements(*boxes) <= 2**62


def test_small_indices_give_the_whole_group():
    elements = [SudokuSymmetry.from_index(i, 2, 2) for i in range(3072)]
    assert elements[0] == SudokuSymmetry.identity(2, 2)
    assert len(set(elements)) == 3072
    assert [element.index for element in elements] == list(range(3072))


@pytest.mark.parametrize("boxes", SHAPES)
def test_indices_round_trip(boxes):
    count = num_elements(*boxes)
    rng = np.random.default_rng(1)
    for index in [0, 1, 2, count // 2, count - 1, *rng.integers(0, count, 50).tolist()]:
        assert SudokuSymmetry.from_index(index, *boxes).index == index
    with pytest.raises(ValueError, match="index: got"):
        SudokuSymmetry.from_index(count, *boxes)


def test_an_element_beyond_the_indices_says_so():
    digits = (2, 1, *range(3, 17))
    lines = tuple(range(16))
    with pytest.raises(ValueError, match="beyond"):
        _ = SudokuSymmetry(4, 4, False, lines, lines, digits).index


def test_apply_follows_its_definition():
    element = SudokuSymmetry.from_index(1_000_000_000_001, 3, 3)
    assert element.transpose
    old = generate(1, 0, 0, 1, 3, 3)[0][0].reshape(9, 9)
    new = element.apply(old.ravel()).reshape(9, 9)
    for i in range(9):
        for j in range(9):
            value = old.T[element.rows[i]][element.columns[j]]
            assert new[i, j] == (element.digits[value - 1] if value else 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transpose": True}, "not square"),
        ({"rows": (0, 2, 1, 3, 4, 5)}, "tears"),
        ({"rows": (0, 0, 2, 3, 4, 5)}, "permutation of 0..5"),
        ({"columns": (0, 1, 3, 2, 4, 5)}, "tears"),
        ({"digits": (0, 1, 2, 3, 4, 5)}, "permutation of 1..6"),
        ({"box_rows": 1}, "boxes"),
    ],
)
def test_what_is_no_symmetry_is_refused(change, message):
    lines = tuple(range(6))
    right = {
        "box_rows": 2,
        "box_columns": 3,
        "transpose": False,
        "rows": lines,
        "columns": lines,
        "digits": tuple(range(1, 7)),
    }
    SudokuSymmetry(**right)
    with pytest.raises(ValueError, match=message):
        SudokuSymmetry(**(right | change))


def test_composing_other_boxes_is_refused():
    with pytest.raises(ValueError, match="compose"):
        SudokuSymmetry.identity(2, 3).compose(SudokuSymmetry.identity(3, 2))


def test_augmentations_of_a_puzzle_are_distinct_and_complete():
    elements = [element_index(9, 4, k, 2, 2) for k in range(3072)]
    assert elements[0] == 0
    assert sorted(elements) == list(range(3072))
    assert elements != [element_index(9, 5, k, 2, 2) for k in range(3072)]
    with pytest.raises(ValueError, match="k: got 3072"):
        element_index(9, 4, 3072, 2, 2)


@pytest.mark.parametrize("boxes", SHAPES)
def test_rows_equal_the_elements(boxes):
    puzzles, solutions = generate(1, 0, 0, 3, *boxes)
    rng = np.random.default_rng(2)
    groups = rng.integers(0, 3, 60).astype(np.int32)
    ks = rng.integers(0, num_elements(*boxes), 60)
    ks[:5] = [0, 1, 2, 3, num_elements(*boxes) - 1]
    keys = np.array([7, 2**40, 0])
    inputs, labels = (np.zeros((60, puzzles.shape[1]), np.uint8) for _ in range(2))
    augmenter = SudokuAugmenter(puzzles, solutions, keys, 2**64 - 1, *boxes)
    elements = augmenter.fill(groups, ks, np.zeros(60, np.int64), inputs, labels).elements
    np.testing.assert_array_equal(elements, keyed_elements(2**64 - 1, keys, groups, ks, num_elements(*boxes)))
    for m in range(60):
        index = element_index(2**64 - 1, int(keys[groups[m]]), int(ks[m]), *boxes)
        assert elements[m] == index
        element = SudokuSymmetry.from_index(index, *boxes)
        np.testing.assert_array_equal(element.apply(puzzles[groups[m]]) + 1, inputs[m])
        np.testing.assert_array_equal(element.apply(solutions[groups[m]]) + 1, labels[m])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": np.array([3], np.int32)}, "groups"),
        ({"ks": np.array([-1])}, "ks"),
        ({"ks": np.array([1, 2])}, "not the same"),
        ({"keys": np.array([-1])}, "names"),
        ({"solutions": np.zeros((1, 16), np.uint8)}, "solutions"),
        ({"inputs": np.zeros((1, 15), np.uint8)}, "inputs"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    puzzles, solutions = generate(1, 0, 0, 1, 2, 2)
    right = {
        "puzzles": puzzles,
        "solutions": solutions,
        "keys": np.array([0]),
        "groups": np.array([0]),
        "ks": np.array([1]),
        "inputs": np.zeros((1, 16), np.uint8),
        "labels": np.zeros((1, 16), np.uint8),
    }

    def fill(puzzles, solutions, keys, groups, ks, inputs, labels):
        augmenter = SudokuAugmenter(puzzles, solutions, keys, 1, 2, 2)
        augmenter.fill(groups, ks, np.zeros_like(ks), inputs, labels)

    fill(**right)
    with pytest.raises(ValueError, match=message):
        fill(**(right | change))
