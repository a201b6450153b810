"""Plan of a batch: each run once, even with several names; separate devices for each job."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from trm_data.storage.root import resolve_root
from trm_train import batch
from trm_train.batch import missing_datasets, plan_batch, shares
from trm_train.cli import main
from trm_train.commands.batch import change_of
from trm_train.config.run import RunConfig
from trm_train.errors import ConfigError
from trm_train.experiments.registry import select_experiments
from trm_train.experiments.setting import Setting

TINY = Setting("tiny", "generated")


def test_aliases_run_once_and_keep_their_names(tmp_path: Path) -> None:
    items = select_experiments(["exp07", "exp03b", "exp09a"], TINY)
    runs = plan_batch(items, [0, 1], resolve_root(tmp_path))
    assert [(run.experiment.name, run.names, run.config.seed) for run in runs] == [
        ("baseline", ("exp03b", "exp07a", "exp09a"), 0),
        ("exp07b", ("exp07b",), 0),
        ("exp07c", ("exp07c",), 0),
        ("baseline", ("exp03b", "exp07a", "exp09a"), 1),
        ("exp07b", ("exp07b",), 1),
        ("exp07c", ("exp07c",), 1),
    ]
    assert len({run.run for run in runs}) == 6
    assert runs[0].folder.path == f"runs/baseline/baseline/{runs[0].run}"
    assert all(run.cost is not None and run.cost.training_flops > 1e12 for run in runs)
    for run in runs:  # ten validations of 200 puzzles and a test of 1,000
        assert run.cost is not None
        assert run.testing_flops == run.cost.evaluation_flops * (10 * 200 + 1_000)
    (arc,) = plan_batch(
        select_experiments(["trm_arc1"], Setting("full", "published")), [0], resolve_root(tmp_path)
    )
    assert arc.cost is not None
    assert arc.testing_flops is None


def test_overrides_that_make_two_experiments_equal_are_noted(tmp_path: Path) -> None:
    def wide(config: RunConfig) -> RunConfig:
        return dataclasses.replace(
            config, model=dataclasses.replace(config.model, hidden_size=96, num_heads=4)
        )

    items = select_experiments(["exp01a", "exp01b", "exp02a_01"], TINY)
    notes = [run.note for run in plan_batch(items, [0, 1], resolve_root(tmp_path), wide)]
    same = "with these options the same as exp01a, and trained once more"
    assert notes == [None, same, None] * 2
    assert [run.note for run in plan_batch(items, [0, 1], resolve_root(tmp_path))] == [None] * 6


def test_the_whole_study_in_miniature_is_54_runs(tmp_path: Path) -> None:
    items = select_experiments(["exp*", "contrib0[12]*"], TINY)
    runs = plan_batch(items, [0], resolve_root(tmp_path))
    assert (len(items), len(runs)) == (67, 54)
    assert len(missing_datasets(runs, resolve_root(tmp_path))) == 10


def test_a_configuration_that_cannot_be_names_the_experiment(tmp_path: Path) -> None:
    def short(config: RunConfig) -> RunConfig:
        return dataclasses.replace(config, total_steps=5)

    with pytest.raises(ConfigError, match=r"exp01a: optim\.lr_warmup_steps: below total_steps"):
        plan_batch(select_experiments(["exp01a"], TINY), [0], resolve_root(tmp_path), short)


def test_a_dataset_that_nobody_can_build(tmp_path: Path) -> None:
    def other(config: RunConfig) -> RunConfig:
        return dataclasses.replace(config, data=dataclasses.replace(config.data, dataset="mine"))

    runs = plan_batch(select_experiments(["exp01a"], TINY), [0], resolve_root(tmp_path), other)
    assert runs[0].cost is None
    with pytest.raises(ConfigError, match="dataset mine is not built, and no named dataset has this name"):
        missing_datasets(runs, resolve_root(tmp_path))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(batch.shutil, "which", lambda _: None)
    monkeypatch.setattr(batch.os, "sched_getaffinity", lambda _: {4, 0, 2, 6})
    return tmp_path


def test_jobs_share_cores(machine: Path) -> None:
    assert shares(1) == [{}]
    assert shares(2) == [{"TRM_CORES": "0,2"}, {"TRM_CORES": "4,6"}]
    assert shares(3) == [{"TRM_CORES": "0"}, {"TRM_CORES": "2"}, {"TRM_CORES": "4"}]
    with pytest.raises(ConfigError, match="--jobs 5: got 5 runs for 4 cores"):
        shares(5)


def test_jobs_share_gpus(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert shares(2) == [{"CUDA_VISIBLE_DEVICES": "3"}, {"CUDA_VISIBLE_DEVICES": "5"}]
    memory = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.460"}  # two of the three are on one GPU
    assert shares(3) == [{"CUDA_VISIBLE_DEVICES": gpu, **memory} for gpu in ("3", "5", "3")]


def test_options_stand_before_and_after_patterns_and_those_of_the_configuration_anywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "batch --scale tiny --json exp10c --execution.rematerialise exp10a exp01a --optim.lr 1e-3 exp01b"
    with pytest.raises(SystemExit, match="0"):
        main([*words.split(), "--dry-run", "--seeds", "0,1", "--root", str(tmp_path)])
    found = json.loads(capsys.readouterr().out)
    assert sorted({name for run in found for name in run["names"]}) == [
        "exp01a",
        "exp01b",
        "exp10a",
        "exp10c",
    ]
    assert len(found) == 8


def test_a_batch_on_a_dataset_of_ones_own_is_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change = change_of(["--data.dataset", "my_puzzles"])
    (run,) = plan_batch(select_experiments(["exp04a_100"]), [0], resolve_root(tmp_path), change)
    assert (run.dataset, run.experiment.says(run.config)) == ("my_puzzles", "my_puzzles")
