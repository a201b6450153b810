"""Carries out a batch: every run trained to its end and tested, each in a process of its own.

What is done is skipped, so that a batch that was killed goes on by the same command. A run is done when its status
says that it has finished and the test of its last step, which `tested.json` in its folder names, is among the results.

    waiting  ->  training  ->  testing  ->  done
                     |             |
                     +-------------+------>  failed
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from trm_data.command import Exit
from trm_data.storage.atomic import json_bytes, parse_json, with_digest
from trm_data.storage.root import Layout
from trm_train.batch.plan import PlannedRun
from trm_train.run.observe import Status, read_status

TESTED = "tested.json"
LOOK_S = 0.5
TRAIN = "from trm_train.batch.devices import take_share; take_share(); from trm_train.cli import main; main()"
TEST = "from trm_train.batch.devices import take_share; take_share(); from trm_eval.cli import main; main()"
"""Programs of the same installation; evaluation is named and never imported."""

State = Literal["waiting", "training", "testing", "done", "failed", "interrupted"]


@dataclass
class Job:
    """A run and how far it is.

    Attributes:
        planned: The run.
        state: How far it is.
        skipped: It was done before this batch began.
        test: Row of its test in `evals`.
        reason: Why it failed.
        log: What it prints.
    """

    planned: PlannedRun
    state: State = "waiting"
    skipped: bool = False
    test: dict[str, Any] | None = None
    reason: str = ""
    log: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    share: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def status(self) -> Status | None:
        """How its training goes, by its own report."""
        return read_status(self.planned.folder)


class Screen(Protocol):
    """Shows a person how a batch goes."""

    def note(self, text: str) -> None:
        """Something happens."""
        ...

    def show(self, jobs: Sequence[Job]) -> None:
        """How far all are; called often."""
        ...


@dataclass(frozen=True, kw_only=True)
class How:
    """How a batch is carried out.

    Attributes:
        layout: The root.
        overrides: Options that every run gets, besides its experiment, setting and seed.
        shares: Environment of each run that goes at the same time.
        logs: Folder of one log for each run.
        tracking: Where metrics are mirrored.
        limit: Rows of a test at most; 0 is all.
        go_on: Begin further runs after one has failed.
    """

    layout: Layout
    overrides: Sequence[str]
    shares: Sequence[dict[str, str]]
    logs: Path
    tracking: str
    limit: int
    go_on: bool


def carry_out(runs: Sequence[PlannedRun], how: How, screen: Screen) -> tuple[list[Job], int]:
    """Train and test all runs that are not done.

    Returns:
        The runs and how they ended, and the number of the signal that interrupted them, 0 without one.
    """
    jobs = [Job(run) for run in runs]
    for job in jobs:
        job.test = read_test(job.planned, how.layout, how.limit)
        if is_trained(job) and job.test is not None:
            job.state, job.skipped = "done", True
    with _signals() as asked:
        while True:
            going = [job for job in jobs if job.process is not None]
            for job in going:
                _look(job, how, screen)
            _stop_if_asked(asked, going, screen)
            failed = any(job.state == "failed" for job in jobs)
            free = set(range(len(how.shares))) - {job.share for job in jobs if job.process is not None}
            waiting = [job for job in jobs if job.state == "waiting"]
            if waiting and free and not asked and (how.go_on or not failed):
                _begin(waiting[0], min(free), how, screen)
            elif not any(job.process is not None for job in jobs):
                break
            screen.show(jobs)
            time.sleep(LOOK_S)
    screen.show(jobs)
    return jobs, asked[0] if asked else 0


def is_trained(job: Job) -> bool:
    """Whether its training has come to its end."""
    status = job.status
    return status is not None and status.state == "finished" and status.step >= job.planned.config.total_steps


def read_test(run: PlannedRun, layout: Layout, limit: int) -> dict[str, Any] | None:
    """The row of a run's test, if its result is there and of the last step and as many rows."""
    content = run.folder.read(TESTED)
    if content is None:
        return None
    try:
        row = parse_json(content)
        if with_digest(row) != row or row["step"] != run.config.total_steps or row["row_limit"] != limit:
            return None
        pattern = f"evals/experiment={run.experiment.name}/run={run.run}/{row['evaluation']}*.parquet"
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return row if layout.results.names(pattern) else None


def _begin(job: Job, share: int, how: How, screen: Screen) -> None:
    """Start what a run lacks: its training, or else its test."""
    run = job.planned
    job.log = how.logs / f"{run.run}.log"
    job.share = share
    place = ["--root", how.layout.place]
    if is_trained(job):
        job.state = "testing"
        program = [TEST, "run", run.run, "--json", "--limit", str(how.limit), *place]
    else:
        job.state = "training"
        setting = run.experiment.setting()
        program = [TRAIN, "run", run.experiment.name, "--scale", setting.scale, "--data", setting.data]
        program += ["--seed", str(run.config.seed), "--tracking", how.tracking, *place, *how.overrides]
    screen.note(f"{run.run}: {job.state}")
    with job.log.open("ab") as log, _output(job).open("wb") as output:
        # Of a session of their own: a signal reaches them through this process, which says what it does.
        job.process = subprocess.Popen(
            [sys.executable, "-c", *program],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=log,
            env={**os.environ, **how.shares[share]},
            start_new_session=True,
        )


def _look(job: Job, how: How, screen: Screen) -> None:
    """See whether what was started has ended, and what follows."""
    assert job.process is not None
    code = job.process.poll()
    if code is None:
        return
    job.process = None
    run, output = job.planned, _output(job)
    printed = output.read_bytes()
    output.unlink()
    if code in (Exit.INTERRUPTED, Exit.TERMINATED) or code < 0:
        job.state = "interrupted"
        return
    if code != Exit.DONE:
        job.state, job.reason = "failed", _last_line(job, code)
        screen.note(f"{run.run}: failed: {job.reason}")
        return
    if job.state == "training":
        _begin(job, job.share, how, screen)
        return
    row = json.loads(printed)
    row["row_limit"] = how.limit  # all rows are asked for as 0, whatever their number
    run.folder.write(TESTED, json_bytes(with_digest(row)))
    job.test, job.state = row, "done"
    exact = row["exact_count"] / max(row["count"], 1)
    screen.note(f"{run.run}: done, {100 * exact:.1f}% exact of {row['count']:,}")


def _output(job: Job) -> Path:
    assert job.log is not None
    return job.log.with_suffix(".out")


def _last_line(job: Job, code: int) -> str:
    """What a process said last, which is why it ended."""
    assert job.log is not None
    with job.log.open("rb") as log:
        log.seek(max(job.log.stat().st_size - 10_000, 0))
        lines = [line for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if line.startswith(("trm-train: ", "trm-eval: "))), "")
    return (said or (lines[-1] if lines else "")).strip() or f"exit code {code}; see {job.log}"


@contextmanager
def _signals() -> Generator[list[int]]:
    """The signals that ask to stop, in the order in which they come."""
    asked: list[int] = []
    handled = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, _: asked.append(number)) for number in handled]
    try:
        yield asked
    finally:
        for number, handler in zip(handled, before, strict=True):
            signal.signal(number, handler)


def _stop_if_asked(asked: list[int], going: Sequence[Job], screen: Screen) -> None:
    """Hand a signal on once; after a second one kill."""
    if not asked:
        return
    for job in going:
        process = job.process
        if process is None:
            continue
        if len(asked) > 1:
            process.kill()
        elif job.reason != "asked to stop":
            job.reason = "asked to stop"
            process.send_signal(asked[0])
            screen.note(f"{job.planned.run}: saves a checkpoint and stops; once more kills it")
