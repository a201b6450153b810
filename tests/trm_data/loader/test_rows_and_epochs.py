"""Datasets follow Python conventions: rows by number, slices, finite iteration, batches in order."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trm_data
from trm_data.errors import SpecError
from trm_data.loader import dataset as dataset_module
from trm_data.loader.dataset import Dataset
from trm_data.storage.root import Layout

NAMES = {"inputs", "labels", "puzzle_identifiers"}


@pytest.fixture(scope="module")
def train(small_layout: Layout) -> Dataset:
    return trm_data.open_dataset("small", small_layout)


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return set(one) == set(other) == NAMES and all(np.array_equal(one[name], other[name]) for name in NAMES)


def test_a_row_is_that_of_read(train: Dataset) -> None:
    row = train[7]
    assert same(row, {name: column[0] for name, column in train.read(np.array([7])).items()})
    assert (row["inputs"].shape, row["inputs"].dtype, row["puzzle_identifiers"].dtype) == (
        (36,),
        "uint8",
        "int32",
    )
    assert same(train[np.int64(7)], row)
    assert same(train[-1], train[len(train) - 1])
    assert repr(train.puzzle(-1)) == repr(train.puzzle(len(train) - 1))


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_slices_and_lists_are_those_of_a_python_list(train: Dataset, data: st.DataObject) -> None:
    rows = list(range(len(train)))
    part = data.draw(st.slices(len(rows)))
    assert same(train[part], train.read(np.array(rows[part], np.int64)))
    numbers = data.draw(st.lists(st.integers(-len(rows), len(rows) - 1), max_size=9))
    expected = train.read(np.array([rows[number] for number in numbers], np.int64))
    assert same(train[numbers], expected)
    assert same(train[np.array(numbers, np.int64)], expected)


@pytest.mark.parametrize(
    "index",
    [240, -241, [0, 240], [-241], 1.5, "7", [1.5], [True, False], None],
    ids=repr,
)
def test_no_such_row_is_an_index_error(train: Dataset, index: Any) -> None:
    with pytest.raises(IndexError):
        train[index]


def test_a_walk_gives_every_row_once_and_ends(train: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_module, "READ_AT_ONCE", 100)
    rows = list(train)
    assert len(rows) == len(train) == 240
    assert all(same(row, train[number]) for number, row in enumerate(rows))


def test_an_epoch_is_all_rows_in_order_and_may_be_walked_again(train: Dataset) -> None:
    epoch = trm_data.epoch(train, 64)
    for _ in range(2):
        batches = list(epoch)
        assert [len(batch["inputs"]) for batch in batches] == [64, 64, 64, 48]
        whole = {name: np.concatenate([batch[name] for batch in batches]) for name in NAMES}
        assert same(whole, train[:])
    assert len(epoch) == 4
    assert same(epoch[-1], train[192:])
    with pytest.raises(IndexError):
        epoch[4]
    assert [len(batch["inputs"]) for batch in trm_data.epoch(train, 64, drop_last=True)] == [64, 64, 64]
    assert list(trm_data.epoch(train, 241, drop_last=True)) == []
    with pytest.raises(SpecError, match="batch_size 0: expected at least 1"):
        trm_data.epoch(train, 0)


def test_worker_processes_of_other_frameworks_can_have_it(train: Dataset) -> None:
    """They pickle a dataset, ask for its length and for rows or batches by number, and expect IndexError at its end."""
    sent = pickle.loads(pickle.dumps(trm_data.epoch(train, 100)))  # noqa: S301
    assert [len(batch["labels"]) for batch in sent] == [100, 100, 40]
    assert same(pickle.loads(pickle.dumps(train))[5], train[5])  # noqa: S301


@pytest.mark.parametrize("index", [slice(0, 2), 1.5, "1", None], ids=repr)
def test_a_batch_is_asked_for_by_its_number(train: Dataset, index: Any) -> None:
    with pytest.raises(IndexError, match="expected a whole number"):
        trm_data.epoch(train, 64)[index]


@pytest.mark.parametrize("row", [1.5, "a", None], ids=repr)
def test_a_puzzle_is_asked_for_by_its_number(train: Dataset, row: Any) -> None:
    with pytest.raises(IndexError, match="expected a whole number"):
        train.puzzle(row)


@pytest.mark.parametrize("dataset", [None, 3, []], ids=repr)
def test_what_is_no_dataset_is_said(dataset: Any) -> None:
    for use in (trm_data.epoch, lambda it, size: trm_data.make_loader(it, global_batch_size=size, seed=0)):
        with pytest.raises(SpecError, match=r"expected an opened dataset: trm_data\.open_dataset\(NAME\)"):
            use(dataset, 64)
    with pytest.raises(SpecError, match=r"build_dataset\(3\): unknown name"):
        trm_data.build_dataset(3)  # pyright: ignore[reportArgumentType]


def test_an_epoch_says_what_it_cannot_be_of(train: Dataset) -> None:
    with pytest.raises(SpecError, match="is a name, not an opened dataset"):
        trm_data.epoch("train", 64)  # pyright: ignore[reportArgumentType]
    with pytest.raises(SpecError, match=r"batch_size 7\.5: expected a whole number"):
        trm_data.epoch(train, 7.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(SpecError, match="batch_size True: expected a whole number"):
        trm_data.epoch(train, True)
