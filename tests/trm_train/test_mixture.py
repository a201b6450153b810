"""Training on several datasets: their tokens, identifiers and tasks, the records of each, and refused cases."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import trm_data
from tests.harness.mixtures import MIXED, build_both, build_mazes, changed, run
from tests.support.roots import remove_dataset
from trm_data.errors import SpecError
from trm_data.loader.component import Component, place
from trm_data.storage.root import Layout, resolve_root
from trm_train.api import with_options
from trm_train.checkpoint.manager import Checkpoints
from trm_train.checkpoint.tree import state_tree
from trm_train.config.data import DataConfig, MixtureConfig
from trm_train.config.run import InputSpec
from trm_train.errors import CheckpointError
from trm_train.experiments.registry import find_experiment
from trm_train.mesh import fingerprints, make_mesh
from trm_train.metrics import CLOCKED, metrics_frame, read_metrics
from trm_train.runs.record import CONFIG_FILE, read_record
from trm_train.state import init_state
from trm_train.step.train import make_train_step
from trm_train.training.start import TrainResult

SPEC = InputSpec(sequence_length=36, vocabulary_size=13, num_identifiers=2)
SUMS = ("count", "exact_count", "q_halt_right_count", "steps_sum", "steps_squared_sum", "global_batch_size")


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    layout = resolve_root(tmp_path_factory.mktemp("mixed"))
    build_both(layout)
    return layout


@pytest.fixture(scope="module")
def trained(layout: Layout) -> TrainResult:
    return run(layout)


def final_state(result: TrainResult) -> dict[str, int]:
    record = result.record
    _, state = init_state(record.config, record.input_spec, record.config.data.global_batch_size, make_mesh())
    checkpoints = Checkpoints(result.folder)
    restored = checkpoints.restore(state)
    checkpoints.close()
    assert restored is not None
    return fingerprints(state_tree(restored.state))


def test_a_run_on_two_kinds_ends_and_its_record_has_both(layout: Layout, trained: TrainResult) -> None:
    assert (trained.finished, trained.step) == (True, 12)
    record = read_record(trained.folder)
    assert record == trained.record
    assert record.input_spec == SPEC
    manifests = [trm_data.open_dataset(name, layout).manifest for name in ("small", "mazes")]
    assert [each.dataset for each in record.mixture] == ["small", "mazes"]
    for what in ("content_digest", "identifiers_digest"):
        digests = [getattr(manifest, what) for manifest in manifests]
        assert [getattr(each, what) for each in record.mixture] == digests
        assert getattr(record, what) not in digests
    assert [(each.token_offset, each.identifier_offset) for each in record.mixture] == [(0, 0), (7, 1)]
    assert json.loads(trained.folder.read(CONFIG_FILE) or b"")["format_version"] == 6


def test_rows_by_dataset_add_up_to_the_total(trained: TrainResult) -> None:
    rows = read_metrics(trained.folder).to_pylist()
    for split, steps in (("train", range(1, 13)), ("validation", (6, 12))):
        of_split = [row for row in rows if row["split"] == split]
        totals = [row for row in of_split if row["dataset"] is None]
        assert [row["step"] for row in totals] == list(steps)
        for total in totals:
            parts = [row for row in of_split if row["step"] == total["step"] and row["dataset"]]
            assert [row["dataset"] for row in parts] == ["small", "mazes"]
            for name in SUMS:
                assert sum(row[name] for row in parts) == total[name], (split, total["step"], name)
            for name in ("accuracy_sum", "lm_loss_sum", "q_halt_loss_sum"):
                assert sum(row[name] for row in parts) == pytest.approx(total[name], rel=1e-5)
    validated = [row for row in rows if row["split"] == "validation" and row["step"] == 6]
    assert [row["count"] for row in validated] == [11, 8, 3]


def test_the_frame_of_a_run_has_total_rows_and_rows_by_dataset_on_request(trained: TrainResult) -> None:
    metrics = read_metrics(trained.folder)
    whole = metrics_frame(metrics, experiment="mixed", run="r")
    assert len(whole) == 12 + 2
    assert whole["dataset"].null_count() == 14
    both = metrics_frame(metrics, experiment="mixed", run="r", by_dataset=True)
    assert len(both) == 3 * 14
    mazes = both.filter(dataset="mazes", split="train")
    assert mazes["lm_loss"].to_list() == [
        pytest.approx(total / slots)
        for total, slots in zip(mazes["lm_loss_sum"], mazes["global_batch_size"], strict=True)
    ]


def test_resuming_gives_the_same_bits_and_metrics(
    trained: TrainResult, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trm_train.training import loop

    elsewhere = resolve_root(tmp_path)
    build_both(elsewhere)

    class KilledError(Exception):
        pass

    def killed(run, first, count, metrics, record=loop.note_steps):
        if first >= 6:
            run.checkpoints.wait()
            raise KilledError
        record(run, first, count, metrics)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "note_steps", killed)
        with pytest.raises(KilledError):
            run(elsewhere)
    again = run(elsewhere)
    assert again.started_at == 4
    assert final_state(again) == final_state(trained)

    def without_clock(result: TrainResult) -> list[dict]:
        return read_metrics(result.folder).drop_columns(list(CLOCKED)).to_pylist()

    assert without_clock(again) == without_clock(trained)


@pytest.mark.parametrize("execution", [{"steps_per_dispatch": 3}, {"micro_batches": 2}])
def test_how_it_is_carried_out_changes_no_count(
    layout: Layout, trained: TrainResult, tmp_path, execution: dict
) -> None:
    elsewhere = resolve_root(tmp_path)
    build_both(elsewhere)
    result = run(elsewhere, changed(execution=execution))
    names = ["step", "split", "dataset", "rows_digest", "global_batch_size"]
    assert read_metrics(result.folder).select(names).sort_by([(name, "ascending") for name in names[:3]]) == (
        read_metrics(trained.folder).select(names).sort_by([(name, "ascending") for name in names[:3]])
    )


def test_the_task_of_an_example_stays_with_it_in_the_carry(layout: Layout) -> None:
    definition, state = init_state(MIXED, SPEC, 8)
    step = jax.jit(make_train_step(MIXED, SPEC, definition))
    assert isinstance(MIXED.data, MixtureConfig)
    mixture = trm_data.open_mixture(MIXED.data.shares, layout)
    kept = 0
    with trm_data.make_loader(mixture, global_batch_size=8, seed=0) as loader:
        for _ in range(6):
            batch = next(loader)
            halted, held = np.asarray(state.carry.halted), np.asarray(state.carry.current["tasks"])
            state, metrics = step(state, batch)
            current = jax.device_get(state.carry.current)
            np.testing.assert_array_equal(current["tasks"], np.where(halted, batch["tasks"], held))
            np.testing.assert_array_equal(current["tasks"], current["puzzle_identifiers"])
            assert (current["inputs"][current["tasks"] == 1].max(axis=1) >= 8).all()
            assert (current["inputs"][current["tasks"] == 0] < 8).all()
            assert metrics["by_task"]["slots"].tolist() == np.bincount(current["tasks"], minlength=2).tolist()
            kept += int((held[~halted] != batch["tasks"][~halted]).sum())
    assert kept > 0  # the batch had another task for a slot that kept its example


def test_one_dataset_has_no_tasks_and_no_mixture_in_its_record(layout: Layout) -> None:
    config = changed(data=DataConfig(dataset="small", global_batch_size=8))
    config = dataclasses.replace(config, total_steps=3)
    result = run(layout, config)
    _, state = init_state(config, result.record.input_spec, 8)
    assert set(state.carry.current) == {"inputs", "labels", "puzzle_identifiers"}
    stored = json.loads(result.folder.read(CONFIG_FILE) or b"")
    assert "mixture" not in stored
    assert stored["format_version"] == 6
    assert read_metrics(result.folder)["dataset"].null_count == 4  # three steps and a validation


def test_a_dataset_built_differently_refuses_to_go_on(tmp_path) -> None:
    layout = resolve_root(tmp_path)
    build_both(layout)
    short = dataclasses.replace(MIXED, total_steps=4)
    run(layout, short)
    remove_dataset(layout, "mazes")
    build_mazes(layout, seed=9)
    with pytest.raises(CheckpointError, match="dataset mazes had content_digest"):
        run(layout, short)


def test_too_many_tokens_name_the_mixture() -> None:
    sizes = {"sequence_length": 4, "vocabulary_size": 200, "num_identifiers": 1}
    shared = {"content_digest": "", "identifiers_digest": "", **sizes}
    two = [Component(dataset=name, kind=name, **shared) for name in ("a", "b")]
    with pytest.raises(SpecError, match=r"mixture of a, b: too many tokens \(got 399; expected at most 256"):
        place(two)
    assert [each.token_offset for each in place([two[0], dataclasses.replace(two[1], kind="a")])] == [0, 0]


def test_a_component_moves_rows_there_and_back(layout: Layout) -> None:
    mixture = trm_data.open_mixture({"small": 1, "mazes": 1}, layout)
    mazes, component = mixture.datasets[1], mixture.components[1]
    own = mazes.read(np.arange(5))
    moved = component.encode(own, 36)
    assert moved["inputs"].shape == (5, 36)
    np.testing.assert_array_equal(moved["inputs"][:, :25], own["inputs"] + 7)
    assert not moved["inputs"][:, 25:].any()
    np.testing.assert_array_equal(component.decode(moved["labels"]), own["labels"])
    foreign = np.array([[0, 3, 7, 8, 12] + [0] * 31], np.uint8)
    assert component.decode(foreign)[0, :5].tolist() == [0, 0, 0, 1, 5]


def test_from_python_a_mixture_is_an_option_of_the_part_data() -> None:
    base = find_experiment("quickstart").make()
    options = {"form": "mixture", "datasets": ["small", "mazes"], "weights": [2, 1]}
    config = with_options(base, {"data": options})
    assert isinstance(config.data, MixtureConfig)
    assert config.data.shares == {"small": 2.0, "mazes": 1.0}
    assert config.data.global_batch_size == base.data.global_batch_size


def test_a_batch_keeps_the_tests_of_all_datasets_and_their_sums() -> None:
    from trm_train.batch import _in_one

    sums = ("count", "exact_count", "cells", "wrong_cells", "q_halt_right_count", "lm_loss_sum", "seconds")
    tests = [{"evaluation": name, **dict.fromkeys(sums, number)} for name, number in (("a", 2), ("b", 5))]
    found = _in_one(tests)
    assert (found["evaluation"], found["tests"]) == ("a", tests)
    assert {found[name] for name in sums} == {7}
    assert _in_one(tests[0]) == tests[0]
