"""Runs a batch: trains and evaluates every run in its own process.

Finished runs are skipped, so the same command resumes a killed batch. A run is done when its status is
`finished` and the results have the test of its last step, which `tested.json` in its folder names.

    waiting  ->  training  ->  testing  ->  done
                     |             |
                     +-------------+------>  failed, or interrupted if a signal ended the batch
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage
from typing import Any, Literal, Protocol

from trm_data.command import Exit
from trm_data.command.signals import handled
from trm_data.errors import DataError
from trm_data.storage.atomic import json_bytes, parse_json, with_digest
from trm_data.storage.root import Layout
from trm_train.batch.plan import PlannedRun
from trm_train.errors import BEING_TRAINED
from trm_train.runs.resume import TESTED
from trm_train.runs.status import Status, read_status

POLL_S = 0.5
END_S = 60.0
"""Timeout for a process to save a checkpoint and end, after the batch fails or if an earlier batch was killed (s)."""
FULL = ("no space left", "disk quota exceeded")
"""Parts of error messages about a full disk or an exceeded quota."""
NO_REASON = (": warning: ", ": note: ")
"""Markers of lines that do not give the reason of a failure."""
LEAST_FREE = 100_000
"""A disk with less free space counts as full (bytes)."""
BEGIN = (
    "from trm_data.command.signals import end_with_parent; end_with_parent(); "
    "from trm_train.batch.devices import take_share; take_share(); "
)
TRAIN = BEGIN + "from trm_train.cli import main; main()"
TEST = BEGIN + "from trm_eval.cli import main; main()"
"""Programs for the same installation. Evaluation runs in its own process and is never imported."""

State = Literal["waiting", "training", "testing", "done", "failed", "interrupted"]


@dataclass
class Job:
    """A run of a batch and its state.

    Attributes:
        planned: Plan of the run.
        state: State of the run.
        test: Row of its test in `evals`.
        reason: Reason for a failure.
        log: Log file of its processes.
        process: Running process, if any.
        told: Whether the process was asked to stop.
        share: Number of its part of the machine.
        log_from: Byte offset in the log where the last start begins.
        since: Time of the first start (s, from `time.monotonic`).
    """

    planned: PlannedRun
    state: State = "waiting"
    test: dict[str, Any] | None = None
    reason: str = ""
    log: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    told: bool = False
    share: int = 0
    log_from: int = 0
    since: float | None = None

    @property
    def status(self) -> Status | None:
        """Status that its training reports; None if missing or unreadable now."""
        try:
            return read_status(self.planned.folder)
        except (DataError, OSError):
            return None

    @property
    def output(self) -> Path:
        """File for the machine-readable output of the process."""
        assert self.log is not None
        return self.log.with_suffix(f".{os.getpid()}.out")


class Screen(Protocol):
    """Display of a batch's progress."""

    def note(self, text: str) -> None:
        """Show a message."""
        ...

    def show(self, jobs: Sequence[Job]) -> None:
        """Show the progress of all runs; called often."""
        ...


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """Options for a batch.

    Attributes:
        layout: The root.
        overrides: Command-line options for every run, besides its experiment, setting and seed.
        shares: Environment variables of each parallel run.
        logs: Folder with one log per run.
        tracking: Tracker that receives a copy of the metrics.
        limit: Maximum number of test rows; 0 for all.
        go_on: Continue with further runs after a failure.
    """

    layout: Layout
    overrides: Sequence[str]
    shares: Sequence[dict[str, str]]
    logs: Path
    tracking: str
    limit: int
    go_on: bool


def make_jobs(runs: Sequence[PlannedRun], layout: Layout, limit: int) -> list[Job]:
    """Return the runs of a batch as jobs; finished runs have the state `done`."""
    jobs = [Job(run) for run in runs]
    for job in jobs:
        job.test = read_test(job.planned, layout, limit)
        if is_trained(job) and job.test is not None:
            job.state = "done"
    return jobs


def run_jobs(jobs: Sequence[Job], how: BatchOptions, screen: Screen, asked: Sequence[int] = ()) -> None:
    """Train and test all runs that are not done; the result is in the jobs.

    Args:
        jobs: The runs, in order.
        how: Options that all runs share.
        screen: Display of the progress.
        asked: Stop signals so far, a list that grows (`receive_signals`). After the first signal the runs save and
            stop; after the second they are killed.
    """
    try:
        while _step(jobs, how, screen, asked):
            screen.show(jobs)
            time.sleep(POLL_S)
    finally:
        _end_children(jobs)


def _step(jobs: Sequence[Job], how: BatchOptions, screen: Screen, asked: Sequence[int]) -> bool:
    """Check the processes and start new ones; return whether work remains."""
    for job in jobs:
        if job.process is not None:
            _look(job, how, screen, asked)
    going = [job for job in jobs if job.process is not None]
    _stop_if_asked(asked, going, screen)
    failed = any(job.state == "failed" for job in jobs)
    full = any(is_full(job) for job in jobs)  # further runs would fail too
    waiting = [job for job in jobs if job.state == "waiting"]
    free = set(range(len(how.shares))) - {job.share for job in going}
    if waiting and free and not asked and not full and (how.go_on or not failed):
        _begin(waiting[0], min(free), how, screen)
        return True
    return bool(going)


def is_full(job: Job) -> bool:
    """Return whether a run failed because the disk is full."""
    return job.state == "failed" and any(words in job.reason.lower() for words in FULL)


def is_trained(job: Job) -> bool:
    """Return whether the training of a run has finished."""
    status = job.status
    return status is not None and status.state == "finished" and status.step >= job.planned.config.total_steps


def read_test(run: PlannedRun, layout: Layout, limit: int) -> dict[str, Any] | None:
    """Return the row of a run's test if the result exists and is for the last step and the same row limit."""
    content = run.folder.read(TESTED)
    if content is None:
        return None
    try:
        row = parse_json(content)
        if with_digest(row) != row or row["step"] != run.config.total_steps or row["row_limit"] != limit:
            return None
        place = f"evals/experiment={run.experiment.name}/run={run.run}"
        patterns = [f"{place}/{each['evaluation']}*.parquet" for each in row.get("tests", [row])]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return row if all(map(layout.results.names, patterns)) else None


def _begin(job: Job, share: int, how: BatchOptions, screen: Screen) -> None:
    """Start the training of a run, or its test if it is trained."""
    run = job.planned
    job.log = how.logs / f"{run.run}.log"
    job.share, job.told, job.since = share, False, job.since or time.monotonic()
    for left in how.logs.glob(f"{run.run}.*.out"):  # left by a killed batch
        left.unlink()
    place = ["--root", how.layout.place]
    if is_trained(job):
        job.state = "testing"
        program = [TEST, "run", run.run, "--json", "--limit", str(how.limit), *place]
        program += ["--checkpoint", str(run.config.total_steps)]  # needed if the run was extended
    else:
        job.state = "training"
        setting = run.experiment.setting()
        program = [TRAIN, "run", run.names[0], *setting.options]
        program += ["--seed", str(run.config.seed), "--tracking", how.tracking, *place, *how.overrides]
    screen.note(f"{run.run}: {job.state}")
    with job.log.open("ab") as log, job.output.open("wb") as output:
        job.log_from = log.tell()
        # In its own session: signals reach the child only through this process, which reports them.
        job.process = subprocess.Popen(
            [sys.executable, "-c", *program],
            stdin=subprocess.PIPE,  # its end tells the child that this process has died
            stdout=output,
            stderr=log,
            env={**os.environ, **how.shares[share]},
            start_new_session=True,
        )


def _look(job: Job, how: BatchOptions, screen: Screen, asked: Sequence[int]) -> None:
    """Check whether a process has ended, and start the next one of the run."""
    assert job.process is not None
    code = job.process.poll()
    if code is None:
        return
    _let_go(job.process)
    job.process = None
    printed = job.output.read_bytes()
    job.output.unlink()
    if code in (Exit.INTERRUPTED, Exit.TERMINATED) or (code < 0 and asked):
        job.state = "interrupted"
    elif code != Exit.DONE:
        _wait_or_fail(job, _reason(job, code), screen)
    elif job.state == "training" and asked:
        job.state = "interrupted"  # stopped before its test
    elif job.state == "training" and not is_trained(job):
        _fail(job, "its training ended, and its status does not say that it has finished", screen)
    elif job.state == "training":
        _begin(job, job.share, how, screen)
    else:
        _note_test(job, printed, how, screen)


def _wait_or_fail(job: Job, reason: str, screen: Screen) -> None:
    """Retry a run that a process of a killed batch may still hold; after a timeout, mark the run as failed."""
    if BEING_TRAINED in reason and time.monotonic() - (job.since or 0.0) < END_S:
        job.state = "waiting"
        screen.note(f"{job.planned.run}: waiting for a process of an earlier batch")
    else:
        _fail(job, reason, screen)


def _let_go(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def _note_test(job: Job, printed: bytes, how: BatchOptions, screen: Screen) -> None:
    """Store the row of a test in the run's folder, and mark the run as done."""
    run = job.planned
    try:
        row = _in_one(json.loads(printed))
        row["row_limit"] = how.limit  # a limit of 0 means all rows
        exact = row["exact_count"] / max(row["count"], 1)
        run.folder.write(TESTED, json_bytes(with_digest(row)))
    except (ValueError, TypeError, KeyError, DataError, OSError) as error:
        _fail(job, f"its test could not be noted: {error}", screen)
        return
    job.test, job.state = row, "done"
    screen.note(f"{run.run}: done, {100 * exact:.1f}% exact of {row['count']:,}")


def _in_one(tests: dict[str, Any] | list[dict[str, Any]]) -> dict[str, Any]:
    """Return a test as one row; for a mixture, the sums over its datasets, with their rows in `tests`."""
    if isinstance(tests, dict):
        return tests
    names = ("count", "exact_count", "cells", "wrong_cells", "q_halt_right_count", "lm_loss_sum", "seconds")
    return {**tests[0], **{name: sum(test[name] for test in tests) for name in names}, "tests": tests}


def _fail(job: Job, reason: str, screen: Screen) -> None:
    job.state, job.reason = "failed", reason
    screen.note(f"{job.planned.run}: failed: {reason}")
    if is_full(job):
        screen.note("no further run is started. Free some space; the same command resumes")


def _reason(job: Job, code: int) -> str:
    """Return the reason why a process ended: its last message since its start."""
    assert job.log is not None
    if code < 0:
        return (
            f"killed by signal {-code}{' (out of memory?)' if code == -signal.SIGKILL else ''}; see {job.log}"
        )
    with job.log.open("rb") as log:
        log.seek(max(job.log.stat().st_size - 10_000, job.log_from))
        lines = [line for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    said = [
        line
        for line in lines
        if line.startswith(("trm-train: ", "trm-eval: ")) and not any(word in line for word in NO_REASON)
    ]
    if said and not any(line.startswith("Traceback") for line in lines):
        return said[-1].strip()
    if not lines and disk_usage(job.log.parent).free < LEAST_FREE:
        return f"exit code {code}; {job.log.parent}: {FULL[0]} for its log"
    return f"{lines[-1].strip() if lines else f'exit code {code}'}; see {job.log}"


@contextmanager
def receive_signals() -> Generator[list[int]]:
    """Context that records stop signals in order, without acting on them."""
    asked: list[int] = []
    with handled(lambda number, _: asked.append(number), signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield asked


def _stop_if_asked(asked: Sequence[int], going: Sequence[Job], screen: Screen) -> None:
    """Forward the first stop signal once to each process; after a second one, kill the processes."""
    for job in going if asked else ():
        assert job.process is not None
        if len(asked) > 1:
            job.process.kill()
        elif not job.told:
            job.told = True
            job.process.send_signal(signal.SIGTERM if asked[0] == signal.SIGHUP else asked[0])
            screen.note(f"{job.planned.run}: saving a checkpoint; another Ctrl-C kills it")


def _end_children(jobs: Sequence[Job]) -> None:
    """Terminate all child processes, then kill those that remain."""
    left = [job.process for job in jobs if job.process is not None]
    for process in left:
        process.terminate()
    for process in left:
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        process.kill()
        _let_go(process)
