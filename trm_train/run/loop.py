"""One training run: dataset, mesh, state, resume, steps, checkpoints. Reads top to bottom in `train`.

The device never waits for the host: step t is dispatched, then the metrics of step t - 1 are fetched.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from trm_data.errors import DataError
from trm_data.loader.dataset import Dataset, open_dataset
from trm_data.loader.pipeline import BatchLoader, make_loader
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder, Turn
from trm_data.storage.turn import locked, turn_to_write
from trm_train.checkpoint.manager import CheckpointMeta, Checkpoints
from trm_train.config.run import RunConfig
from trm_train.errors import NotFiniteError, TrainError
from trm_train.experiments.registry import Experiment
from trm_train.mesh.sharding import batch_sharding, put_batch
from trm_train.optim.build import make_schedule
from trm_train.run.observe import Console, Observer
from trm_train.run.prepare import prepare
from trm_train.run.record import RunRecord, extend_record, write_record
from trm_train.run.resume import continue_record, forget, restore
from trm_train.run.stop import StopRequest, stop_signals
from trm_train.run.tracking import TrackingMode, make_tracker
from trm_train.run.validate import Evaluate, validate
from trm_train.state import TrainState, eval_weights
from trm_train.step.compile import CompiledStep, compile_train_step
from trm_train.step.evaluate import make_eval_step


@dataclass(frozen=True)
class TrainResult:
    """How a run ended.

    Attributes:
        folder: The run's folder.
        record: What it is.
        step: Optimizer steps taken.
        finished: False if it was asked to stop before its last step.
        started_at: Step it went on from.
        seconds: Training time over all starts, compilation aside.
        signal: Number of the signal that asked it to stop; 0 where none did.
    """

    folder: Folder
    record: RunRecord
    step: int
    finished: bool
    started_at: int
    seconds: float
    signal: int = 0


@dataclass(frozen=True)
class _Run:
    """What the steps of a run share."""

    config: RunConfig
    record: RunRecord
    mesh: Mesh
    turn: Turn
    step: CompiledStep
    evaluate: Evaluate
    validation: Dataset | None
    checkpoints: Checkpoints
    observer: Observer
    tracking_id: str


def train(
    experiment: Experiment,
    config: RunConfig,
    layout: Layout,
    console: Console,
    *,
    resume: bool = True,
    tracking: TrackingMode = "wandb",
    extend: int | None = None,
) -> TrainResult:
    """Train a run to its last step, from its newest checkpoint if it has one.

    Args:
        experiment: Names the run.
        config: The experiment's configuration with all overrides.
        layout: The root.
        console: Shows progress.
        resume: False throws away what the run has and starts anew.
        tracking: Where metrics are mirrored.
        extend: Steps in all, beyond those of the configuration.

    Raises:
        ConfigError: The configuration cannot be run.
        DatasetNotFoundError: Its dataset is not built.
        CorruptDatasetError: Its dataset is not what was built.
        BusyError: Another process or machine is training the run.
        CheckpointError: Its checkpoints belong to other rows.
        NotFiniteError: The loss is no number any more.
    """
    with ExitStack() as stack:
        prepared = prepare(experiment, config, layout)
        folder, record, mesh = prepared.folder, prepared.record, prepared.mesh
        dataset = open_dataset(config.data.dataset, layout, "train")
        busy = f"{record.run}: is being trained by another process; wait for it, or stop it"
        stack.enter_context(locked(folder, busy))
        turn = stack.enter_context(turn_to_write(folder, f"run {record.run}"))
        if resume:
            record = continue_record(folder, record)
        else:
            forget(layout, folder, record)
        record = extend_record(record, extend)
        write_record(folder, record)
        compiled, state, model = compile_train_step(config, record.input_spec, mesh)
        checkpoints = Checkpoints(folder, config.execution.keep_weights)
        stack.callback(checkpoints.close)
        state, start = restore(checkpoints, state, record)
        tracker = make_tracker(tracking, folder, record)
        stack.callback(tracker.finish)
        observer = Observer(
            folder,
            record,
            start=start,
            rates=config.optim.lr * _rate_factors(config, record.total_steps),
            compiled=compiled,
            console=console,
            tracker=tracker,
            turn=turn,
        )
        stack.callback(observer.close)
        evaluate = jax.jit(make_eval_step(config, record.input_spec, model))
        validation = _open_validation(config, layout, dataset)
        run = _Run(
            config, record, mesh, turn, compiled, evaluate, validation, checkpoints, observer, tracker.id
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
        with stop_signals() as stop:
            step = _run_steps(run, state, loader, start, stop)
        finished = step >= record.total_steps
        checkpoints.wait()
        observer.flush("finished" if finished else "stopped")
    return TrainResult(folder, record, step, finished, start, observer.seconds, stop.signal)


def _run_steps(run: _Run, state: TrainState, loader: BatchLoader, start: int, stop: StopRequest) -> int:
    """All steps from `start`; returns the number of steps taken in all."""
    execution = run.config.execution
    placed = batch_sharding(run.mesh)
    total = run.record.total_steps
    pending: tuple[int, Any] | None = None
    step = saved = start
    run.observer.begin()
    try:
        while step < total and not stop.requested:
            batch = put_batch(next(loader), placed)
            state, metrics = run.step.compiled(state, batch)
            step += 1
            if pending is not None:
                _note_step(run, *pending)
            pending = (step, metrics)
            last = step == total
            save_due = last or step % execution.checkpoint_every == 0
            validate_due = run.validation is not None and (last or step % execution.validate_every == 0)
            if save_due or validate_due:
                _note_step(run, *pending)
                pending = None
            if validate_due:
                _validate(run, state, step)
            if save_due:
                _save(run, state, step)
                saved = step
        if pending is not None:
            _note_step(run, *pending)
        if step > saved:
            _save(run, state, step)
    except (TrainError, DataError, OSError) as error:
        _fail(run, error)
        raise
    return step


def _note_step(run: _Run, step: int, metrics: Any) -> None:
    """Fetch a step's metrics and note them.

    Raises:
        NotFiniteError: Where the loss is no number any more; it says which checkpoint is good.
    """
    try:
        run.observer.step(step, jax.device_get(metrics))
    except NotFiniteError as error:
        good = run.checkpoints.latest_step()
        way = f"the last checkpoint is at step {good:,}" if good else "there is no checkpoint yet"
        raise NotFiniteError(f"{run.record.run}: {error}; {way}; try a lower --optim.lr") from error


def _validate(run: _Run, state: TrainState, step: int) -> None:
    """Evaluate the EMA weights on the validation split and note the result."""
    assert run.validation is not None
    limit = run.config.execution.validation_examples
    sums = validate(run.evaluate, eval_weights(state), run.validation, run.mesh, limit=limit)
    run.observer.validated(step, sums)


def _save(run: _Run, state: TrainState, step: int) -> None:
    """Write the metrics up to here, then start writing the checkpoint that stands on them."""
    run.observer.flush("running")
    run.checkpoints.save(
        state,
        CheckpointMeta(
            step=step,
            identity=run.record.identity,
            content_digest=run.record.content_digest,
            identifiers_digest=run.record.identifiers_digest,
            tracking_id=run.tracking_id,
        ),
    )


def _fail(run: _Run, error: Exception) -> None:
    """Leave word of an error in the run's folder, where that is still possible."""
    try:
        run.observer.flush("failed", str(error))
    except (DataError, OSError):
        return


def _rate_factors(config: RunConfig, steps: int) -> np.ndarray:
    """The factor of the learning rates at every step, from step 1."""
    return np.asarray(jax.vmap(make_schedule(config))(jnp.arange(1, steps + 1, dtype=jnp.int32)))


def _open_validation(config: RunConfig, layout: Layout, dataset: Dataset) -> Dataset | None:
    """The validation split, if there is one and it is to be looked at."""
    if not config.execution.validate_every or "validation" not in dataset.manifest.splits:
        return None
    return open_dataset(config.data.dataset, layout, "validation")
