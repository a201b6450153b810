"""Plans the runs of a batch, then trains and evaluates them: a pool of processes, `--jobs` of them at a time.

A run with several names occurs once. GPUs or CPU cores are divided among parallel runs.

Each run is a `trm-train run` and then a `trm-eval run`. A run is done when its status is `finished` and the results
have the test of its last step, which `tested.json` in its folder names. Done runs are skipped, so the same command
resumes a batch that was stopped.
"""

from __future__ import annotations

import dataclasses
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

from trm_data.errors import DataError, DatasetNotFoundError, Exit, closest
from trm_data.manifest import read_manifest
from trm_data.named import first_name
from trm_data.storage.atomic import json_bytes, parse_json, with_digest
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.config.overrides import parse_config
from trm_train.config.run import InputSpec, RunConfig, check_config
from trm_train.cost import Cost, cost_of
from trm_train.errors import ConfigError
from trm_train.experiments.dataset import is_named, plan_datasets
from trm_train.experiments.registry import Experiment, find_run_of
from trm_train.experiments.sweep import Grid, Sweep, make_sweep, words_of_points
from trm_train.runs.record import input_spec, run_folder, run_name
from trm_train.runs.status import TESTED, Status, read_status
from trm_train.targets.catalog import USABLE_ON_GPUS


@dataclass(frozen=True)
class PlannedRun:
    """Plan of one run of a batch.

    Attributes:
        experiment: Experiment of the run, at its setting.
        names: Requested experiments that share this run, aliases included.
        config: Configuration of the run.
        run: Name of the run.
        folder: Folder of the run.
        cost: Cost of the run; None if the dataset is neither named nor built, or the network does not count its
            operations.
        words: Options of the command line that are its own, of a point of a sweep.
        varies: What differs between the runs, in words and numbers.
    """

    experiment: Experiment
    names: tuple[str, ...]
    config: RunConfig
    run: str
    folder: Folder
    cost: Cost | None
    words: tuple[str, ...] = ()
    varies: str = ""

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of its datasets (several only for a mixture); for a named dataset, its first name."""
        return tuple(map(first_name, self.config.data.names))

    @property
    def dataset(self) -> str:
        """Names of its datasets as one string, for messages."""
        return "+".join(self.datasets)


def plan_batch(
    items: Sequence[Experiment],
    seeds: Sequence[int],
    layout: Layout,
    change: Callable[[RunConfig], RunConfig] = lambda config: config,
) -> list[PlannedRun]:
    """Return the runs of experiments, seed by seed, in the order of the experiments.

    Args:
        items: Experiments, each at one setting.
        seeds: Seeds of each experiment.
        layout: The root.
        change: Overrides, applied to every configuration.
    """
    names: dict[tuple[str, int], list[str]] = {}
    for seed in seeds:
        for item in items:
            names.setdefault((item.alias_of() or item.name, seed), []).append(item.name)
    setting = {item.alias_of() or item.name: item.setting() for item in items}
    return [
        _planned(find_run_of(asked[0], setting[name]), seed, tuple(asked), layout, change)
        for (name, seed), asked in names.items()
    ]


def plan_sweep(
    name: str,
    item: Experiment,
    grid: Grid,
    seeds: Sequence[int],
    layout: Layout,
    change: Callable[[RunConfig], RunConfig] = lambda config: config,
) -> tuple[Sweep, list[PlannedRun]]:
    """Return a sweep and its runs, seed by seed, in the order of the grid.

    Args:
        name: Name of the sweep; empty for one made of the experiment and the options.
        item: Experiment at its setting.
        grid: Values of each swept option.
        seeds: Seeds of each combination.
        layout: The root.
        change: Overrides for every run.

    Raises:
        ConfigError: An option or value is not possible, or a sweep of this name has other values.
    """
    points = words_of_points(change(find_run_of(item.name, item.setting()).make()), grid)
    runs = [
        dataclasses.replace(run, words=words)
        for seed in seeds
        for words in points
        for run in plan_batch(
            [item],
            [seed],
            layout,
            lambda config, words=words: parse_config(change(config), [*words]),
        )
    ]
    item = runs[0].experiment
    sweep = make_sweep(name, item, grid, [run.config for run in runs[: len(points)]], layout)
    said = sweep.says() * len(seeds)
    return sweep, [dataclasses.replace(run, varies=text) for run, text in zip(runs, said, strict=True)]


def _planned(
    item: Experiment,
    seed: int,
    names: tuple[str, ...],
    layout: Layout,
    change: Callable[[RunConfig], RunConfig],
) -> PlannedRun:
    config = change(dataclasses.replace(item.make(), seed=seed))
    try:
        check_config(config)
    except ConfigError as error:
        raise ConfigError(f"{item.name}: {error}") from error
    spec = _spec_of(config, layout)
    return PlannedRun(
        experiment=item,
        names=names,
        config=config,
        run=run_name(item.name, config),
        folder=run_folder(layout, item, config),
        cost=None if spec is None else cost_of(config, spec),
        varies=item.says(config),
    )


def _spec_of(config: RunConfig, layout: Layout) -> InputSpec | None:
    """Return the input sizes of the datasets, planned or built; None if unknown."""
    planned = plan_datasets(config.data.names)
    if planned is not None:
        return planned.input_spec
    try:
        return input_spec(*(read_manifest(layout, name) for name in config.data.names))
    except DataError:
        return None


def missing_datasets(runs: Sequence[PlannedRun], layout: Layout) -> list[str]:
    """Return the datasets of a batch that are not built; raise ConfigError for an unknown name."""
    missing: list[str] = []
    pairs = [pair for run in runs for pair in zip(run.config.data.names, run.datasets, strict=True)]
    for asked, name in dict.fromkeys(pairs):
        try:
            read_manifest(layout, asked)
        except DatasetNotFoundError:
            missing.append(name)
            if not is_named(name):
                built = layout.dataset_names()
                said = f"dataset {name} is not built, and no named dataset has this name"
                close = f"; did you mean {near!r}?" if (near := closest(name, built)) else ""
                raise ConfigError(
                    f"{said}{close} (got {name}; expected one of trm-data list or of trm-data build named). Build it "
                    f"first: trm-data build KIND --source FILE --name {name}"
                ) from None
    return list(dict.fromkeys(missing))


def shares(jobs: int) -> list[dict[str, str]]:
    """Return the environment variables of each of several parallel runs.

    The runs see disjoint sets of GPUs. Runs that outnumber the GPUs share them: each run gets an equal part of the
    memory of one GPU. Without GPUs, runs get disjoint sets of cores, in `TRM_CORES`.

    Raises:
        ConfigError: More runs than cores.
    """
    if jobs == 1:
        return [{}]
    gpus = _gpus()
    if gpus and jobs > len(gpus):
        memory = f"{USABLE_ON_GPUS / -(-jobs // len(gpus)):.3f}"
        return [
            {"CUDA_VISIBLE_DEVICES": gpus[job % len(gpus)], "XLA_PYTHON_CLIENT_MEM_FRACTION": memory}
            for job in range(jobs)
        ]
    if gpus:
        return [{"CUDA_VISIBLE_DEVICES": ",".join(part)} for part in _divided(gpus, jobs, "GPUs")]
    cores = [str(core) for core in sorted(os.sched_getaffinity(0))]
    return [{"TRM_CORES": ",".join(part)} for part in _divided(cores, jobs, "cores")]


def take_share() -> None:
    """Restrict this process to the cores in `TRM_CORES`, if set."""
    cores = os.environ.get("TRM_CORES")
    if cores:
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})


def _divided(what: list[str], jobs: int, name: str) -> list[list[str]]:
    if len(what) < jobs:
        raise ConfigError(
            f"--jobs {jobs}: got {jobs} runs for {len(what)} {name}; expected at most one run on each"
        )
    each = len(what) // jobs
    return [what[job * each : (job + 1) * each] for job in range(jobs)]


def _gpus() -> list[str]:
    """Return the numbers of the NVIDIA GPUs that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [part for part in visible.split(",") if part and not part.startswith("-")]
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return []
    return [str(i) for i, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]


BEGIN = "from trm_train.batch import take_share; take_share(); "
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


@dataclass(kw_only=True)
class Pool:
    """Processes that train and test the runs of a batch, several at a time.

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
    _free: SimpleQueue[dict[str, str]] = field(default_factory=SimpleQueue)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _failed: threading.Event = field(default_factory=threading.Event)
    _processes: set[subprocess.Popen[bytes]] = field(default_factory=set)

    def run(self, jobs: Sequence[Job]) -> None:
        """Train and test all runs that are not done; the result is in the jobs.

        A stop signal is passed to the processes, which save and end. A second one kills them.
        """
        for share in self.shares:
            self._free.put(share)
        with ThreadPoolExecutor(len(self.shares)) as threads:
            left = [threads.submit(self._run, job) for job in jobs if job.state != "done"]
            try:
                wait(left)
            except BaseException:
                self._stopping.set()
                self._end(subprocess.Popen.terminate)
                try:
                    wait(left)
                except BaseException:
                    self._end(subprocess.Popen.kill)
                    raise
                raise
        for one in left:
            one.result()

    def _end(self, how: Callable[[subprocess.Popen[bytes]], None]) -> None:
        for process in list(self._processes):
            how(process)

    def _run(self, job: Job) -> None:
        """Train and test one run, unless the batch ends before."""
        if self._stopping.is_set() or (self._failed.is_set() and not self.go_on):
            return
        share = self._free.get()
        try:
            self._train_and_test(job, share)
        finally:
            self._free.put(share)
        if job.state == "failed":
            self._failed.set()
        self.say(f"{job.planned.run}: {job.state}{f': {job.reason}' if job.reason else ''}")

    def _train_and_test(self, job: Job, share: dict[str, str]) -> None:
        run, place = job.planned, ["--root", self.layout.place]
        if not job.is_trained:
            words = ["run", run.names[0], *run.experiment.setting().options]
            words += ["--seed", str(run.config.seed), "--tracking", self.tracking, *place]
            if self._call(job, "training", [TRAIN, *words, *self.overrides, *run.words], share) is None:
                return
        words = ["run", run.run, "--json", "--limit", str(self.limit), *place]
        words += ["--checkpoint", str(run.config.total_steps)]  # needed if the run was extended
        printed = self._call(job, "testing", [TEST, *words], share)
        if printed is None:
            return
        try:
            row = _in_one(json.loads(printed)) | {"row_limit": self.limit}  # a limit of 0 means all rows
            run.folder.write(TESTED, json_bytes(with_digest(row)))
            job.test, job.state = row, "done"
        except (ValueError, TypeError, KeyError, DataError, OSError) as error:
            job.state, job.reason = "failed", f"its test could not be noted: {error}"

    def _call(self, job: Job, state: State, program: list[str], share: dict[str, str]) -> bytes | None:
        """Run a process of a run; return what it printed, or None if it failed or was stopped."""
        if self._stopping.is_set():
            job.state = "interrupted"
            return None
        job.state, log = state, self.logs / f"{job.planned.run}.log"
        self.say(f"{job.planned.run}: {state}, log {log}")
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
            self._processes.add(process)
            if self._stopping.is_set():  # the signal came before the process was known
                process.terminate()
            printed, _ = process.communicate()
            self._processes.discard(process)
        if process.returncode == Exit.DONE:
            return printed
        stopped = self._stopping.is_set() or process.returncode in (Exit.INTERRUPTED, Exit.TERMINATED)
        job.state = "interrupted" if stopped else "failed"
        lines = [line.strip() for line in log.read_text("utf-8", "replace").split("\n") if line.strip()]
        last = lines[-1] if lines else "no message"
        job.reason = "" if stopped else f"exit code {process.returncode}: {last}; see {log}"
        return None


def _in_one(tests: dict[str, Any] | list[dict[str, Any]]) -> dict[str, Any]:
    """Return a test as one row; for a mixture, the sums over its datasets, with their rows in `tests`."""
    if isinstance(tests, dict):
        return tests
    names = ("count", "exact_count", "cells", "wrong_cells", "q_halt_right_count", "lm_loss_sum", "seconds")
    return {**tests[0], **{name: sum(test[name] for test in tests) for name in names}, "tests": tests}
