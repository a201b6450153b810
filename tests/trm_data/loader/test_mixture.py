"""A mixture: exact proportions in any window, one token space, equal batches for any hosts and any start."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import trm_data
from tests.conftest import small_request
from tests.trm_data.kinds.test_arc import task as arc_task
from trm_data.building.flow import build_dataset
from trm_data.errors import SpecError
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.loader.dataset import open_dataset
from trm_data.loader.mixture import Mixture, make_mixture, open_mixture
from trm_data.sources.base import parse_source
from trm_data.storage.root import resolve_root


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory):
    layout = resolve_root(tmp_path_factory.mktemp("mixture"))
    build_dataset(small_request(), layout)
    four = SudokuOptions(box_rows=2, box_columns=2)
    build_dataset(small_request(name="four", size=5, aug=20, val_size=0, test_size=0, options=four), layout)
    build_dataset(small_request(name="virtual", augment="virtual", seed=9), layout)
    return layout.machine


@pytest.fixture(scope="module")
def mixture(root) -> Mixture:
    return open_mixture({"small": 5, "four": 2.5, "virtual": 1}, root)


def batches(mixture: Mixture, count: int, **options) -> list[dict]:
    with trm_data.make_loader(mixture, **{"global_batch_size": 24, "seed": 3, **options}) as loader:
        return [next(loader) for _ in range(count)]


def assert_equal(left: list[dict], right: list[dict]) -> None:
    for mine, theirs in zip(left, right, strict=True):
        assert set(mine) == set(theirs) == {"inputs", "labels", "puzzle_identifiers", "tasks"}
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name])


@settings(deadline=None, max_examples=300)
@example(weights=[1.0, 1.0, 1.0], first=1, length=1)
@given(
    weights=st.lists(st.floats(0.01, 100), min_size=1, max_size=6),
    first=st.integers(0, 10**9),
    length=st.integers(1, 10**5),
)
def test_any_window_holds_every_share_and_nothing_is_taken_back(weights, first: int, length: int) -> None:
    mixed = Mixture((), tuple(map(_exact, weights)), (), 0)
    mixed = dataclasses.replace(mixed, weights=tuple(w / sum(mixed.weights) for w in mixed.weights))
    counts = mixed.filled(first + length) - mixed.filled(first)
    assert counts.sum() == length
    assert (counts >= 0).all()
    shares = np.array([float(weight) * length for weight in mixed.weights])
    assert (np.abs(counts - shares) <= max(1, len(weights) - 1).bit_length() + 1e-6).all()
    np.testing.assert_allclose(shares / length, np.array(weights) / sum(weights), atol=1e-5)


def _exact(weight: float):
    from fractions import Fraction

    return Fraction(weight).limit_denominator(10**6)


def test_a_hundred_batches_hold_the_weights_exactly(mixture: Mixture) -> None:
    every = batches(mixture, 130)
    for start in (0, 7, 30):
        window = np.concatenate([batch["tasks"] for batch in every[start : start + 100]])
        counts = np.bincount(window, minlength=3)
        assert np.abs(counts - 2400 * np.array([5, 2.5, 1]) / 8.5).max() <= 2


@pytest.mark.parametrize("hosts", [1, 2, 4, 8])
def test_the_slices_of_all_hosts_are_the_batch_of_one(mixture: Mixture, hosts: int) -> None:
    slices = [batches(mixture, 5, process_index=i, process_count=hosts) for i in range(hosts)]
    joined = [
        {name: np.concatenate([host[step][name] for host in slices]) for name in slices[0][step]}
        for step in range(5)
    ]
    assert_equal(joined, batches(mixture, 5))


@pytest.mark.parametrize("start", [1, 50])
def test_starting_at_a_step_continues_exactly(mixture: Mixture, start: int) -> None:
    assert_equal(batches(mixture, 3, start_step=start), batches(mixture, start + 3)[start:])


def test_every_row_is_the_next_one_of_its_dataset(mixture: Mixture, root) -> None:
    """Apart from the order of tasks, the rows of a task equal those of training on its dataset alone."""
    every = batches(mixture, 40)
    for task, dataset in enumerate(mixture.datasets):
        mine = np.concatenate([batch["inputs"][batch["tasks"] == task] for batch in every])
        with trm_data.make_loader(dataset, global_batch_size=len(mine), seed=3) as loader:
            alone = next(loader)["inputs"]
        cells = dataset.sequence_length
        assert not mine[:, cells:].any()
        back = np.where(mine[:, :cells] > 0, mine[:, :cells] - mixture.components[task].token_offset, 0)
        rows = sorted(row.tobytes() for row in back)
        assert rows == sorted(row.tobytes() for row in alone.astype(back.dtype))


def test_tokens_and_identifiers_have_ranges_of_their_own(mixture: Mixture) -> None:
    assert mixture.sequence_length == 36
    assert [each.token_offset for each in mixture.components] == [
        0,
        7,
        0,
    ]  # 6x6 has tokens 1 to 7, 4x4 then 8 to 12
    assert mixture.vocabulary_size == 13
    assert [each.identifier_offset for each in mixture.components] == [0, 1, 2]
    assert mixture.num_identifiers == 3
    for batch in batches(mixture, 10):
        np.testing.assert_array_equal(batch["puzzle_identifiers"], batch["tasks"])
        four = batch["inputs"][batch["tasks"] == 1][:, :16]
        assert four.min() >= 8
        assert four.max() <= 12


@pytest.mark.parametrize("weight", [0.0, float("nan"), 1e-9])
def test_weights_that_cannot_be(mixture: Mixture, weight: float) -> None:
    with pytest.raises(SpecError, match="weight"):
        make_mixture([(mixture.datasets[0], 1.0), (mixture.datasets[1], weight)])


def test_a_mixture_of_nothing() -> None:
    with pytest.raises(SpecError, match="at least one"):
        make_mixture([])


@pytest.mark.parametrize("augment", ["stored", "virtual"])
def test_puzzles_that_another_dataset_tests_are_refused_or_left_out(root, tmp_path, augment: str) -> None:
    """Half of the training puzzles are test puzzles of `small` with other digits."""
    tested = open_dataset("small", root, "test")
    fresh = open_dataset("small", root, "train")
    digits = np.array([0, 0, 2, 1, 3, 4, 5, 6])  # tokens: PAD, blank, then the digits, two of them exchanged
    grids = np.concatenate(
        [digits[tested[:6]["inputs"]], np.maximum(fresh[:60:10]["inputs"].astype(int) - 1, 0)]
    )
    lines = ["".join(map(str, grid)).replace("0", ".") for grid in grids.tolist()]
    (tmp_path / "mine.txt").write_text("\n".join(lines))
    name = f"mine-{augment}"
    source = parse_source(f"txt:{tmp_path / 'mine.txt'}")
    sizes = {"size": 12, "aug": 4, "val_size": 0, "test_size": 0, "augment": augment}
    build_dataset(small_request(name=name, source=source, **sizes), resolve_root(root))

    with pytest.raises(SpecError, match=rf"6 of 12 of {name} .*shared-puzzles drop"):
        open_mixture({"small": 1, name: 1}, root)
    mixture = open_mixture({"small": 1, name: 1}, root, shared_puzzles="drop")
    table, kept = mixture.kept(1)
    assert len(kept) == 6
    assert table.epoch_examples == 6
    mine = open_dataset(name, root)
    rows = {row.tobytes() for group in kept for row in mine[group * 5 : group * 5 + 5]["inputs"]}
    seen = {
        row.tobytes()
        for batch in batches(mixture, 40)
        for row in batch["inputs"][batch["tasks"] == 1].astype(np.uint8)
    }
    assert seen == rows


def test_a_task_that_another_arc_set_tests_is_refused_or_left_out(tmp_path) -> None:
    """As 376 of ARC-1's evaluation tasks, which ARC-2 has for training."""
    for name, training, evaluation in (("first", (1, 2), (3, 4)), ("second", (3, 5, 6), (7, 8))):
        for subset, seeds in (("training", training), ("evaluation", evaluation)):
            (tmp_path / name / subset).mkdir(parents=True)
            for seed in seeds:
                file = tmp_path / name / subset / f"{name}{seed}.json"
                file.write_text(json.dumps(arc_task(100 * seed)))
        source = f"repo:{tmp_path / name}"
        trm_data.build_dataset("arc", source=source, aug=2, root=tmp_path, name=name, quiet=True, workers=1)
    with pytest.raises(SpecError, match=r"1 of 5 of second .*shared-puzzles drop"):
        open_mixture({"first": 1, "second": 1}, tmp_path)
    mixture = open_mixture({"first": 1, "second": 1}, tmp_path, shared_puzzles="drop")
    assert [len(mixture.kept(at)[1]) for at in (0, 1)] == [4, 4]
