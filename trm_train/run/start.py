"""Brings a run to its first step: dataset, right to write, record, compiled step, state, observers, batches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from trm_data.loader.dataset import Dataset, open_dataset
from trm_data.loader.pipeline import BatchLoader, make_loader
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_data.storage.turn import locked, turn_to_write
from trm_train.checkpoint.manager import Checkpoints
from trm_train.config.run import InputSpec, RunConfig
from trm_train.errors import ConfigError
from trm_train.experiments.cost import flops_by_stage
from trm_train.experiments.registry import Experiment
from trm_train.mesh.devices import peak_flops_per_s
from trm_train.optim.build import make_schedule
from trm_train.run.observe import Console, Observer
from trm_train.run.pace import Pace
from trm_train.run.prepare import prepare
from trm_train.run.record import RunRecord, extend_record, write_record
from trm_train.run.resume import continue_record, forget, is_being_forgotten, restore
from trm_train.run.tracking import TrackingMode, make_tracker
from trm_train.run.validate import Evaluate
from trm_train.state import TrainState
from trm_train.step.compile import CompiledStep, compile_train_step
from trm_train.step.evaluate import make_eval_step


@dataclass(frozen=True)
class Started:
    """A run that is about to take its first step, and what its steps share.

    Attributes:
        config: What it is.
        record: Its record.
        folder: Where it lies.
        mesh: Devices.
        step: The compiled training step.
        state: Before the first step; that step takes it over.
        start: Steps taken by earlier starts.
        loader: Batches from the next step on.
        evaluate: The evaluation step.
        validation: The validation split; None where there is none, or it is not to be looked at.
        checkpoints: What it saves.
        observer: Who is told.
        tracking_id: Of the tracker's run.
    """

    config: RunConfig
    record: RunRecord
    folder: Folder
    mesh: Mesh
    step: CompiledStep
    state: TrainState
    start: int
    loader: BatchLoader
    evaluate: Evaluate
    validation: Dataset | None
    checkpoints: Checkpoints
    observer: Observer
    tracking_id: str


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
        exit_code: How the process ends: 0, or what says why it was asked to stop.
    """

    folder: Folder
    record: RunRecord
    step: int
    finished: bool
    started_at: int
    seconds: float
    exit_code: int = 0


def start_run(
    stack: ExitStack,
    experiment: Experiment,
    config: RunConfig,
    layout: Layout,
    console: Console,
    *,
    resume: bool,
    tracking: TrackingMode,
    extend: int | None,
) -> Started:
    """Open everything a run needs; `stack` closes it. See `loop.train` for arguments and errors."""
    prepared = prepare(experiment, config, layout)
    folder, record, mesh = prepared.folder, prepared.record, prepared.mesh
    dataset = open_dataset(config.data.only_dataset(), layout, "train")
    stack.enter_context(
        locked(folder, f"{record.run}: is being trained by another process; wait for it, or stop it")
    )
    turn = stack.enter_context(turn_to_write(folder, f"run {record.run}"))
    folder.store.remove_temporary(folder.path)
    if resume and not is_being_forgotten(folder):
        record = continue_record(folder, record)
    else:
        forgotten = forget(layout, folder, record)
        if forgotten:
            console.note(f"{record.run}: threw away {forgotten} (--resume never)")
    record = extend_record(record, extend)
    write_record(folder, record)
    compiled, state, model = compile_train_step(config, record.input_spec, mesh)
    checkpoints = Checkpoints(folder, config.execution.keep_weights)
    stack.callback(checkpoints.close)
    state, start, damaged = restore(folder, checkpoints, state, record)
    for problem in damaged:
        console.note(f"{problem}; going on from the checkpoint before, at step {start:,}")
    tracker = make_tracker(tracking, folder, record)
    stack.callback(tracker.finish)
    rates = config.optim.lr * _rate_factors(config, record.total_steps)
    peak = peak_flops_per_s(mesh, config.execution.device_tflops)
    pace = Pace(_flops_at(config, record.input_spec), peak)
    observer = Observer(folder, record, start, rates, compiled, console, tracker, turn, pace)
    stack.callback(observer.close)
    return Started(
        config=config,
        record=record,
        folder=folder,
        mesh=mesh,
        step=compiled,
        state=state,
        start=start,
        loader=stack.enter_context(_batches(dataset, config, start)),
        evaluate=jax.jit(make_eval_step(config, record.input_spec, model)),
        validation=_open_validation(config, layout, dataset),
        checkpoints=checkpoints,
        observer=observer,
        tracking_id=tracker.id,
    )


def _batches(dataset: Dataset, config: RunConfig, start: int) -> BatchLoader:
    """This host's slices of the batches from a step on."""
    return make_loader(
        dataset,
        global_batch_size=config.data.global_batch_size,
        seed=config.seed,
        process_index=jax.process_index(),
        process_count=jax.process_count(),
        start_step=start,
    )


def _rate_factors(config: RunConfig, steps: int) -> np.ndarray:
    """The factor of the learning rates at every step, from step 1."""
    return np.asarray(jax.vmap(make_schedule(config))(jnp.arange(1, steps + 1, dtype=jnp.int32)))


def _flops_at(config: RunConfig, spec: InputSpec) -> Callable[[int], float | None]:
    """Floating-point operations of a step, counted from 1; None of a network that cannot be counted."""
    try:
        stages = flops_by_stage(config, spec)
    except ConfigError:
        return lambda _: None
    return lambda step: next((flops for end, flops in stages if step <= end), stages[-1][1])


def _open_validation(config: RunConfig, layout: Layout, dataset: Dataset) -> Dataset | None:
    """The validation split, if there is one and it is to be looked at."""
    if not config.execution.validate_every or "validation" not in dataset.manifest.splits:
        return None
    return open_dataset(config.data.only_dataset(), layout, "validation")
