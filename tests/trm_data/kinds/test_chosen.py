"""Chosen puzzles come in the order in which buckets take turns, in memory or in parts from the disk."""

from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trm_data.kinds import chosen
from trm_data.kinds.candidates import Candidates
from trm_data.kinds.chosen import Chosen
from trm_data.kinds.parted import GroupsInParts
from trm_data.records import Augmentations, Groups, single_examples

CELLS = 4


def candidates(numbers: list[int]) -> Candidates:
    rows = np.array(numbers, np.int64)
    cells = np.repeat(rows[:, None] % 251, CELLS, axis=1).astype(np.uint8)
    texts = np.array([f"class {number}" for number in numbers], np.str_)
    return Candidates(
        cells, cells + 1, rows, texts, rows + 1, {"rating": rows.astype(np.float32), "by": texts}
    )


def in_turn(buckets: list[list[int]]) -> list[int]:
    places = range(max(map(len, buckets), default=0))
    return [bucket[place] for place in places for bucket in buckets if place < len(bucket)]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=20), st.integers(50, 5_000)
)
def test_buckets_take_turns(added: list[tuple[int, int]], part_bytes: int) -> None:
    before, chosen.PART_BYTES = chosen.PART_BYTES, part_bytes
    try:
        held, buckets, number = Chosen(3, None), [[], [], []], 0
        for bucket, count in added:
            numbers = list(range(number, number + count))
            number += count
            buckets[bucket] += numbers
            held.add(bucket, candidates(numbers))
        assert len(held) == number
        parts = list(held.parts())
    finally:
        chosen.PART_BYTES = before
    expected = candidates(in_turn(buckets))
    found = Candidates.concatenate(parts)
    for name, values in expected.columns().items():
        assert found.columns()[name].tolist() == values.tolist(), name


def groups(first: int, count: int) -> Groups:
    """Every third is irregular."""
    chosen_ = candidates(list(range(first, first + count)))
    lists = [np.array([0, 2, 5] if (first + i) % 3 else [0, 1], np.int32) for i in range(count)]
    return Groups(
        inputs=chosen_.inputs,
        labels=chosen_.labels,
        first_examples=single_examples(count),
        augmentations=Augmentations.of_lists(lists),
        keys=chosen_.source_rows,
        first_identifiers=np.zeros(count, np.int32),
        canonical_hashes=chosen_.hashes.tolist(),
        source_files=["generated"] * count,
        source_rows=chosen_.source_rows,
        facts={
            "rating": chosen_.facts["rating"],
            "rating_source": ["solver"] * count,
            "task": [None] * count,
        },
    )


def same(one: Groups, other: Groups) -> bool:
    every = np.arange(len(one), dtype=np.int64)
    ks = [each.augmentations.ks(*each.augmentations.numbered(every)).tolist() for each in (one, other)]
    names = ("inputs", "labels", "first_examples", "keys", "first_identifiers", "source_rows")
    return ks[0] == ks[1] and all(
        getattr(one, name).tolist() == getattr(other, name).tolist() for name in names
    )


@pytest.fixture
def split(tmp_path: Path) -> GroupsInParts:
    """20 groups in parts of 7, 7 and 6."""
    found = GroupsInParts(tmp_path)
    for first in (0, 7, 14):
        found.append(groups(first, min(7, 20 - first)))
    return found


def test_a_split_on_the_disk_counts_as_one_in_memory(split: GroupsInParts) -> None:
    whole = groups(0, 20)
    counts = [(len(each), each.num_base, each.num_puzzles, each.num_examples) for each in (split, whole)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize(("start", "stop"), [(0, 20), (3, 5), (6, 8), (7, 14), (2, 19), (19, 20)])
def test_its_slices_are_those_in_memory_here_and_in_another_process(
    split: GroupsInParts, start: int, stop: int
) -> None:
    expected = groups(0, 20).slice(start, stop)
    there = split.slice(start, stop)
    assert same(there.whole(), expected)
    sent = ForkingPickler.loads(ForkingPickler.dumps(there))
    assert isinstance(sent, Groups)
    assert same(sent, expected)


def test_its_parts_have_their_facts(split: GroupsInParts) -> None:
    parts = list(split.parts())
    assert [(first, len(part)) for first, part in parts] == [(0, 7), (7, 7), (14, 6)]
    for first, part in parts:
        expected = groups(first, len(part))
        assert same(part, expected)
        assert part.canonical_hashes == expected.canonical_hashes
        assert part.source_files == expected.source_files
        for name, values in expected.facts.items():
            assert part.facts[name].to_pylist() == list(values)
