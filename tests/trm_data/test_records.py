"""The numbering of rows, against a plain loop over groups, augmentations and examples."""

import numpy as np
import pytest

from trm_data.records import Augmentations, Groups

NUM_AUGMENTATIONS = [3, 1, 2, 4]
NUM_EXAMPLES = [2, 5, 1, 3]


@pytest.fixture
def groups() -> Groups:
    """Return four groups with different numbers of augmentations and examples."""
    count, examples = len(NUM_EXAMPLES), sum(NUM_EXAMPLES)
    return Groups(
        inputs=np.zeros((examples, 1), np.uint8),
        labels=np.zeros((examples, 1), np.uint8),
        first_examples=np.array([0, 2, 7, 8, 11], np.int64),
        augmentations=Augmentations.of_lists([np.arange(number) for number in NUM_AUGMENTATIONS]),
        keys=np.arange(count, dtype=np.int64),
        first_identifiers=np.zeros(count, np.int32),
        canonical_hashes=[""] * count,
        source_files=[""] * count,
        source_rows=np.arange(count, dtype=np.int64),
    )


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (1, 3), (3, 4), (2, 2)])
def test_rows_are_numbered_in_their_stored_order(groups: Groups, start: int, stop: int) -> None:
    expected = [
        (group, augmentation, example)
        for group in range(start, stop)
        for augmentation in range(NUM_AUGMENTATIONS[group])
        for example in range(NUM_EXAMPLES[group])
    ]
    numbers = groups.numbered(start, stop)
    columns = (numbers.groups, numbers.augmentations, numbers.examples)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
    assert len(numbers) == len(expected)
    assert {column.dtype for column in columns} == {np.dtype(np.int64)}


@pytest.mark.parametrize("which", [[0, 1, 2, 3], [3, 0], []])
def test_augmentations_are_numbered_group_by_group(groups: Groups, which: list[int]) -> None:
    expected = [(group, position) for group in which for position in range(NUM_AUGMENTATIONS[group])]
    of_groups, positions = groups.augmentations.numbered(np.array(which, np.int64))
    assert list(zip(of_groups.tolist(), positions.tolist(), strict=True)) == expected


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (1, 4), (2, 3), (3, 5), (0, 2), (4, 4)])
def test_a_slice_of_augmentations_has_its_own_k_and_no_others(start: int, stop: int) -> None:
    lists = [np.array(ks, np.int32) for ks in ([0, 1, 2], [0, 4, 7], [0], [0, 2, 3, 9], [0, 1])]
    part = Augmentations.of_lists(lists).slice(start, stop)
    groups, positions = part.numbered(np.arange(len(part)))
    assert part.ks(groups, positions).tolist() == [k for ks in lists[start:stop] for k in ks.tolist()]
    irregular = (1, 3)
    assert len(part.listed) == sum(len(lists[group]) for group in irregular if start <= group < stop)
