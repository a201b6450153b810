"""A stalled run is reported, and ended if it stays stalled; a slow or suspended run is not."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.conftest import as_users_run_it
from tests.support.roots import root_with
from tests.trm_train.test_loop import TINY, run
from trm_data.command import Exit
from trm_data.storage.root import Layout
from trm_train.training import pace
from trm_train.training.watchdog import Watchdog

STANDS_STILL = """
import sys, time
from trm_data.loader.pipeline import BatchLoader
from trm_train.cli import main
from trm_train.training import watchdog

watchdog.LONGEST_STEPS = 2.0  # so that nobody waits long

take = BatchLoader.__next__
def next_or_never(self):
    if self.step == 3:
        time.sleep(600)
    return take(self)
BatchLoader.__next__ = next_or_never
main(sys.argv[1:])
"""


class Watched:
    """A watchdog with a limit of 0.2 s, and its messages."""

    def __init__(self, limit_s: float = 0.2) -> None:
        self.said: list[str] = []
        self.ended: list[str] = []
        self.dog = Watchdog(limit_s, self.said.append, self.ended.append)


@pytest.fixture
def watched() -> Generator[Watched, None, None]:
    made = Watched()
    yield made
    made.dog.close()


def wait_for(happened: list[str]) -> None:
    end = time.monotonic() + 60
    while not happened and time.monotonic() < end:
        time.sleep(0.01)


def test_standing_still_is_said_once_and_then_ended(watched: Watched) -> None:
    watched.dog.beat()
    wait_for(watched.ended)
    assert len(watched.said) == 1
    assert watched.said[0].startswith("no step for ")
    assert len(watched.ended) == 1
    assert watched.ended[0].endswith("--execution.stall-s 0 sets no limit")


def test_nothing_is_watched_before_the_first_beat_nor_when_not_wanted(watched: Watched) -> None:
    never = Watched(0.0)
    never.dog.beat()
    time.sleep(0.6)
    never.dog.close()
    assert [never.said, never.ended, watched.said, watched.ended] == [[]] * 4


def test_steps_that_take_long_are_waited_for(watched: Watched) -> None:
    """The longest step took 0.15 s, so the limit is 3 s."""
    watched.dog.beat(0.15)
    watched.dog.beat(0.01)
    time.sleep(0.8)
    assert not watched.said


def test_within_a_task_only_its_own_limit_holds(watched: Watched) -> None:
    watched.dog.beat()
    with watched.dog.task("saving", 0.0, "--option"):
        time.sleep(0.8)
    assert not watched.said
    wait_for(watched.ended)
    assert watched.ended[0].startswith("no step for ")


def test_a_task_that_takes_long_is_reported_and_ended_at_its_limit() -> None:
    watched = Watched(0.0)
    with watched.dog.task("saving", 0.8, "--option"):
        wait_for(watched.ended)
    watched.dog.close()
    assert [text.split(" for ")[0] for text in watched.said] == ["saving"] * len(watched.said)
    assert watched.said
    assert len(watched.ended) == 1
    assert watched.ended[0].startswith("saving took more than ")
    assert watched.ended[0].endswith("; --option 0 sets no limit")


def test_whoever_hangs_or_fails_when_told_does_not_keep_a_run_from_ending() -> None:
    for tell in (lambda _: time.sleep(600), lambda _: 1 / 0):
        ended: list[str] = []
        dog = Watchdog(0.2, tell, ended.append)
        threading.excepthook, before = lambda _: None, threading.excepthook
        try:
            dog.beat()
            wait_for(ended)
        finally:
            threading.excepthook = before
            dog.close()
        assert ended


def test_a_process_ends_that_stands_still_and_goes_on_by_the_same_command(
    small_layout: Layout, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    (root / "datasets").mkdir(parents=True)
    (root / "datasets" / "small").symlink_to(small_layout.dataset("small").here)
    command = ["run", "quickstart", "--root", str(root), "--tracking", "none", "--data.dataset", "small"]
    command += ["--data.global-batch-size", "8", "--model.hidden-size", "16", "--model.num-heads", "2"]
    command += ["--model.h-cycles", "1", "--model.l-cycles", "1", "--model.num-layers", "1"]
    command += [
        "--total-steps",
        "6",
        "--optim.lr-warmup-steps",
        "2",
        "--execution.checkpoint-every",
        "2",
        "--execution.validate-every",
        "0",
    ]
    python = [sys.executable, "-c"]
    stuck = subprocess.run(
        [*python, STANDS_STILL, *command, "--execution.stall-s", "0.5", "--json"],
        capture_output=True,
        text=True,
        env=as_users_run_it(),
        timeout=600,
    )
    assert stuck.returncode == Exit.STALLED, stuck.stderr
    assert "does not respond" not in stuck.stderr  # --json shows no progress
    assert re.search(
        r"^trm-train: quickstart-.*: ended after step 2: no step for .* --execution.stall-s 0",
        stuck.stderr,
        re.M,
    )
    (left,) = root.rglob("logs/*-stalled.log")
    assert "no step for" in left.read_text()
    assert "--execution.stall-s 0 sets no limit" in left.read_text()
    on = subprocess.run(
        [*python, "import sys; from trm_train.cli import main; main(sys.argv[1:])", *command],
        capture_output=True,
        text=True,
        env=as_users_run_it(),
        timeout=600,
    )
    assert on.returncode == 0, on.stderr
    assert "finished, 6 steps" in on.stdout


def test_a_process_that_was_stopped_has_not_stood_still(tmp_path: Path) -> None:
    program = (
        "import time; from trm_train.training.watchdog import Watchdog\n"
        "dog = Watchdog(1.0, lambda s: print('said', flush=True), lambda s: print('ended', flush=True))\n"
        "dog.beat(); print('ready', flush=True)\n"
        "for _ in range(30):\n    time.sleep(0.1); dog.beat()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(2.5)
        os.kill(process.pid, signal.SIGCONT)
        assert process.stdout.read() == ""


def test_a_run_below_the_speed_that_is_asked_for_saves_and_ends(
    small_layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interval is as short as a step here; no run reaches the requested speed."""
    monkeypatch.setattr(pace, "STRETCH_S", 0.0)
    layout = root_with("small", tmp_path, small_layout)
    execution = dataclasses.replace(TINY.execution, min_examples_per_s=1e12, checkpoint_every=100)
    slow = run(layout, dataclasses.replace(TINY, execution=execution))
    assert (slow.finished, slow.exit_code) == (False, Exit.STALLED)
    assert 0 < slow.step < TINY.total_steps
    logs = b"".join(slow.folder.read(name) or b"" for name in slow.folder.names("logs/*"))
    assert logs.count(b"slower than --execution.min-examples-per-s 1e+12 for 3 minutes") == 1
    on = run(layout, TINY)
    assert (on.finished, on.started_at) == (True, slow.step)
