"""Processes killed at any moment, then the same command again: the result equals that of an undisturbed run."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.figures import record
from tests.support.roots import copy_root
from tests.trm_data.kinds.test_arc import request
from tests.trm_eval.conftest import Evaluated, trained
from tests.trm_eval.test_votes import AUG, CONFIG, arc_folder
from tests.trm_train.test_loop import final_state, metrics_without_clock, run
from trm_data.building.flow import build_dataset
from trm_data.storage.root import Layout, resolve_root
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_eval.tables.query import query_results
from trm_train.runs.record import list_runs

__all__ = ["trained"]

TESTS = str(Path(__file__).resolve().parents[1])
PROGRAM = """
import sys, time
sys.path[:0] = [{tests!r} + "/trm_train", {tests!r}]
from pathlib import Path
from trm_data.storage.root import resolve_root
{imports}
layout = resolve_root(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
begun = time.perf_counter()
{work}
print(time.perf_counter() - begun, flush=True)
"""
TRAIN = PROGRAM.format(tests=TESTS, imports="from test_loop import run", work="run(layout)")
EVALUATE = PROGRAM.format(
    tests=TESTS,
    imports="from trm_eval.evaluation.flow import evaluate_run\nfrom trm_eval.identity import EvalRequest\n"
    "from trm_train.runs.record import list_runs",
    work="evaluate_run(layout, list_runs(layout)[0], EvalRequest())",
)


def start(program: str, *arguments: Path) -> subprocess.Popen[str]:
    """Start a process that has imported everything and waits for a line on stdin to work."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def undisturbed_s(program: str, arguments: Callable[[int], list[Path]], runs: int = 2) -> float:
    """Return the duration of the last run (s); the first run may compile something."""
    seconds = 0.0
    for number in range(runs):
        with start(program, *arguments(number)) as process:
            go(process)
            assert process.stdout is not None
            seconds = float(process.stdout.readline())
    return seconds


def kill_after(
    program: str, seconds: float, *arguments: Path, sign: Callable[[], bool] | None = None
) -> bool:
    """Kill a process after a time, or at a sign; return whether it was still working."""
    with start(program, *arguments) as process:
        go(process)
        end = time.monotonic() + seconds
        while time.monotonic() < end and not (sign is not None and sign()) and process.poll() is None:
            time.sleep(0.001)
        if process.poll() is not None:
            assert process.returncode == 0, "it ended by itself, with an error"
            return False
        process.kill()
        assert process.stdout is not None
        return not process.stdout.readline()


MORE = 10
"""Maximum number of extra kills, for a machine that is faster than when it was measured, so that too few kills hit a
running process."""


def whole_checkpoints(root: Path) -> int:
    """Return the number of complete resume checkpoints; a checkpoint in progress has another name."""
    return sum(path.name.isdecimal() for path in root.glob("runs/*/*/*/checkpoints/resume/*"))


@pytest.mark.parametrize("kills", [1, pytest.param(60, marks=pytest.mark.slow)])
def test_training(small_layout: Layout, tmp_path: Path, kills: int) -> None:
    def root(number: int | str) -> Path:
        folder = tmp_path / f"root{number}"
        if not folder.exists():
            copy_root(small_layout, resolve_root(folder), "datasets/small")
        return folder

    runs = 1 if kills == 1 else 2  # a single kill is at a sign and needs no duration
    seconds = undisturbed_s(TRAIN, lambda number: [root(f"-whole{number}")], runs)
    expected = run(resolve_root(root(f"-whole{runs - 1}")))
    state, metrics = final_state(expected), metrics_without_clock(expected.folder)
    draws, killed, resumed = random.Random(kills), 0, 0
    for number in range(kills):
        layout = resolve_root(root(number))
        # Every second kill is while the next checkpoint is written, after one or two complete ones.
        whole = draws.randint(1, 2) if number % 2 or kills == 1 else 99
        folder = root(number)
        struck = kill_after(
            TRAIN,
            (5.0 if whole < 99 else draws.uniform(0.1, 0.98)) * seconds,
            folder,
            sign=lambda folder=folder, whole=whole: whole_checkpoints(folder) >= whole,
        )
        killed += struck
        resumed += struck and whole_checkpoints(folder) > 0
        result = run(layout)
        assert result.finished
        assert final_state(result) == state
        assert metrics_without_clock(result.folder) == metrics
        steps = query_results(layout, "SELECT step FROM train_metrics WHERE split = 'train' ORDER BY 1").rows
        assert [step for (step,) in steps] == list(range(1, 13))
        assert not [path for path in root(number).rglob(".tmp-*") if path.is_file()]
        shutil.rmtree(root(number))
    assert killed >= -(-kills // 2)
    assert resumed >= -(-kills // 4)
    record("training kills", {"kills": kills, "killed_at_work": killed, "with_a_checkpoint": resumed})


ROWS = (
    "SELECT * FROM predictions ORDER BY row",
    "SELECT * EXCLUDE (created_at, seconds, compile_seconds) FROM all_evals",
)


@pytest.mark.slow  # tests/trm_eval/test_killed_evaluation.py covers every fifth step in every suite
@pytest.mark.parametrize("kills", [30])
def test_evaluation(trained: Evaluated, tmp_path: Path, kills: int) -> None:
    def root(number: int | str) -> Path:
        folder = tmp_path / f"root{number}"
        if not folder.exists():
            shutil.copytree(trained.layout.place, folder)
            shutil.rmtree(folder / "results")
        return folder

    runs = 1 if kills == 1 else 2
    seconds = undisturbed_s(EVALUATE, lambda number: [root(f"-whole{number}")], runs)
    expected = [query_results(resolve_root(root(f"-whole{runs - 1}")), query).rows for query in ROWS]
    assert len(expected[0]) == 12
    draws, killed, between = random.Random(kills), 0, 0
    for number in range(kills):
        layout = resolve_root(root(number))
        # Writing results takes only a moment, so half of the kills wait for the first result.
        results = root(number) / "results"
        killed += kill_after(
            EVALUATE,
            60.0 if number % 2 == 0 else draws.uniform(0.05, 0.95) * seconds,
            root(number),
            sign=(lambda results=results: results.exists()) if number % 2 == 0 else None,
        )
        half = query_results(layout, ROWS[0]).rows
        assert half in ([], expected[0])  # only results named by a row of evals are shown
        between += half == [] and results.exists()
        evaluate_run(layout, list_runs(layout)[0], EvalRequest())
        assert [query_results(layout, query).rows for query in ROWS] == expected
        shutil.rmtree(root(number))
    assert killed >= -(-kills // 3)
    assert between >= kills // 6
    record("evaluation kills", {"kills": kills, "killed_at_work": killed, "while_writing_results": between})


VOTED = ("SELECT * FROM votes ORDER BY task, test_index, rank", ROWS[0])


@pytest.mark.slow
@pytest.mark.parametrize("kills", [20])
def test_evaluation_with_votes(tmp_path: Path, kills: int) -> None:
    source = resolve_root(tmp_path / "source")
    build_dataset(request(arc_folder(tmp_path / "arc"), aug=AUG, val_size=1), source)
    run(source, CONFIG)

    def root(number: int | str) -> Path:
        return Path(shutil.copytree(source.place, tmp_path / f"root{number}", dirs_exist_ok=True))

    seconds = undisturbed_s(EVALUATE, lambda _: [root("-whole")], 1 if kills == 1 else 2)
    expected = [query_results(resolve_root(root("-whole")), query).rows for query in VOTED]
    assert all(expected)
    draws, killed, between = random.Random(kills), 0, 0
    for number in range(kills):
        place = root(number)
        layout, wanted = resolve_root(place), ("predictions", "votes", "runs")[number % 3]
        results = place / "results" / wanted
        killed += kill_after(
            EVALUATE,
            60.0 if number % 4 < 3 else draws.uniform(0.05, 0.95) * seconds,
            place,
            sign=(lambda results=results: results.exists()) if number % 4 < 3 else None,
        )
        half = [query_results(layout, query).rows for query in VOTED]
        assert half in ([[], []], expected)  # both votes and predictions of an evaluation, or neither
        between += half != expected and (place / "results").exists()
        evaluate_run(layout, list_runs(layout)[0], EvalRequest())
        assert [query_results(layout, query).rows for query in VOTED] == expected
        shutil.rmtree(place)
    assert killed >= -(-kills // 3)
    record(
        "evaluation kills, with votes", {"kills": kills, "killed_at_work": killed, "while_writing": between}
    )
