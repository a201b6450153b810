"""One training run: steps, metrics, validation, checkpoints. Reads top to bottom in `train` and `_run_steps`.

The device never waits for the host: the next steps are dispatched before the metrics of the last dispatch are fetched.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import jax

from trm_data.errors import Exit
from trm_data.storage.root import Layout
from trm_train.config.run import RunConfig
from trm_train.console import RunConsole
from trm_train.experiments.registry import Experiment
from trm_train.hosts import Hosts
from trm_train.mesh import make_greatest
from trm_train.state import TrainState, eval_weights
from trm_train.training.initial import Initial
from trm_train.training.start import Started, TrainResult, start_run
from trm_train.training.stop import (
    StoppedError,
    StopRequest,
    explained,
    explaining_memory,
    finish_saving,
    save,
    stop_signals,
)
from trm_train.training.tracking import TrackingMode
from trm_train.training.validate import validate


def train(
    experiment: Experiment,
    config: RunConfig,
    layout: Layout,
    console: RunConsole,
    *,
    resume: bool = True,
    tracking: TrackingMode = "wandb",
    extend: int | None = None,
    label: str = "",
    hosts: Hosts | None = None,
    initial: Initial | None = None,
) -> TrainResult:
    """Train a run to its last step, starting from its newest checkpoint if it has one.

    From the first step on, a signal stops the run after a step and a checkpoint.

    Args:
        experiment: Experiment that names the run.
        config: The experiment's configuration with all overrides.
        layout: The root.
        console: RunConsole that shows progress.
        resume: False discards the existing run and starts over.
        tracking: Tracker that receives a copy of the metrics.
        extend: New total number of steps, larger than in the configuration.
        label: User's label for the run; empty keeps the current label.
        hosts: All processes that train the run; each of them calls this function. None for a single process.
        initial: Initial weights of a new run; `config` has their digest. None initializes them randomly.

    Raises:
        ConfigError: The configuration cannot be run.
        DatasetNotFoundError: Its dataset is not built.
        CorruptDatasetError: Its dataset has changed since it was built.
        BusyError: Another process or machine is training the run.
        CheckpointError: Its checkpoints belong to a dataset with other rows.
        NotFiniteError: The loss is not finite.
        OutOfMemoryError: The devices cannot hold it.
        HostError: The processes would train different things, or one of them has ended.
    """
    with ExitStack() as stack, explaining_memory():
        run = start_run(
            stack,
            experiment,
            config,
            layout,
            console,
            resume=resume,
            tracking=tracking,
            extend=extend,
            label=label,
            hosts=hosts or Hosts(),
            initial=initial,
        )
        with stop_signals() as stop:
            try:
                step, validated = _run_steps(run, stop)
            except Exception as error:
                better = explained(run, error)
                run.hosts.fail(better)
                if better is error:
                    raise
                raise better from error
        finished = validated and step >= run.record.total_steps
        run.observer.end("finished" if finished else "stopped")
        seconds = run.observer.seconds
    code = Exit.DONE if finished else stop.exit_code
    return TrainResult(run.folder, run.record, step, finished, run.start, seconds, code)


def _run_steps(run: Started, stop: StopRequest) -> tuple[int, bool]:
    """Take the remaining steps; return the total steps taken, and whether every validation up to there was made."""
    execution = run.config.execution
    state, total = run.state, run.record.total_steps
    pending: tuple[int, int, Any] | None = None
    if run.hosts.count > 1:
        stop.ask, stop.agreed = make_greatest(run.mesh), 0
    step = saved = run.start
    behind = validation_due(run, step) and step not in run.observer.scores
    if step < total or behind:
        run.observer.begin()
    validated = not behind or validate_now(run, stop, state, step)
    while step < total and not stop.requested:
        with run.observer.pace.waiting():
            count, given = run.feed.next()
        state, metrics = run.step.at(step + 1)(state, given)
        run.feed.prepare()
        step += count
        if pending is not None:
            note_steps(run, *pending)
        stop.agree()
        pending = (step - count + 1, count, metrics)
        save_due = step == total or step % execution.checkpoint_every == 0
        validate_due = validation_due(run, step)
        if save_due or validate_due:
            note_steps(run, *pending)
            pending = None
        with run.observer.pace.aside():
            if validate_due:
                validated = validate_now(run, stop, state, step)
            if save_due:
                saved = step if save(run, state, step) else saved
    if pending is not None:
        note_steps(run, *pending)
    finish_saving(run, stop, state, step, saved=step == saved)
    return step, validated


def validation_due(run: Started, step: int) -> bool:
    """Return whether the validation split must be evaluated after a step."""
    every = run.config.execution.validate_every
    return bool(run.validation) and step > 0 and (step == run.record.total_steps or step % every == 0)


def note_steps(run: Started, first: int, count: int, metrics: Any) -> None:
    """Fetch the metrics of the steps of one dispatch and record them."""
    fetched = jax.device_get(metrics)
    run.observer.pace.arrived(count)
    several = run.config.execution.steps_per_dispatch > 1
    for index in range(count):
        of_step = jax.tree.map(lambda value, at=index: value[at], fetched) if several else fetched
        run.observer.step(first + index, of_step)


def validate_now(run: Started, stop: StopRequest, state: TrainState, step: int) -> bool:
    """Evaluate the EMA weights on the validation split and record the result; return False if interrupted by a stop.

    The next start repeats an interrupted validation. For a mixture, every dataset and their sum are recorded.
    """
    limit = run.config.execution.validation_examples

    def after_batch() -> None:
        run.observer.stall_timer.beat()
        stop.agree()
        if stop.requested:
            raise StoppedError

    try:
        found = {
            name: validate(run.evaluate, eval_weights(state), split, run.mesh, limit=limit, beat=after_batch)
            for name, split in run.validation.items()
        }
    except StoppedError:
        return False
    every = list(found.values())
    total = {metric: sum(sums[metric] for sums in every) for metric in every[0]}
    run.observer.validated(step, total, found if run.config.data.is_mixture else {})
    return True
