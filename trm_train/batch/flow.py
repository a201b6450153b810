"""Trains and evaluates the runs of a batch: a pool of processes, `--jobs` of them at a time.

Each run is a `trm-train run` and then a `trm-eval run`. A run is done when its status is `finished` and the results
have the test of its last step, which `tested.json` in its folder names. Done runs are skipped, so the same command
resumes a batch that was stopped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal

from trm_data.command import Exit
from trm_data.errors import DataError
from trm_data.storage.atomic import json_bytes, parse_json, with_digest
from trm_data.storage.root import Layout
from trm_train.batch.plan import PlannedRun
from trm_train.runs.resume import TESTED
from trm_train.runs.status import Status, read_status

BEGIN = "from trm_train.batch.plan import take_share; take_share(); "
TRAIN = BEGIN + "from trm_train.cli import main; main()"
TEST = BEGIN + "from trm_eval.cli import main; main()"
"""Programs for the same installation. Evaluation runs in its own process and is never imported."""

State = Literal["waiting", "training", "testing", "done", "failed", "interrupted"]


@dataclass
class Job:
    """A run of a batch.

    Attributes:
        planned: Plan of the run.
        state: State of the run.
        test: Row of its test in `evals`.
        reason: Reason for a failure.
    """

    planned: PlannedRun
    state: State = "waiting"
    test: dict[str, Any] | None = None
    reason: str = ""

    @property
    def status(self) -> Status | None:
        """Status that its training reports; None if missing or unreadable now."""
        try:
            return read_status(self.planned.folder)
        except (DataError, OSError):
            return None

    @property
    def is_trained(self) -> bool:
        """Whether its training has finished."""
        status, total = self.status, self.planned.config.total_steps
        return status is not None and status.state == "finished" and status.step >= total


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
        say: Shows a message.
    """

    layout: Layout
    overrides: Sequence[str]
    shares: Sequence[dict[str, str]]
    logs: Path
    tracking: str
    limit: int
    go_on: bool
    say: Callable[[str], None]


def make_jobs(runs: Sequence[PlannedRun], layout: Layout, limit: int) -> list[Job]:
    """Return the runs of a batch as jobs; finished runs have the state `done`."""
    jobs = [Job(run, test=read_test(run, layout, limit)) for run in runs]
    for job in jobs:
        if job.test is not None and job.is_trained:
            job.state = "done"
    return jobs


def read_test(run: PlannedRun, layout: Layout, limit: int) -> dict[str, Any] | None:
    """Return the row of a run's test if the result exists and is for the last step and the same row limit."""
    content = run.folder.read(TESTED)
    try:
        row = {} if content is None else parse_json(content)
        if with_digest(row) != row or row["step"] != run.config.total_steps or row["row_limit"] != limit:
            return None
        place = f"evals/experiment={run.experiment.name}/run={run.run}"
        patterns = [f"{place}/{each['evaluation']}*.parquet" for each in row.get("tests", [row])]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return row if all(map(layout.results.names, patterns)) else None


def run_jobs(jobs: Sequence[Job], options: BatchOptions) -> None:
    """Train and test all runs that are not done; the result is in the jobs.

    A stop signal is passed to the processes, which save and end. A second one kills them.
    """
    pool = _Pool(options)
    for share in options.shares:
        pool.free.put(share)
    with ThreadPoolExecutor(len(options.shares)) as threads:
        left = [threads.submit(pool.run, job) for job in jobs if job.state != "done"]
        try:
            wait(left)
        except BaseException:
            pool.stopping.set()
            pool.end(subprocess.Popen.terminate)
            try:
                wait(left)
            except BaseException:
                pool.end(subprocess.Popen.kill)
                raise
            raise
    for one in left:
        one.result()


@dataclass
class _Pool:
    """Processes of the runs that are under way."""

    options: BatchOptions
    free: SimpleQueue[dict[str, str]] = field(default_factory=SimpleQueue)
    stopping: threading.Event = field(default_factory=threading.Event)
    failed: threading.Event = field(default_factory=threading.Event)
    processes: set[subprocess.Popen[bytes]] = field(default_factory=set)

    def end(self, how: Callable[[subprocess.Popen[bytes]], None]) -> None:
        """End all processes."""
        for process in list(self.processes):
            how(process)

    def run(self, job: Job) -> None:
        """Train and test one run, unless the batch ends before."""
        if self.stopping.is_set() or (self.failed.is_set() and not self.options.go_on):
            return
        share = self.free.get()
        try:
            self._run(job, share)
        finally:
            self.free.put(share)
        if job.state == "failed":
            self.failed.set()
        self.options.say(f"{job.planned.run}: {job.state}{f': {job.reason}' if job.reason else ''}")

    def _run(self, job: Job, share: dict[str, str]) -> None:
        run, options = job.planned, self.options
        setting, place = run.experiment.setting(), ["--root", options.layout.place]
        if not job.is_trained:
            words = ["run", run.names[0], *setting.options]
            words += ["--seed", str(run.config.seed), "--tracking", options.tracking, *place]
            if self._call(job, "training", [TRAIN, *words, *options.overrides, *run.words], share) is None:
                return
        words = ["run", run.run, "--json", "--limit", str(options.limit), *place]
        words += ["--checkpoint", str(run.config.total_steps)]  # needed if the run was extended
        printed = self._call(job, "testing", [TEST, *words], share)
        if printed is None:
            return
        try:
            row = _in_one(json.loads(printed)) | {"row_limit": options.limit}  # a limit of 0 means all rows
            run.folder.write(TESTED, json_bytes(with_digest(row)))
            job.test, job.state = row, "done"
        except (ValueError, TypeError, KeyError, DataError, OSError) as error:
            job.state, job.reason = "failed", f"its test could not be noted: {error}"

    def _call(self, job: Job, state: State, program: list[str], share: dict[str, str]) -> bytes | None:
        """Run a process of a run; return what it printed, or None if it failed or was stopped."""
        if self.stopping.is_set():
            job.state = "interrupted"
            return None
        job.state, log = state, self.options.logs / f"{job.planned.run}.log"
        self.options.say(f"{job.planned.run}: {state}, log {log}")
        with log.open("ab") as file:
            # In its own session: Ctrl-C reaches the process only once, through this one.
            process = subprocess.Popen(
                [sys.executable, "-c", *program],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                env={**os.environ, **share},
                start_new_session=True,
            )
            self.processes.add(process)
            if self.stopping.is_set():  # the signal came before the process was known
                process.terminate()
            printed, _ = process.communicate()
            self.processes.discard(process)
        if process.returncode == Exit.DONE:
            return printed
        stopped = self.stopping.is_set() or process.returncode in (Exit.INTERRUPTED, Exit.TERMINATED)
        job.state = "interrupted" if stopped else "failed"
        job.reason = "" if stopped else f"exit code {process.returncode}: {_last_line(log)}; see {log}"
        return None


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no message")


def _in_one(tests: dict[str, Any] | list[dict[str, Any]]) -> dict[str, Any]:
    """Return a test as one row; for a mixture, the sums over its datasets, with their rows in `tests`."""
    if isinstance(tests, dict):
        return tests
    names = ("count", "exact_count", "cells", "wrong_cells", "q_halt_right_count", "lm_loss_sum", "seconds")
    return {**tests[0], **{name: sum(test[name] for test in tests) for name in names}, "tests": tests}
