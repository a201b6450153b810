"""The ARC group: its numbering, distinct augmentations, and the compiled rows against the plain elements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trm_data.kinds.arc.encode import ARC_CELLS, Pair, encode_pair, encode_pairs
from trm_data.kinds.arc.source import read_tasks
from trm_data.kinds.arc.symmetry import (
    NUM_SYMMETRIES,
    ArcAugmenter,
    ArcSymmetry,
    colour_maps,
    distinct_augmentations,
    element_index,
    puzzle_key,
    untranslate,
)
from trm_data.seeds.draws import Purpose, WordStream

ELEMENTS = st.builds(
    lambda dihedral, colours: ArcSymmetry(dihedral, (0, *colours)),
    st.integers(0, 7),
    st.permutations(range(1, 10)),
)
SEED = 11


def grid(rng, rows=None, columns=None, colours=10):
    rows, columns = rows or int(rng.integers(1, 31)), columns or int(rng.integers(1, 31))
    return rng.integers(0, colours, (rows, columns)).astype(np.uint8)


def random_tasks(rng):
    """Tasks of 1 to 5 pairs of all sizes, some without output."""
    tasks = [
        [Pair(grid(rng), None if rng.random() < 0.2 else grid(rng)) for _ in range(int(rng.integers(1, 6)))]
        for _ in range(6)
    ]
    tasks.append([Pair(grid(rng, 30, 30), grid(rng, 30, 30)), Pair(grid(rng, 1, 1), grid(rng, 1, 30))])
    return tasks


def augmenter(tasks, keys, translate, seed=SEED):
    first = np.concatenate([[0], np.cumsum([len(pairs) for pairs in tasks])]).astype(np.int64)
    rows = encode_pairs(pair for pairs in tasks for pair in pairs)
    return ArcAugmenter(*rows, first, np.array(keys, np.int64), seed, translate)


def slots(tasks, ks):
    chosen = [(g, k, e) for g, pairs in enumerate(tasks) for k in ks for e in range(len(pairs))]
    chosen = [chosen[i] for i in np.random.default_rng(0).permutation(len(chosen))]
    return tuple(np.array(column, np.int64) for column in zip(*chosen, strict=True))


def fill(maker, groups, ks, examples):
    inputs = np.full((len(groups), ARC_CELLS), 77, np.uint8)
    labels = inputs.copy()
    made = maker.fill(groups, ks, examples, inputs, labels)
    return inputs, labels, made.elements, made.offsets


def slow_offset(images, example, key, k, seed=SEED):
    stream = WordStream(seed, Purpose.TRANSLATE, key, k)
    fixed = stream.bounded(len(images))
    offset = (0, 0)
    for image in images[: example + 1]:
        shapes = [side.shape for side in image if side is not None]
        offset = tuple(stream.bounded(31 - max(shape[axis] for shape in shapes)) for axis in (0, 1))
    return (0, 0) if example == fixed else offset


def test_colour_maps_in_bulk_are_those_of_the_values():
    elements = np.array([0, 7, 8, 13, 40, 322_567, NUM_SYMMETRIES - 1, 98_763])
    expected = [ArcSymmetry.from_index(element).colours for element in elements.tolist()]
    assert [tuple(row) for row in colour_maps(elements).tolist()] == expected
    assert colour_maps(elements[:0]).shape == (0, 10)


def test_group_order_and_identity():
    assert NUM_SYMMETRIES == 2_903_040
    assert ArcSymmetry.from_index(0) == ArcSymmetry(0)
    assert ArcSymmetry.from_index(8) == ArcSymmetry(0, (0, 1, 2, 3, 4, 5, 6, 7, 9, 8))
    assert ArcSymmetry.from_index(NUM_SYMMETRIES - 1) == ArcSymmetry(7, (0, 9, 8, 7, 6, 5, 4, 3, 2, 1))


@given(st.integers(0, NUM_SYMMETRIES - 1))
def test_indices_round_trip(index):
    assert ArcSymmetry.from_index(index).index == index


@given(ELEMENTS, st.integers(0, 2**32))
def test_inverse_undoes(element, seed):
    old = grid(np.random.default_rng(seed))
    np.testing.assert_array_equal(element.inverse().apply(element.apply(old)), old)
    assert element.inverse().compose(element) == ArcSymmetry(0)
    assert ArcSymmetry.from_index(element.index) == element


@given(ELEMENTS, ELEMENTS, st.integers(0, 2**32))
def test_composition_applies_the_argument_first(second, first, seed):
    old = grid(np.random.default_rng(seed))
    np.testing.assert_array_equal(second.compose(first).apply(old), second.apply(first.apply(old)))


def test_apply_maps_colours_then_turns():
    element = ArcSymmetry(1, (0, 2, 3, 1, 4, 5, 6, 7, 8, 9))
    assert element.apply(np.array([[0, 1, 2]], np.uint8)).tolist() == [[3], [2], [0]]


@given(ELEMENTS)
def test_published_names_round_trip(element):
    assert ArcSymmetry.from_published_name(element.published_name("6150a2bd")) == ("6150a2bd", element)


def test_published_names_look_like_the_published_ones():
    name = "6150a2bd|||t4|||0614732958"
    assert ArcSymmetry(4, (0, 6, 1, 4, 7, 3, 2, 9, 5, 8)).published_name("6150a2bd") == name
    assert ArcSymmetry(0).published_name("6150a2bd") == "6150a2bd"
    for wrong in ("x|||t8|||0123456789", "x|||t1|||1023456789", "x|||t1|||0123456788", "x|||t1"):
        with pytest.raises(ValueError, match="got"):
            ArcSymmetry.from_published_name(wrong)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ArcSymmetry(8), "got 8"),
        (lambda: ArcSymmetry(0, tuple(range(9))), "permutation of 0..9"),
        (lambda: ArcSymmetry(0, (1, 0, *range(2, 10))), "keeps 0"),
        (lambda: ArcSymmetry.from_index(NUM_SYMMETRIES), "index: got 2903040"),
        (lambda: ArcSymmetry.from_index(-1), "index: got -1"),
        (lambda: element_index(0, 0, NUM_SYMMETRIES), "k: got"),
        (lambda: distinct_augmentations([[]], [0], 0, 3), "task 0 has no pairs"),
        (lambda: distinct_augmentations([], [0], 0, 3), "0 tasks and 1 keys"),
        (lambda: distinct_augmentations([], [], 0, -1), "aug: got -1"),
    ],
)
def test_what_is_not_allowed_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_puzzle_keys_are_the_names_hash():
    assert puzzle_key("") == 0xE3B0C44298FC1C14 >> 2
    assert puzzle_key("007bbfb7") != puzzle_key("00d62c1b")


def test_elements_are_distinct_and_depend_on_seed_and_task():
    first = [element_index(1, 5, k) for k in range(2000)]
    assert first[0] == 0
    assert len(set(first)) == 2000
    assert first[1:] != [element_index(2, 5, k) for k in range(1, 2000)]
    assert first[1:] != [element_index(1, 6, k) for k in range(1, 2000)]


@pytest.mark.parametrize("translate", [False, True])
def test_compiled_rows_are_the_plain_ones(translate):
    tasks = random_tasks(np.random.default_rng(2))
    keys = [puzzle_key(f"task{g}") for g in range(len(tasks))]
    wanted = slots(tasks, [0, 1, 2, 3, 50, 999_999, NUM_SYMMETRIES - 1])
    inputs, labels, elements, offsets = fill(augmenter(tasks, keys, translate), *wanted)
    moved = 0
    for n, (g, k, e) in enumerate(zip(*(column.tolist() for column in wanted), strict=True)):
        assert elements[n] == element_index(SEED, keys[g], k)
        element = ArcSymmetry.from_index(elements[n])
        images = [element.apply_pair(pair) for pair in tasks[g]]
        offset = slow_offset(images, e, keys[g], k) if translate else (0, 0)
        assert tuple(offsets[n]) == offset
        moved += offset != (0, 0)
        expected = encode_pair(*images[e], *offset)
        np.testing.assert_array_equal(inputs[n], expected[0])
        np.testing.assert_array_equal(labels[n], expected[1])
    assert bool(moved) == translate
    assert len({int(element) & 7 for element in elements}) == 8


def test_one_example_of_each_puzzle_stays_and_the_others_go_everywhere():
    tasks = [[Pair(np.ones((28, 29), np.uint8), np.ones((1, 1), np.uint8)) for _ in range(3)]]
    groups, ks, examples = slots(tasks, range(1, 400))
    _, _, elements, offsets = fill(augmenter(tasks, [3], True), groups, ks, examples)
    turned = np.isin(elements & 7, (1, 3, 6, 7))
    offsets[turned] = offsets[turned, ::-1]
    assert set(map(tuple, offsets.tolist())) == {(r, c) for r in range(3) for c in range(2)}
    at_corner = (offsets == 0).all(axis=1)
    kept = np.zeros((400, 3), bool)
    kept[ks, examples] = at_corner
    assert kept[1:].any(axis=1).all()
    by_chance = 1 / 3 + 2 / 3 / 6
    assert abs(kept[1:].mean(axis=0) - by_chance).max() < 0.08


def test_translation_depends_on_neither_the_other_tasks_nor_the_order():
    tasks = random_tasks(np.random.default_rng(3))
    keys = list(range(len(tasks)))
    groups, ks, examples = slots(tasks, range(4))
    everything = fill(augmenter(tasks, keys, True), groups, ks, examples)
    of_two = groups == 2
    alone = fill(augmenter(tasks[2:3], keys[2:3], True), groups[of_two] * 0, ks[of_two], examples[of_two])
    for all_rows, rows in zip(everything, alone, strict=True):
        np.testing.assert_array_equal(all_rows[of_two], rows)


def test_untranslating_gives_the_untranslated_rows():
    tasks = random_tasks(np.random.default_rng(4))
    keys = list(range(len(tasks)))
    wanted = slots(tasks, range(12))
    inputs, labels, _, offsets = fill(augmenter(tasks, keys, True), *wanted)
    straight = fill(augmenter(tasks, keys, False), *wanted)
    for moved, expected in zip(untranslate(inputs, labels, offsets), straight[:2], strict=True):
        np.testing.assert_array_equal(moved, expected)


@pytest.mark.parametrize(
    ("cell", "token"), [(0, 5), (3 * 30 + 4, 0), (3 * 30 + 4, 12), (3 * 30 + 6, 0), (5 * 30 + 6, 1), (899, 2)]
)
def test_untranslating_refuses_a_row_that_is_no_grid(cell, token):
    inputs, labels = (row[None].copy() for row in encode_pair(np.ones((2, 2), np.uint8), None, 3, 4))
    offsets = np.array([[3, 4]], np.uint8)
    untranslate(inputs, labels, offsets)
    inputs[0, cell] = token
    with pytest.raises(ValueError, match=r"inputs: row 0 is not the encoding of a grid at offset \(3, 4\)"):
        untranslate(inputs, labels, offsets)
    with pytest.raises(ValueError, match="inputs: row 0"):
        untranslate(labels, labels, offsets)


def test_untranslating_refuses_an_offset_off_the_canvas():
    rows = encode_pair(np.ones((2, 2), np.uint8), np.ones((2, 2), np.uint8))
    with pytest.raises(ValueError, match="inputs: row 0"):
        untranslate(rows[0][None], rows[1][None], np.array([[200, 30]], np.uint8))


def slow_distinct(pairs, key, seed, aug):
    seen, kept = set(), []
    for k in range(5 * aug + 1):
        element = ArcSymmetry.from_index(element_index(seed, key, k))
        images = [element.apply_pair(pair) for pair in pairs]
        grids = tuple(
            sorted(
                tuple((side.shape, side.tobytes()) for side in image if side is not None) for image in images
            )
        )
        if grids not in seen:
            seen.add(grids)
            kept.append(k)
        if len(kept) == aug + 1:
            break
    return kept


def test_distinct_augmentations_are_those_of_the_definition():
    rng = np.random.default_rng(5)
    blank = np.zeros((3, 3), np.uint8)
    dot = np.array([[1]], np.uint8)
    lines = np.array([[1, 1, 1], [2, 2, 2]], np.uint8)
    # Two pairs that the left-right flip exchanges: the set of grids is symmetric, no grid is.
    mirrored = np.array([[1, 0], [1, 2]], np.uint8)
    # 1 to 2, 2 to 3, 3 to 1: exchanging 1 and 2 keeps the inputs and the outputs, but not the pairs.
    cycle = [Pair(dot, 2 * dot), Pair(2 * dot, 3 * dot), Pair(3 * dot, dot)]
    tasks = [
        [Pair(blank, blank)],
        [Pair(dot, dot)],
        [Pair(dot, None), Pair(blank, dot)],
        [Pair(lines, dot)],
        cycle,
        [Pair(mirrored, blank), Pair(mirrored[:, ::-1].copy(), blank)],
        [Pair(grid(rng, 3, 3, 3), grid(rng, 3, 3, 3))],
        *random_tasks(rng)[:3],
    ]
    keys = [puzzle_key(f"task{i}") for i in range(len(tasks))]
    ours = distinct_augmentations(tasks, keys, SEED, 60)
    assert [len(ks) for ks in ours[:3]] == [1, 9, 9]
    for pairs, key, ks in zip(tasks, keys, ours, strict=True):
        assert ks.dtype == np.int32
        assert ks.tolist() == slow_distinct(pairs, key, SEED, 60)


def test_without_augmentations_there_is_the_task_itself():
    assert [
        ks.tolist() for ks in distinct_augmentations([[Pair(np.ones((2, 2), np.uint8), None)]], [1], 0, 0)
    ] == [[0]]


@pytest.mark.parametrize(
    ("subsets", "puzzles", "short"),
    [
        (("training", "evaluation", "concept"), 876_400, 164),
        (("training2", "evaluation2", "concept"), 1_191_700, 175),
    ],
)
def test_the_published_sets_have_the_published_sizes(shared_data, subsets, puzzles, short):
    tasks = read_tasks("kaggle", shared_data / "arc", subsets).tasks
    keys = [puzzle_key(task.name) for task in tasks]
    kept = distinct_augmentations([task.train + task.test for task in tasks], keys, SEED, 1000)
    counts = np.array([len(ks) for ks in kept])
    assert abs(counts.sum() - puzzles) < 100
    assert (counts < 1001).sum() == short


def test_the_augmenter_refuses_what_does_not_fit():
    tasks = [[Pair(np.ones((2, 2), np.uint8), None)]]
    maker = augmenter(tasks, [1], True)
    one, zero = np.ones(1, np.int64), np.zeros(1, np.int64)
    for numbers, message in [
        ((one, zero, zero), "groups: got 1 to 1"),
        ((zero, -one, zero), "ks: got -1"),
        ((zero, NUM_SYMMETRIES * one, zero), "ks: got 2903040"),
        ((zero, zero, one), "examples: got 1, but group 0 has 1"),
        ((zero, zero, -one), "examples: got -1"),
        ((zero.astype(np.int32), zero, zero), "groups: got int32"),
        ((zero, np.zeros(2, np.int64), zero), "ks: got int64"),
    ]:
        with pytest.raises(ValueError, match=message):
            fill(maker, *numbers)
    rows = encode_pairs(tasks[0])
    with pytest.raises(ValueError, match="first_examples"):
        ArcAugmenter(*rows, np.array([0, 2]), np.array([1]), 0, True)
    with pytest.raises(ValueError, match="puzzle_keys"):
        ArcAugmenter(*rows, np.array([0, 1]), np.array([-1]), 0, True)
    with pytest.raises(ValueError, match="sizes"):
        ArcAugmenter(*rows[:2], rows[2] * np.uint8(16), np.array([0, 1]), np.array([1]), 0, True)
    with pytest.raises(ValueError, match="token above 11"):
        ArcAugmenter(rows[0] + np.uint8(9), *rows[1:], np.array([0, 1]), np.array([1]), 0, True)
