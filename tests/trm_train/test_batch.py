"""Plan of a batch: each run once, even with several names; separate devices for each job.

Batches as users run them, on small networks: every run is trained and tested in its own process.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import trm_eval
from tests.conftest import run_here
from trm_data.storage.root import resolve_root
from trm_train import batch
from trm_train.batch import Job, Pool, missing_datasets, plan_batch, shares
from trm_train.cli import main
from trm_train.config.run import RunConfig
from trm_train.errors import ConfigError
from trm_train.experiments.registry import select_experiments
from trm_train.experiments.setting import SETTINGS, Setting
from trm_train.runs.record import find_run, read_record

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


def test_the_whole_study_in_miniature_is_54_runs(tmp_path: Path) -> None:
    items = select_experiments(["exp*", "contrib0[12]*"], TINY)
    runs = plan_batch(items, [0], resolve_root(tmp_path))
    assert (len(items), len(runs)) == (67, 54)
    assert len(missing_datasets(runs, resolve_root(tmp_path))) == 10


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


BIN = Path(sys.executable).parent
SMALL = [
    *str.split("--total-steps 30 --optim.lr-warmup-steps 2 --model.hidden-size 8 --model.num-layers 1"),
    *str.split("--data.global-batch-size 4 --execution.validate-every 0 --execution.checkpoint-every 10"),
    *("--limit", "20"),
]


def run_batch(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_here(main, "batch", "--scale", "tiny", "--root", str(root), *arguments)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with two finished runs."""
    folder = tmp_path_factory.mktemp("batch")
    done = run_batch(
        folder, "exp09a", "exp01f", *SMALL, "--model.l-cycles", "1", "--log-dir", str(folder / "l")
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_runs_are_trained_tested_and_summed_up(root: Path) -> None:
    done = run_batch(root, "exp09a", "exp01f", *SMALL, "--model.l-cycles", "1", "--json")
    rows = json.loads(done.stdout)
    assert [(row["experiment"], row["names"], row["state"]) for row in rows] == [
        ("exp01f", ["exp01f"], "done"),
        ("baseline", ["exp09a"], "done"),
    ]
    for row in rows:
        assert (row["step"], row["total_steps"], row["count"]) == (30, 30, 20)
        assert row["exact_accuracy"] == row["exact_count"] / 20
        assert (root / "l" / f"{row['run']}.log").stat().st_size
        assert row["dataset"] == "sudoku-2x3-generated-500-aug-100"


def test_what_is_done_is_skipped(root: Path) -> None:
    arguments = ("exp09a", "exp01f", *SMALL, "--model.l-cycles", "1", "--json")
    again = run_batch(root, *arguments)
    assert again.returncode == 0, again.stderr
    assert [row["state"] for row in json.loads(again.stdout)] == ["done", "done"]
    assert "training" not in again.stderr
    plan = json.loads(run_batch(root, *arguments, "--dry-run").stdout)
    assert [fact["state"] for fact in plan] == ["done", "done"]


def test_a_test_whose_result_is_gone_is_made_again(root: Path) -> None:
    (gone,) = root.glob("results/evals/experiment=exp01f/run=*/*.parquet")
    gone.unlink()
    again = run_batch(root, "exp01f", *SMALL, "--model.l-cycles", "1")
    assert again.returncode == 0, again.stderr
    assert "testing" in again.stderr
    assert "training" not in again.stderr
    assert list(root.glob("results/evals/experiment=exp01f/run=*/*.parquet"))


def test_aliases_are_found_everywhere(root: Path) -> None:
    layout = resolve_root(root)
    for name in ("exp09a", "exp01c", "exp07a", "baseline"):
        assert read_record(find_run(layout, name, TINY)).experiment == "baseline"
        assert read_record(find_run(layout, name)).experiment == "baseline"
    assert read_record(find_run(layout, "exp01f", TINY)).experiment == "exp01f"
    for name, setting in (("exp07b", TINY), ("exp01c", SETTINGS[0])):
        with pytest.raises(ConfigError, match=f"no run '{name}'"):
            find_run(layout, name, setting)
    query = "SELECT run, scale, data FROM runs ORDER BY run"
    rows = trm_eval.sql(query, root).to_dicts()
    assert len(rows) == 2
    assert {(row["scale"], row["data"]) for row in rows} == {("tiny", "generated")}


def test_status_and_list_say_how_they_went(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def ask(*arguments: str) -> list[dict]:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--json", "--root", str(root)])
        assert ended.value.code == 0
        return json.loads(capsys.readouterr().out)

    runs = ask("status")
    assert [(run["experiment"], run["state"], run["step"]) for run in runs] == [
        ("baseline", "done", 30),
        ("exp01f", "done", 30),
    ]
    assert ask("status", "exp01f") == [runs[1]]
    assert ask("status", "exp07a", "exp01c") == [runs[0]]


def test_one_that_fails_stops_the_others_unless_asked_to_go_on(root: Path) -> None:
    # With seed 1 nothing is done yet; a mesh axis that one device cannot fill fails when the run starts.
    wrong = (*SMALL, "--model.l-cycles", "1", "--seeds", "1", "--execution.model-parallel", "3")
    done = run_batch(root, "exp01e", "exp01f", *wrong, "--json")
    assert done.returncode == 1, done.stderr
    rows = json.loads(done.stdout)
    assert [row["state"] for row in rows] == ["failed", "waiting"]
    assert "execution.model_parallel: not a divisor of the number of devices (got 3" in rows[0]["reason"]
    done = run_batch(root, "exp01e", "exp01f", *wrong, "--json", "--continue-on-failure")
    assert done.returncode == 1
    assert [row["state"] for row in json.loads(done.stdout)] == ["failed", "failed"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no experiments named"),
        (["exp01a", "--no-build"], "trm-data build sudoku-2x3-generated-500-aug-100"),
        (["exp01a", "--seeds", "a"], "--seeds: got 'a'; expected whole numbers separated by commas"),
        (["exp01a", "--optim.warp", "9"], "--optim.warp"),
    ],
)
def test_bad_input_is_said_at_once(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["batch", *arguments, "--scale", "tiny", "--root", str(tmp_path)])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "datasets").exists()


@contextmanager
def long_batch(root: Path) -> Generator[subprocess.Popen[str]]:
    """A batch with one long run that is training."""
    command = [BIN / "trm-train", "batch", "exp01a", "exp01b", "--scale", "tiny", "--root", str(root), *SMALL]
    command += ["--model.l-cycles", "1", "--total-steps", "100000", "--json", "--log-dir", str(root / "i")]
    begun = time.time_ns()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            # Another test may have interrupted the same run.
            status = status_of_long(root)
            if status["mtime_ns"] > begun and status["state"] == "running" and status["step"] > 0:
                break
            time.sleep(0.2)
        try:
            yield process
        finally:
            process.kill()


def status_of_long(root: Path) -> dict[str, Any]:
    """Return the status of its run; with time 0 if there is none."""
    for path in root.glob("runs/exp01/exp01a/*/status.json"):
        return {**json.loads(path.read_text()), "mtime_ns": path.stat().st_mtime_ns}
    return {"mtime_ns": 0}


def interrupted(root: Path, number: signal.Signals, times: int) -> tuple[int, list[dict], str]:
    """Start a batch with one long run, and signal it once it trains."""
    with long_batch(root) as process:
        for _ in range(times):
            process.send_signal(number)
            time.sleep(0.05)
        out, err = process.communicate(timeout=600)
    assert out, (process.returncode, err)
    return process.returncode, json.loads(out), err


def test_ctrl_c_has_the_run_save_and_the_batch_end(root: Path) -> None:
    code, rows, _ = interrupted(root, signal.SIGINT, 1)
    assert code == 130
    assert [row["state"] for row in rows] == ["interrupted", "waiting"]
    (status,) = root.glob("runs/exp01/exp01a/*/status.json")
    assert json.loads(status.read_text())["state"] == "stopped"
    step = json.loads(status.read_text())["step"]
    assert list(status.parent.glob(f"checkpoints/resume/{step}"))


TINY_RUN = (*SMALL, "--model.l-cycles", "1")


def planned_job(root: Path, logs: Path) -> tuple[Job, Pool, list[str]]:
    """Return a job, and a pool whose programs the test replaces, with its messages."""
    layout = resolve_root(root)
    (run,) = plan_batch(select_experiments(["exp01f"], TINY), [7], layout)
    messages: list[str] = []
    pool = Pool(
        layout=layout,
        overrides=(),
        shares=[{}],
        logs=logs,
        tracking="none",
        limit=20,
        go_on=True,
        say=messages.append,
    )
    return Job(run), pool, messages


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os; os.kill(os.getpid(), 9)", "exit code -9: "),
        (
            "import sys; sys.exit('trm-train: the loss is nan')",
            "exit code 1: trm-train: the loss is nan; see ",
        ),
        ("raise ValueError('too big')", "exit code 1: ValueError: too big; see "),
    ],
)
def test_why_a_run_failed_is_the_last_line_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    job, pool, messages = planned_job(tmp_path / "root", tmp_path)
    monkeypatch.setattr(batch, "TRAIN", program)
    pool.run([job])
    assert job.state == "failed"
    assert reason in job.reason
    assert reason in messages[-1]


def test_whatever_ends_a_batch_ends_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, pool, _ = planned_job(tmp_path / "root", tmp_path)
    other, *_ = planned_job(tmp_path / "root", tmp_path)
    monkeypatch.setattr(batch, "TRAIN", "import time; time.sleep(600)")
    ended = [KeyboardInterrupt()]

    def interrupted_once(futures: list[Future[None]]) -> None:
        if ended:
            while job.state != "training":
                time.sleep(0.01)
            raise ended.pop()
        wait(futures)

    monkeypatch.setattr(batch, "wait", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        pool.run([job, other])
    assert (job.state, other.state) == ("interrupted", "waiting")


def test_done_runs_need_no_dataset(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    datasets = root / "datasets"
    datasets.rename(root / "away")
    try:
        with pytest.raises(SystemExit) as ended:
            main(["batch", "exp01f", "--scale", "tiny", *TINY_RUN, "--root", str(root), "--no-build"])
        assert ended.value.code == 0
    finally:
        (root / "away").rename(datasets)
    assert "1 done" in capsys.readouterr().out
