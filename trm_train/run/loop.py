"""One training run: dataset, mesh, state, resume, steps, checkpoints. Reads top to bottom in `train`.

The device never waits for the host: step t is dispatched, then the metrics of step t - 1 are fetched.
"""

from __future__ import annotations

import fcntl
import shutil
import signal
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from trm_data.loader.dataset import Dataset, open_dataset
from trm_data.loader.pipeline import BatchLoader, make_loader
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout
from trm_train.checkpoint.manager import CheckpointMeta, Checkpoints
from trm_train.config.run import RunConfig, check_config
from trm_train.errors import CheckpointError, ConfigError
from trm_train.experiments.registry import Experiment
from trm_train.mesh.sharding import batch_sharding, make_mesh, put_batch
from trm_train.metrics.table import MetricTable
from trm_train.optim.build import make_schedule
from trm_train.run.record import CONFIG_FILE, RunRecord, make_record, read_record, run_folder, write_record
from trm_train.run.tracking import Tracker, TrackingMode, make_tracker
from trm_train.run.validate import Evaluate, validate
from trm_train.state import TrainState, eval_weights
from trm_train.step.compile import CompiledStep, compile_train_step, use_compilation_cache
from trm_train.step.train import make_eval_step


class Console(Protocol):
    """Shows a person how a run goes."""

    def begin(self, record: RunRecord, folder: Path, start_step: int, compiled: CompiledStep) -> None:
        """The run starts, at `start_step`."""
        ...

    def step(self, step: int) -> None:
        """A step is done."""
        ...

    def window(self, step: int, rows_loaded: int, steps: int, metrics: dict[str, float]) -> None:
        """So many steps since the last window are done; means over the examples that ended in them."""
        ...

    def validated(self, step: int, metrics: dict[str, float]) -> None:
        """An evaluation on the validation split has ended."""
        ...


@dataclass(frozen=True)
class TrainResult:
    """How a run ended.

    Attributes:
        folder: The run's folder.
        record: What it is.
        step: Optimizer steps taken.
        finished: False if it was asked to stop before its last step.
        started_at: Step it went on from.
        seconds: Wall-clock time of the steps of this start.
    """

    folder: Path
    record: RunRecord
    step: int
    finished: bool
    started_at: int
    seconds: float


@dataclass
class _Run:
    """What the steps of a run share."""

    config: RunConfig
    record: RunRecord
    folder: Path
    mesh: Mesh
    step: CompiledStep
    evaluate: Evaluate
    validation: Dataset | None
    checkpoints: Checkpoints
    table: MetricTable
    tracker: Tracker
    console: Console
    rates: np.ndarray
    """Learning rate of the network at every step, from step 1."""
    begun: float = 0.0
    window: dict[str, float] = field(default_factory=dict)
    """Metric sums since the last line on the console."""
    window_steps: int = 0


def train(
    experiment: Experiment,
    config: RunConfig,
    layout: Layout,
    console: Console,
    *,
    resume: bool = True,
    tracking: TrackingMode = "wandb",
) -> TrainResult:
    """Train a run to its last step, from its newest checkpoint if it has one.

    Args:
        experiment: Names the run.
        config: The experiment's configuration with all overrides.
        layout: The root.
        console: Shows progress.
        resume: False throws away what the run has and starts anew.
        tracking: Where metrics are mirrored.

    Raises:
        ConfigError: The configuration cannot be run.
        DatasetNotFoundError: Its dataset is not built.
        CorruptDatasetError: Its dataset is not what was built.
        CheckpointError: Its checkpoints belong to other rows.
    """
    check_config(config)
    use_compilation_cache(layout)
    with ExitStack() as stack:
        dataset = open_dataset(config.data.dataset, layout, "train")
        mesh = make_mesh(config.execution.model_parallel)
        check_batch(config, mesh)
        record = make_record(experiment, config, dataset.manifest)
        folder = run_folder(layout, experiment, config)
        stack.enter_context(_locked(layout, record.run))
        if resume:
            record = _continue_record(folder, record)
        else:
            _forget(layout, folder, record)
        write_record(folder, record)
        compiled, state, model = compile_train_step(config, record.input_spec, mesh)
        checkpoints = Checkpoints(folder, config.execution.keep_weights)
        stack.callback(checkpoints.close)
        state, start = _restore(checkpoints, state, record)
        tracker = make_tracker(tracking, folder, record)
        stack.callback(tracker.finish)
        validation = _open_validation(config, layout, dataset)
        run = _Run(
            config=config,
            record=record,
            folder=folder,
            mesh=mesh,
            step=compiled,
            evaluate=jax.jit(make_eval_step(config, record.input_spec, model)),
            validation=validation,
            checkpoints=checkpoints,
            table=MetricTable(folder, start),
            tracker=tracker,
            console=console,
            rates=config.optim.lr * _rate_factors(config),
        )
        loader = stack.enter_context(
            make_loader(
                dataset,
                global_batch_size=config.data.global_batch_size,
                seed=config.seed,
                process_index=jax.process_index(),
                process_count=jax.process_count(),
                start_step=start,
            )
        )
        console.begin(record, folder, start, compiled)
        run.begun = time.perf_counter()
        with _stop_signals() as stop:
            step = _run_steps(run, state, loader, start, stop)
        seconds = time.perf_counter() - run.begun
    return TrainResult(folder, record, step, step >= config.total_steps, start, seconds)


def _run_steps(run: _Run, state: TrainState, loader: BatchLoader, start: int, stop: _StopRequest) -> int:
    """All steps from `start`; returns the number of steps taken in all."""
    execution = run.config.execution
    placed = batch_sharding(run.mesh)
    total = run.config.total_steps
    pending: tuple[int, Any] | None = None
    step = saved = start
    while step < total and not stop.requested:
        batch = put_batch(next(loader), placed)
        state, metrics = run.step.compiled(state, batch)
        step += 1
        if pending is not None:
            _record_step(run, *pending)
        pending = (step, metrics)
        last = step == total
        save_due = last or step % execution.checkpoint_every == 0
        validate_due = run.validation is not None and (last or step % execution.validate_every == 0)
        if save_due or validate_due:
            _record_step(run, *pending)
            pending = None
        if validate_due:
            _validate(run, state, step)
        if save_due:
            _save(run, state, step)
            saved = step
    if pending is not None:
        _record_step(run, *pending)
    if step > saved:
        _save(run, state, step)
    return step


def _record_step(run: _Run, step: int, metrics: Any) -> None:
    """Fetch a step's metrics and note them."""
    values = {name: value.item() for name, value in jax.device_get(metrics).items()}
    # A slot takes a row when it has halted: at the first step all do, later those that halted the step before.
    if step == 1:
        run.table.rows_loaded += run.config.data.global_batch_size
    row: dict[str, Any] = {
        "step": step,
        "split": "train",
        "rows_loaded": run.table.rows_loaded,
        "global_batch_size": run.config.data.global_batch_size,
        "lr": float(run.rates[step - 1]),
        "seconds": time.perf_counter() - run.begun,
        **values,
    }
    run.table.rows_loaded += int(values["count"])
    run.table.add(row)
    for name, value in values.items():
        run.window[name] = run.window.get(name, 0.0) + value
    run.window_steps += 1
    if step % run.config.execution.log_every == 0 or step == run.config.total_steps:
        shown = means(run.window, run.window_steps * run.config.data.global_batch_size)
        run.console.window(step, row["rows_loaded"], run.window_steps, shown)
        run.tracker.log(step, {f"train/{name}": value for name, value in shown.items()})
        run.window, run.window_steps = {}, 0
    else:
        run.console.step(step)


def _validate(run: _Run, state: TrainState, step: int) -> None:
    """Evaluate the EMA weights on the validation split and note the result."""
    assert run.validation is not None
    sums = validate(
        run.evaluate,
        eval_weights(state),
        run.validation,
        run.mesh,
        limit=run.config.execution.validation_examples,
    )
    row = {"step": step, "split": "validation", "rows_loaded": run.table.rows_loaded}
    row |= {"global_batch_size": int(sums["count"]), "seconds": time.perf_counter() - run.begun, **sums}
    for name in ("count", "exact_accuracy", "q_halt_accuracy", "steps"):
        row[name] = int(sums[name])
    run.table.add(row)
    shown = means(sums, int(sums["count"]))
    run.console.validated(step, shown)
    run.tracker.log(step, {f"validation/{name}": value for name, value in shown.items()})


def means(sums: dict[str, float], loss_rows: int) -> dict[str, float]:
    """Divide metric sums: accuracies and steps by `count`, losses by the rows they are over."""
    count = sums["count"]
    shown = {"count": float(count)}
    for name in ("accuracy", "exact_accuracy", "q_halt_accuracy", "steps"):
        shown[name] = sums[name] / count if count else float("nan")
    for name in ("lm_loss", "q_halt_loss"):
        shown[name] = sums[name] / max(loss_rows, 1)
    return shown


def _rate_factors(config: RunConfig) -> np.ndarray:
    """The factor of the learning rates at every step, from step 1."""
    return np.asarray(jax.vmap(make_schedule(config))(jnp.arange(1, config.total_steps + 1, dtype=jnp.int32)))


def check_batch(config: RunConfig, mesh: Mesh) -> None:
    """Refuse a batch that cannot be spread evenly.

    Raises:
        ConfigError: Says which batch sizes are allowed.
    """
    devices = mesh.shape["data"]
    if config.data.global_batch_size % devices:
        raise ConfigError(
            f"data.global_batch_size: a multiple of the {devices} devices along the mesh axis data, "
            f"got {config.data.global_batch_size}"
        )


def _continue_record(folder: Path, record: RunRecord) -> RunRecord:
    """The record of a run that goes on: it began when it began, and on the rows it began with.

    Raises:
        ConfigError: The record that is there cannot be read.
        CheckpointError: The dataset has other rows or identifiers now.
    """
    if not (folder / CONFIG_FILE).is_file():
        return record
    before = read_record(folder)
    for what in ("content_digest", "identifiers_digest"):
        if getattr(before, what) != getattr(record, what):
            raise CheckpointError(
                f"{folder}: began with other rows (dataset {record.config.data.dataset} had {what} "
                f"{getattr(before, what)[:12]}, now {getattr(record, what)[:12]}); rebuild that dataset, or "
                "start anew with --resume never"
            )
    return replace(record, created_at=before.created_at)


def _restore(checkpoints: Checkpoints, state: TrainState, record: RunRecord) -> tuple[TrainState, int]:
    """The state to go on from, and its step."""
    if checkpoints.latest_step() is None:
        return state, 0
    restored, meta = checkpoints.restore(state)
    expected = (record.identity, record.content_digest, record.identifiers_digest)
    if (meta.identity, meta.content_digest, meta.identifiers_digest) != expected:
        raise CheckpointError(
            f"{checkpoints.folder}: the checkpoint at step {meta.step} is of another configuration or dataset; "
            "start anew with --resume never"
        )
    return restored, meta.step


def _save(run: _Run, state: TrainState, step: int) -> None:
    """Write the metrics up to here, then start writing the checkpoint that stands on them."""
    run.table.write_part(step)
    run.checkpoints.save(
        state,
        CheckpointMeta(
            step=step,
            identity=run.record.identity,
            content_digest=run.record.content_digest,
            identifiers_digest=run.record.identifiers_digest,
            tracking_id=run.tracker.id,
        ),
    )


def _open_validation(config: RunConfig, layout: Layout, dataset: Dataset) -> Dataset | None:
    """The validation split, if there is one and it is to be looked at."""
    if not config.execution.validate_every or "validation" not in dataset.manifest.splits:
        return None
    return open_dataset(config.data.dataset, layout, "validation")


def _forget(layout: Layout, folder: Path, record: RunRecord) -> None:
    """Remove what a run has, its results too, so that it starts anew."""
    results = (layout.machine / "results").glob(f"*/experiment={record.experiment}/run={record.run}")
    for part in (folder / "checkpoints", folder / "metrics", *results):
        if part.exists():
            shutil.rmtree(part)


@contextmanager
def _locked(layout: Layout, run: str) -> Generator[None, None, None]:
    """One process on this machine trains a run at a time.

    Raises:
        ConfigError: Another one does.
    """
    layout.locks.mkdir(parents=True, exist_ok=True)
    with (layout.locks / f"{run}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"{run}: is being trained by another process; wait for it, or stop it"
            ) from None
        yield


@dataclass
class _StopRequest:
    """Whether the process was asked to stop."""

    requested: bool = False


@contextmanager
def _stop_signals() -> Generator[_StopRequest, None, None]:
    """SIGTERM (a pre-emption) and Ctrl-C end the run after the step that is under way, with a checkpoint."""
    stop = _StopRequest()

    def request(number: int, frame: FrameType | None) -> None:
        stop.requested = True
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)

    before = {number: signal.signal(number, request) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_dataset_is_built(experiment: Experiment, config: RunConfig, layout: Layout) -> None:
    """Refuse to start without the dataset, saying how to build it.

    Raises:
        DatasetNotFoundError: With the command that builds the experiment's dataset.
    """
    from trm_data.errors import DatasetNotFoundError

    try:
        read_manifest(layout, config.data.dataset)
    except DatasetNotFoundError as error:
        if config.data.dataset != experiment.make().data.dataset:
            raise
        raise DatasetNotFoundError(f"{error}\n  build it: {experiment.build}") from None
