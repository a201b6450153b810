"""Canonical hashes of ARC: equal exactly for images of each other; the list of known duplicates is complete.

Rows of ARC grids: the layout of the published builder, and encode and decode as inverses.
"""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trm_data.kinds.arc.choose import (
    EVALUATION2_HAS_OF_EVALUATION,
    KNOWN_DUPLICATES,
    TRAINING2_HAS_OF_EVALUATION,
    group_hash,
)
from trm_data.kinds.arc.encode import (
    ARC_CELLS,
    ARC_EOS,
    ARC_SIDE,
    Pair,
    decode_row,
    encode_pair,
    encode_pairs,
)
from trm_data.kinds.arc.source import read_tasks
from trm_data.kinds.arc.symmetry import NUM_SYMMETRIES, ArcSymmetry, pair_hashes
from trm_data.symmetry.dihedral import Dihedral


def grid(rng, largest=30, colours=10):
    return rng.integers(0, colours, tuple(rng.integers(1, largest + 1, 2))).astype(np.uint8)


def image_of(element, pair):
    """Return the images of both grids of an example; the output may be unknown."""
    return Pair(*(None if side is None else element.apply(side) for side in pair))


def equivalent(one, other):
    """Return whether a dihedral and a bijection of colours that keeps black map `one` to `other`."""
    for dihedral in range(8):
        images = [Dihedral(dihedral).apply(side) for side in one]
        if [image.shape for image in images] != [side.shape for side in other]:
            continue
        old, new = (np.concatenate([side.ravel() for side in sides]).tolist() for sides in (images, other))
        links = set(zip(old, new, strict=True)) | {(0, 0)}
        if len(links) == len({a for a, _ in links}) == len({b for _, b in links}):
            return True
    return False


@pytest.mark.integration
@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(0, NUM_SYMMETRIES - 1))
def test_images_have_the_same_hash(seed, index):
    rng = np.random.default_rng(seed)
    element = ArcSymmetry.from_index(index)
    pairs = [Pair(grid(rng), grid(rng)), Pair(grid(rng), None), Pair(grid(rng, 4, 3), grid(rng, 4, 3))]
    assert pair_hashes(pairs) == pair_hashes([image_of(element, pair) for pair in pairs])


def test_hashes_are_equal_only_for_images():
    rng = np.random.default_rng(1)
    pairs = [Pair(grid(rng, 2, 3), grid(rng, 2, 4)) for _ in range(150)]
    hashes = pair_hashes(pairs)
    equal = 0
    for a, b in itertools.combinations(range(len(pairs)), 2):
        assert (hashes[a] == hashes[b]) == equivalent(pairs[a], pairs[b])
        equal += hashes[a] == hashes[b]
    assert equal > 100


def test_shapes_black_and_missing_outputs_count():
    row = np.array([[1, 2]], np.uint8)
    black = np.array([[0, 2]], np.uint8)
    one = np.array([[1]], np.uint8)
    # The second to last has the cells of the third in other shapes.
    pairs = [
        Pair(row, None),
        Pair(black, None),
        Pair(row, one),
        Pair(row, 2 * one),
        Pair(one, np.array([[2, 1]], np.uint8)),
        Pair(row, 3 * one),
    ]
    hashes = pair_hashes(pairs)
    assert hashes[2] == hashes[3]
    assert len(set(hashes)) == 5
    assert all(len(name) == 32 for name in hashes)


def test_a_task_and_its_image_in_another_order_are_one():
    rng = np.random.default_rng(2)
    train, test = (
        [Pair(grid(rng), grid(rng)) for _ in range(4)],
        [Pair(grid(rng), grid(rng)) for _ in range(2)],
    )
    element = ArcSymmetry.from_index(1_234_567)
    image = [image_of(element, pair) for pair in [*test[::-1], *train[::-1]]]
    assert group_hash(pair_hashes([*train, *test])) == group_hash(pair_hashes(image))
    assert group_hash(pair_hashes([*train, *test])) != group_hash(pair_hashes(image[1:]))


def _exact(pair):
    return str((pair.input.tolist(), pair.output.tolist()))


@pytest.mark.parametrize(
    ("subsets", "known"),
    [
        (("training", "evaluation", "concept"), KNOWN_DUPLICATES),
        (("training2", "evaluation2", "concept"), ()),
    ],
)
def test_the_known_duplicates_are_all(shared_data, subsets, known):
    tasks = read_tasks("kaggle", shared_data / "arc", subsets).tasks
    train, test = [], []
    for task in tasks:
        train += [(task.name, pair) for pair in task.train]
        (test if task.subset == subsets[1] else train).extend((task.name, pair) for pair in task.test)
    for exact, names in (
        (True, [[_exact(pair) for _, pair in side] for side in (train, test)]),
        (False, [pair_hashes(pair for _, pair in side) for side in (train, test)]),
    ):
        places = {
            name: [i for i, other in enumerate(names[0]) if other == name]
            for name in set(names[0]) & set(names[1])
        }
        found = {
            (train[i][0], test[j][0]) for j, leaked in enumerate(names[1]) for i in places.get(leaked, [])
        }
        assert found == {(d.train_task, d.test_task) for d in known if d.exact or not exact}


def test_the_sets_share_what_is_said(shared_data):
    first = read_tasks("kaggle", shared_data / "arc", ["evaluation"]).tasks
    second = read_tasks("kaggle", shared_data / "arc", ["training2", "evaluation2"]).tasks
    of_first = {task.name: set(map(_exact, task.test)) for task in first}
    shared = [
        task for task in second if of_first.get(task.name, set()) & set(map(_exact, task.train + task.test))
    ]
    assert sum(task.subset == "training2" for task in shared) == TRAINING2_HAS_OF_EVALUATION
    assert tuple(t.name for t in shared if t.subset == "evaluation2") == EVALUATION2_HAS_OF_EVALUATION


SUBSETS = ("training", "evaluation", "concept")


def find_offset(tokens):
    """Return row and column of the first cell of a row's grid."""
    canvas = tokens.reshape(30, 30) != 0
    return int(canvas.any(axis=1).argmax()), int(canvas.any(axis=0).argmax())


def random_grid(rng, rows, columns):
    return rng.integers(0, 10, (rows, columns)).astype(np.uint8)


def test_a_small_grid_cell_by_cell():
    inputs, labels = encode_pair(np.array([[0, 9, 3]], np.uint8), np.array([[1], [2]], np.uint8), 2, 1)
    canvas = inputs.reshape(ARC_SIDE, ARC_SIDE)
    assert canvas[2:4, 1:5].tolist() == [[2, 11, 5, ARC_EOS], [ARC_EOS, ARC_EOS, ARC_EOS, 0]]
    assert np.count_nonzero(canvas) == 7
    canvas = labels.reshape(ARC_SIDE, ARC_SIDE)
    assert canvas[2:5, 1:3].tolist() == [[3, ARC_EOS], [4, ARC_EOS], [ARC_EOS, 0]]
    assert np.count_nonzero(canvas) == 5


def test_marks_stand_only_where_the_canvas_has_room():
    full = np.zeros((30, 30), np.uint8)
    inputs, labels = encode_pair(full, full[:29])
    assert (inputs == 2).all()
    assert (labels.reshape(30, 30)[29] == ARC_EOS).all()
    tall = encode_pair(full[:, :29], None)[0].reshape(30, 30)
    assert (tall[:, 29] == ARC_EOS).all()
    assert np.count_nonzero(tall == ARC_EOS) == 30


def test_an_unknown_output_is_all_pad():
    assert not encode_pair(np.ones((3, 3), np.uint8), None)[1].any()
    assert decode_row(np.zeros(ARC_CELLS, np.uint8)).shape == (0, 0)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.data())
def test_decoding_undoes_encoding(rows, columns, data):
    row_offset = data.draw(st.integers(0, 30 - rows))
    column_offset = data.draw(st.integers(0, 30 - columns))
    grid = random_grid(np.random.default_rng(data.draw(st.integers(0, 99))), rows, columns)
    inputs, labels = encode_pair(grid, grid, row_offset, column_offset)
    np.testing.assert_array_equal(inputs, labels)
    assert find_offset(inputs) == (row_offset, column_offset)
    np.testing.assert_array_equal(decode_row(inputs, row_offset, column_offset), grid)


@pytest.mark.parametrize(
    ("cell", "token", "message"),
    [
        (0, 0, "no full rectangle"),
        (31, 12, "got colour 10"),
        (32, 0, r"got token 0 at \(1, 2\)"),
        (899, 5, r"got token 5 at \(29, 29\), where a grid of 2x2 at offset \(0, 0\) has 0"),
    ],
)
def test_a_row_that_is_no_grid_is_refused(cell, token, message):
    inputs, _ = encode_pair(np.ones((2, 2), np.uint8), None)
    inputs[cell] = token
    with pytest.raises(ValueError, match=message):
        decode_row(inputs)


def test_the_wrong_offset_is_refused():
    inputs, _ = encode_pair(np.ones((2, 2), np.uint8), None, 3, 4)
    for offset in [(0, 0), (3, 3), (4, 4), (30, 0), (-1, 0)]:
        with pytest.raises(ValueError, match=r"offset|got token"):
            decode_row(inputs, *offset)


@pytest.mark.parametrize(
    ("grid", "offset", "message"),
    [
        (np.zeros((31, 1), np.uint8), 0, "got 31x1 cells"),
        (np.full((2, 2), 10, np.uint8), 0, "got colour 10"),
        (np.zeros((2, 2), np.int64), 0, "int64"),
        (np.zeros((2, 2), np.uint8), 29, "leaves"),
    ],
)
def test_what_cannot_be_encoded_is_refused(grid, offset, message):
    with pytest.raises(ValueError, match=message):
        encode_pair(grid, None, offset, 0)


def test_many_pairs_are_rows_and_sizes():
    rng = np.random.default_rng(1)
    pairs = [Pair(random_grid(rng, 3, 4), random_grid(rng, 5, 6)), Pair(random_grid(rng, 30, 1), None)]
    inputs, outputs, sizes = encode_pairs(pairs)
    assert sizes.tolist() == [[3, 4, 5, 6], [30, 1, 0, 0]]
    for e, pair in enumerate(pairs):
        expected = encode_pair(*pair)
        np.testing.assert_array_equal(inputs[e], expected[0])
        np.testing.assert_array_equal(outputs[e], expected[1])


@pytest.mark.parametrize("split", ["train", "test"])
def test_published_rows_are_ours(shared_data, split):
    folder = shared_data.parent / "fixtures" / "published_layout" / "arc"
    tasks = {task.name: task for task in read_tasks("kaggle", shared_data / "arc", SUBSETS).tasks}
    names = json.loads((folder / "identifiers.json").read_text())
    columns = {
        name: np.load(folder / split / f"all__{name}.npy")
        for name in ("inputs", "labels", "puzzle_identifiers", "puzzle_indices")
    }
    rows = 0
    for p, identifier in enumerate(columns["puzzle_identifiers"]):
        name, *element = names[identifier].split("|||")
        symmetry = (
            ArcSymmetry(int(element[0][1:]), tuple(map(int, element[1]))) if element else ArcSymmetry(0)
        )
        assert symmetry.published_name(name) == names[identifier]
        task = tasks[name]
        scored = task.subset == "evaluation"
        pairs = task.test if split == "test" else task.train + ([] if scored else task.test)
        start, stop = columns["puzzle_indices"][p : p + 2]
        left = [(pair.input.tolist(), pair.output.tolist()) for pair in pairs]
        untranslated = 0
        for row in range(start, stop):
            inputs, labels = columns["inputs"][row], columns["labels"][row]
            offset = find_offset(inputs)
            untranslated += offset == (0, 0)
            image = Pair(decode_row(inputs, *offset), decode_row(labels, *offset))
            for ours, published in zip(encode_pair(*image, *offset), (inputs, labels), strict=True):
                np.testing.assert_array_equal(ours, published)
            original = Pair(*map(symmetry.inverse().apply, image))
            left.remove((original.input.tolist(), original.output.tolist()))
            rows += 1
        assert not left
        assert untranslated == len(pairs) if split == "test" else untranslated >= 1
    assert rows == len(columns["inputs"]) > 0
