"""Runs a batch: every run is trained and evaluated in its own process.

What is done is skipped, so that the same command resumes a killed batch. A run is done when its status
says that it has finished and the test of its last step, which `tested.json` in its folder names, is among the results.

    waiting  ->  training  ->  testing  ->  done
                     |             |
                     +-------------+------>  failed, or interrupted where a signal ended the batch
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

LOOK_S = 0.5
END_S = 60.0
"""For a process to save a checkpoint and end, where the batch fails or an earlier one was killed."""
FULL = ("no space left", "disk quota exceeded")
"""Words of errors about a full disk, and of a quota that is."""
NO_REASON = (": warning: ", ": note: ")
"""In lines that do not say why a run failed."""
LEAST_FREE = 100_000
"""A disk with fewer bytes free is full."""
BEGIN = (
    "from trm_data.command.signals import end_with_parent; end_with_parent(); "
    "from trm_train.batch.devices import take_share; take_share(); "
)
TRAIN = BEGIN + "from trm_train.cli import main; main()"
TEST = BEGIN + "from trm_eval.cli import main; main()"
"""Programs of the same installation; evaluation is named and never imported."""

State = Literal["waiting", "training", "testing", "done", "failed", "interrupted"]


@dataclass
class Job:
    """A run and how far it is.

    Attributes:
        planned: The run.
        state: How far it is.
        test: Row of its test in `evals`.
        reason: Why it failed.
        log: What it prints.
        process: The running process.
        told: That it was asked to stop.
        share: Which part of the machine it has.
        log_from: Byte of the log where the last start begins.
        since: When it was first begun (s, of `time.monotonic`).
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
        """How its training goes, by its own report; None also where that cannot be read now."""
        try:
            return read_status(self.planned.folder)
        except (DataError, OSError):
            return None

    @property
    def output(self) -> Path:
        """What the process prints for machines."""
        assert self.log is not None
        return self.log.with_suffix(f".{os.getpid()}.out")


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


def make_jobs(runs: Sequence[PlannedRun], layout: Layout, limit: int) -> list[Job]:
    """The runs of a batch, those that are done marked so."""
    jobs = [Job(run) for run in runs]
    for job in jobs:
        job.test = read_test(job.planned, layout, limit)
        if is_trained(job) and job.test is not None:
            job.state = "done"
    return jobs


def carry_out(jobs: Sequence[Job], how: How, screen: Screen, asked: Sequence[int] = ()) -> None:
    """Train and test all runs that are not done; the jobs say how they ended.

    Args:
        jobs: The runs, in order.
        how: What is the same for all of them.
        screen: Where it is said how they do.
        asked: The signals that ask to stop (`heard_signals`), looked at again and again: after the first one runs
            save and stop, after a second one they are killed.
    """
    try:
        while _step(jobs, how, screen, asked):
            screen.show(jobs)
            time.sleep(LOOK_S)
    finally:
        _end_children(jobs)


def _step(jobs: Sequence[Job], how: How, screen: Screen, asked: Sequence[int]) -> bool:
    """See how the processes do and begin what can begin; whether there is more to do."""
    for job in jobs:
        if job.process is not None:
            _look(job, how, screen, asked)
    going = [job for job in jobs if job.process is not None]
    _stop_if_asked(asked, going, screen)
    failed = any(job.state == "failed" for job in jobs)
    full = any(is_full(job) for job in jobs)  # the others would fail by it too
    waiting = [job for job in jobs if job.state == "waiting"]
    free = set(range(len(how.shares))) - {job.share for job in going}
    if waiting and free and not asked and not full and (how.go_on or not failed):
        _begin(waiting[0], min(free), how, screen)
        return True
    return bool(going)


def is_full(job: Job) -> bool:
    """Whether it failed for want of disk space."""
    return job.state == "failed" and any(words in job.reason.lower() for words in FULL)


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
        place = f"evals/experiment={run.experiment.name}/run={run.run}"
        patterns = [f"{place}/{each['evaluation']}*.parquet" for each in row.get("tests", [row])]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return row if all(map(layout.results.names, patterns)) else None


def _begin(job: Job, share: int, how: How, screen: Screen) -> None:
    """Start what a run lacks: its training, or else its test."""
    run = job.planned
    job.log = how.logs / f"{run.run}.log"
    job.share, job.told, job.since = share, False, job.since or time.monotonic()
    for left in how.logs.glob(f"{run.run}.*.out"):  # by a batch that was killed
        left.unlink()
    place = ["--root", how.layout.place]
    if is_trained(job):
        job.state = "testing"
        program = [TEST, "run", run.run, "--json", "--limit", str(how.limit), *place]
        program += ["--checkpoint", str(run.config.total_steps)]  # also of a run that was extended
    else:
        job.state = "training"
        setting = run.experiment.setting()
        program = [TRAIN, "run", run.names[0], "--scale", setting.scale, "--data", setting.data]
        program += ["--seed", str(run.config.seed), "--tracking", how.tracking, *place, *how.overrides]
    screen.note(f"{run.run}: {job.state}")
    with job.log.open("ab") as log, job.output.open("wb") as output:
        job.log_from = log.tell()
        # Of a session of their own: a signal reaches them through this process, which says what it does.
        job.process = subprocess.Popen(
            [sys.executable, "-c", *program],
            stdin=subprocess.PIPE,  # which says to it that this process lives
            stdout=output,
            stderr=log,
            env={**os.environ, **how.shares[share]},
            start_new_session=True,
        )


def _look(job: Job, how: How, screen: Screen, asked: Sequence[int]) -> None:
    """See whether what was started has ended, and what follows."""
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
        job.state = "interrupted"  # before its test
    elif job.state == "training" and not is_trained(job):
        _fail(job, "its training ended, and its status does not say that it has finished", screen)
    elif job.state == "training":
        _begin(job, job.share, how, screen)
    else:
        _note_test(job, printed, how, screen)


def _wait_or_fail(job: Job, reason: str, screen: Screen) -> None:
    """Begin once more what a process of a batch that was killed may still be about to leave; else it has failed."""
    if BEING_TRAINED in reason and time.monotonic() - (job.since or 0.0) < END_S:
        job.state = "waiting"
        screen.note(f"{job.planned.run}: waiting for a process of an earlier batch")
    else:
        _fail(job, reason, screen)


def _let_go(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def _note_test(job: Job, printed: bytes, how: How, screen: Screen) -> None:
    """Keep the row of a test beside the run, which is done with it."""
    run = job.planned
    try:
        row = _in_one(json.loads(printed))
        row["row_limit"] = how.limit  # all rows are asked for as 0, whatever their number
        exact = row["exact_count"] / max(row["count"], 1)
        run.folder.write(TESTED, json_bytes(with_digest(row)))
    except (ValueError, TypeError, KeyError, DataError, OSError) as error:
        _fail(job, f"its test could not be noted: {error}", screen)
        return
    job.test, job.state = row, "done"
    screen.note(f"{run.run}: done, {100 * exact:.1f}% exact of {row['count']:,}")


def _in_one(tests: dict[str, Any] | list[dict[str, Any]]) -> dict[str, Any]:
    """The row of a test; of a mixture, whose datasets have a row each, their sums, and these as `tests`."""
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
    """Why a process ended: what it said last, since it was started."""
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
def heard_signals() -> Generator[list[int]]:
    """The signals that ask to stop, in the order in which they come; here they only are noted."""
    asked: list[int] = []
    with handled(lambda number, _: asked.append(number), signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield asked


def _stop_if_asked(asked: Sequence[int], going: Sequence[Job], screen: Screen) -> None:
    """Hand a signal on once to each process; after a second one kill."""
    for job in going if asked else ():
        assert job.process is not None
        if len(asked) > 1:
            job.process.kill()
        elif not job.told:
            job.told = True
            job.process.send_signal(signal.SIGTERM if asked[0] == signal.SIGHUP else asked[0])
            screen.note(f"{job.planned.run}: saving a checkpoint; another Ctrl-C kills it")


def _end_children(jobs: Sequence[Job]) -> None:
    """Leave no process behind, whatever ends the batch."""
    left = [job.process for job in jobs if job.process is not None]
    for process in left:
        process.terminate()
    for process in left:
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        process.kill()
        _let_go(process)
