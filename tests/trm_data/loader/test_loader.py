"""The loader: a pure function of the step, equal for any number of hosts, with nothing lost between epochs."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trm_data
from trm_data.errors import DatasetNotFoundError, SpecError
from trm_data.loader.pipeline import evaluation_batches
from trm_data.loader.plan import BatchPlan
from trm_data.loader.rows import GroupTable
from trm_data.storage.root import Layout


@pytest.fixture(scope="module")
def dataset(small_layout: Layout) -> trm_data.Dataset:
    return trm_data.open_dataset("small", small_layout.machine)


def batches(dataset: trm_data.Dataset, count: int, **options) -> list[dict]:
    with trm_data.make_loader(dataset, **{"global_batch_size": 16, "seed": 7, **options}) as loader:
        return [next(loader) for _ in range(count)]


def assert_equal(left: list[dict], right: list[dict]) -> None:
    for mine, theirs in zip(left, right, strict=True):
        for name in ("inputs", "labels", "puzzle_identifiers"):
            np.testing.assert_array_equal(mine[name], theirs[name])


def everything(dataset: trm_data.Dataset) -> dict:
    return dataset.read(np.arange(len(dataset)))


def test_a_batch_has_the_promised_shapes_and_types(dataset: trm_data.Dataset) -> None:
    batch = batches(dataset, 1)[0]
    assert {name: (value.dtype.name, value.shape) for name, value in batch.items()} == {
        "inputs": ("uint8", (16, 36)),
        "labels": ("uint8", (16, 36)),
        "puzzle_identifiers": ("int32", (16,)),
    }


@pytest.mark.parametrize("hosts", [1, 2, 4, 8])
def test_the_slices_of_all_hosts_are_the_batch_of_one(dataset: trm_data.Dataset, hosts: int) -> None:
    whole = batches(dataset, 7)
    slices = [batches(dataset, 7, process_index=i, process_count=hosts) for i in range(hosts)]
    joined = [
        {name: np.concatenate([host[step][name] for host in slices]) for name in whole[0]}
        for step in range(7)
    ]
    assert_equal(joined, whole)


@pytest.mark.parametrize("start", [1, 100])
def test_starting_at_a_step_continues_exactly(dataset: trm_data.Dataset, start: int) -> None:
    assert_equal(batches(dataset, 3, start_step=start), batches(dataset, start + 3)[start:])


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_threads_do_not_change_the_batches(dataset: trm_data.Dataset, threads: int) -> None:
    assert_equal(batches(dataset, 20, threads=threads), batches(dataset, 20))


def test_the_state_is_the_step(dataset: trm_data.Dataset) -> None:
    with trm_data.make_loader(dataset, global_batch_size=8, seed=0, start_step=5) as loader:
        next(loader)
        assert loader.step == 6


def test_an_epoch_holds_every_group_once(dataset: trm_data.Dataset) -> None:
    plan = BatchPlan(dataset.groups, seed=1, global_batch_size=8)
    assert dataset.epoch_examples == 24
    orders = []
    for epoch in range(20):
        rows = np.concatenate([plan.rows(epoch * 3 + i, 0, 8) for i in range(3)])
        groups = dataset.groups.picks(rows).groups
        assert sorted(groups.tolist()) == list(range(24))
        orders.append(tuple(groups.tolist()))
    assert len(set(orders)) == 20


def test_augmentations_are_drawn_evenly(dataset: trm_data.Dataset) -> None:
    plan = BatchPlan(dataset.groups, seed=5, global_batch_size=24)
    drawn = Counter(
        augmentation for step in range(500) for augmentation in plan.picks(step, 0, 24).augmentations.tolist()
    )
    assert set(drawn) == set(range(10))
    assert all(abs(count - 1200) < 5 * 1200**0.5 for count in drawn.values())


@settings(deadline=None, max_examples=60)
@given(
    shape=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), min_size=1, max_size=8),
    batch=st.integers(1, 30),
    seed=st.integers(0, 2**63 - 1),
    data=st.data(),
)
def test_nothing_is_lost_or_repeated_whatever_the_groups(shape, batch: int, seed: int, data) -> None:
    """Groups with several examples: every epoch has one augmentation of each group, with all its examples, once."""
    augmentations, examples = (np.array(column, np.int64) for column in zip(*shape, strict=True))
    first = np.concatenate([[0], np.cumsum(augmentations * examples)[:-1]])
    table = GroupTable(first, augmentations, examples)
    plan = BatchPlan(table, seed, batch)
    epoch = table.epoch_examples
    steps = -(-3 * epoch // batch)
    stream = np.concatenate([plan.rows(step, 0, batch) for step in range(steps)])
    for start in range(0, 3 * epoch - epoch + 1, epoch):
        rows = stream[start : start + epoch]
        groups = np.searchsorted(first, rows, side="right") - 1
        assert Counter(groups.tolist()) == Counter(dict(enumerate(examples.tolist())))
        for group in range(len(shape)):
            inside = rows[groups == group] - first[group]
            assert len(set((inside // examples[group]).tolist())) == 1
            assert sorted((inside % examples[group]).tolist()) == list(range(examples[group]))
    step = data.draw(st.integers(0, steps - 1))
    cut = data.draw(st.integers(0, batch))
    again = BatchPlan(table, seed, batch)
    parts = [again.rows(step, cut, batch), again.rows(step, 0, cut)]
    np.testing.assert_array_equal(np.concatenate(parts[::-1]), plan.rows(step, 0, batch))


def test_seeds_give_other_orders(dataset: trm_data.Dataset) -> None:
    first, second = batches(dataset, 1)[0], batches(dataset, 1, seed=8)[0]
    assert not np.array_equal(first["inputs"], second["inputs"])


def test_rows_beyond_the_budget_are_mapped_and_the_same(
    small_layout: Layout, dataset: trm_data.Dataset
) -> None:
    mapped = trm_data.open_dataset("small", small_layout.machine, budget_bytes=1)
    assert isinstance(mapped.reader.rows.inputs, np.memmap)
    assert_equal(batches(mapped, 5), batches(dataset, 5))


@pytest.mark.parametrize("column", ["inputs", "labels"])
def test_decoded_files_that_are_not_what_was_written_are_written_again(
    small_layout: Layout, column: str
) -> None:
    resident = trm_data.open_dataset("small", small_layout.machine, "test")
    mapped = trm_data.open_dataset("small", small_layout.machine, "test", budget_bytes=1)
    path = Path(mapped.reader.rows.inputs.filename).with_name(f"{column}.npy")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(b"half" if column == "inputs" else bytes(content))  # a kill while decoding, or damage
    again = trm_data.open_dataset("small", small_layout.machine, "test", budget_bytes=1)
    assert_equal([everything(again)], [everything(resident)])


@pytest.mark.parametrize(("batch_size", "limit"), [(5, 0), (12, 0), (50, 0), (5, 7), (5, 10)])
def test_evaluation_visits_every_row_once(small_layout: Layout, batch_size: int, limit: int) -> None:
    test = trm_data.open_dataset("small", small_layout.machine, "test")
    rows = []
    wanted = np.random.default_rng(0).permutation(len(test))[:limit] if limit else np.arange(len(test))
    for batch, some in evaluation_batches(test, batch_size, wanted if limit else None):
        assert batch["inputs"].shape == (batch_size, 36)
        assert not batch["labels"][len(some) :].any()
        rows.append(batch["inputs"][: len(some)])
    np.testing.assert_array_equal(np.concatenate(rows), everything(test)["inputs"][wanted])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"process_index": 2, "process_count": 2}, "process_index 2"),
        ({"start_step": -1}, "start_step -1"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_impossible_loaders(dataset: trm_data.Dataset, options: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        trm_data.make_loader(dataset, **{"global_batch_size": 16, "seed": 0, **options})


def test_unknown_names_and_splits(small_layout: Layout) -> None:
    with pytest.raises(DatasetNotFoundError, match=r"there are: small"):
        trm_data.open_dataset("nothing", small_layout.machine)
    with pytest.raises(SpecError, match="has no split 'dev'"):
        trm_data.open_dataset("small", small_layout.machine, "dev")


def test_datasets_and_loaders_say_what_they_are(dataset: trm_data.Dataset) -> None:
    assert repr(dataset) == "Dataset('small', split='train', examples=240, groups=24, sequence_length=36)"
    with trm_data.make_loader(dataset, global_batch_size=16, seed=0) as loader:
        assert repr(loader).startswith("BatchLoader(BatchSource(Dataset('small'")


def test_a_notebook_shows_datasets_and_puzzles(dataset: trm_data.Dataset) -> None:
    page = dataset._repr_html_()
    assert "<b>small</b>" in page
    assert "<td>240</td>" in page
    puzzle = dataset.puzzle(3)
    shown = puzzle._repr_html_()
    assert shown.count("<svg") == 3  # a row of two
    assert ">given</text>" in shown
    assert ">solution</text>" in shown
    assert repr(puzzle).count("\n") == 7  # six rows and a line between the boxes of 2x3
    with pytest.raises(IndexError, match="has 240"):
        dataset.puzzle(240)
    with pytest.raises(IndexError, match="whole numbers"):
        dataset.read(np.array([0.5]))


def test_a_name_is_no_dataset_and_half_a_slot_no_batch(small_layout: Layout) -> None:
    with pytest.raises(
        SpecError,
        match=r"'small': is a name, not an opened dataset. Open it: trm_data.open_dataset\('small'\)",
    ):
        trm_data.make_loader("small", global_batch_size=4, seed=0)  # pyright: ignore[reportArgumentType]
    dataset = trm_data.open_dataset("small", small_layout.machine)
    with pytest.raises(SpecError, match=r"global_batch_size 7.5: expected a whole number"):
        trm_data.make_loader(dataset, global_batch_size=7.5, seed=0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(SpecError, match="global_batch_size 0: expected at least 1"):
        trm_data.make_loader(dataset, global_batch_size=0, seed=0)
    with pytest.raises(SpecError, match="global_batch_size 7: expected a multiple of the 2 processes"):
        trm_data.make_loader(dataset, global_batch_size=7, seed=0, process_count=2)
