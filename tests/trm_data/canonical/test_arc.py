"""Canonical hashes of ARC: equal exactly for images of each other; the list of known duplicates is complete."""

import itertools

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
from trm_data.kinds.arc.encode import Pair
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
