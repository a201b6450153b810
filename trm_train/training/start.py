"""Starts a run: dataset, lease, record, compiled step, state, observers, and batches prefetched to the devices."""

from __future__ import annotations

import json
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from trm_data.loader.dataset import Dataset, open_dataset
from trm_data.loader.mixture import EncodedSplit, Mixture, open_mixture
from trm_data.loader.pipeline import BatchLoader, ReadsRows, make_loader
from trm_data.loader.rows import Batch, Picks
from trm_data.storage.lease import leased, locked
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder, Lease
from trm_train.checkpoint.manager import Checkpoints, Keep, Restored
from trm_train.checkpoint.tree import state_tree
from trm_train.config.data import MixtureConfig
from trm_train.config.run import InputSpec, RunConfig
from trm_train.console import RunConsole
from trm_train.cost import flops_by_stage
from trm_train.errors import BEING_TRAINED, ConfigError, HostError
from trm_train.experiments.registry import Experiment
from trm_train.hosts import Hosts
from trm_train.mesh import (
    batch_sharding,
    batches_sharding,
    data_part,
    peak_flops_per_s,
    put_batch,
    replicated,
)
from trm_train.optim import make_schedule
from trm_train.runs.record import RunRecord, check_label, extend_record, write_record
from trm_train.runs.resume import continue_record, discard, is_being_discarded, restore
from trm_train.state import TrainState, init_state
from trm_train.step.compile import CompiledStep, Given, compile_train_step
from trm_train.step.evaluate import make_eval_step
from trm_train.training.initial import Initial
from trm_train.training.observe import Observer, Pace
from trm_train.training.prepare import prepare, training_facts
from trm_train.training.tracking import TrackingMode, start_wandb
from trm_train.training.validate import Evaluate

COMPILED_S = 86_400.0
"""Timeout of the barrier after compilation (s); long, because one process may compile while others use a cache."""
START = "start-token"
"""File with a token from process 0, by which the others check at each start that they share its root."""


@dataclass(frozen=True)
class Started:
    """A run that is ready for its first step.

    Attributes:
        config: Configuration of the run.
        record: Record of the run.
        folder: Folder of the run.
        mesh: Mesh of the devices.
        step: The compiled training step.
        state: State before the first step; the first step donates its buffers.
        start: Steps taken by earlier starts.
        feed: Prefetcher of the input, from the next step on.
        evaluate: The evaluation step.
        validation: Validation splits by dataset name. Empty if there is no validation split, or if validation is
            off.
        checkpoints: Checkpoints of the run.
        observer: Observer of the run.
        hosts: All processes that train it.
    """

    config: RunConfig
    record: RunRecord
    folder: Folder
    mesh: Mesh
    step: CompiledStep
    state: TrainState
    start: int
    feed: Prefetcher
    evaluate: Evaluate
    validation: dict[str, ReadsRows]
    checkpoints: Checkpoints
    observer: Observer
    hosts: Hosts


@dataclass(frozen=True)
class TrainResult:
    """Result of one start of a run.

    Attributes:
        folder: The run's folder.
        record: The run's record.
        step: Total number of optimizer steps taken.
        finished: False if the run was stopped before its last step.
        started_at: Step that this start resumed from.
        seconds: Training time over all starts, without compilation (s).
        exit_code: Exit code of the process: 0, or the reason for the stop.
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
    console: RunConsole,
    *,
    resume: bool,
    tracking: TrackingMode,
    extend: int | None,
    label: str,
    hosts: Hosts,
    initial: Initial | None = None,
) -> Started:
    """Open everything a run needs; `stack` closes it. See `loop.train` for arguments and errors."""
    prepared = prepare(experiment, config, layout)
    folder, mesh = prepared.folder, prepared.mesh
    record = replace(prepared.record, label=check_label(label))
    if hosts.count > 1:
        hosts.prove_equal("what is trained", training_facts(record, resume=resume, extend=extend))
    dataset = _open_training(config, layout)
    record, lease = _take_over(stack, folder, record, layout, console, hosts, resume=resume, extend=extend)
    console.note("compiling the step")
    compiled, shapes, model = compile_train_step(config, record.input_spec, mesh, _rows(dataset))
    state_tree(shapes)  # raises an error for a state that no checkpoint could hold
    hosts.barrier("the compiled programs", limit_s=COMPILED_S)
    if hosts.count > 1:  # with "auto", hosts with different device memory choose different numbers
        hosts.prove_equal("the compiled programs", {"micro_batches": compiled.micro_batches})
    execution = config.execution
    keep = Keep(execution.keep_weights, execution.keep_weights_every, execution.keep_best_weights)
    checkpoints = Checkpoints(folder, keep, hosts)
    stack.callback(checkpoints.close)
    found = restore(folder, checkpoints, shapes, record)
    start = _agree_on_start(found, hosts, console)
    tracker = start_wandb(folder, record) if tracking == "wandb" and hosts.is_coordinator else None
    if tracker is not None:
        stack.callback(tracker.finish)
    pace = Pace(_flops_at(config, record.input_spec), peak_flops_per_s(mesh, execution.device_tflops))
    rates = config.optim.lr * np.asarray(
        jax.vmap(make_schedule(config))(jnp.arange(1, record.total_steps + 1, dtype=jnp.int32))
    )
    observer = Observer(folder, record, start, pace, hosts, rates, compiled, console, tracker, lease)
    _watch(stack, observer, keep, hosts)
    _compare_start(observer, record, prepared.record)
    return Started(
        config=config,
        record=record,
        folder=folder,
        mesh=mesh,
        step=compiled,
        state=_first_state(record, mesh, initial, observer) if found is None else found.state,
        start=start,
        feed=_feed(stack, dataset, record, compiled, start, mesh),
        evaluate=jax.jit(make_eval_step(config, record.input_spec, model, mesh=mesh)),
        validation=_open_validation(record, layout, dataset),
        checkpoints=checkpoints,
        observer=observer,
        hosts=hosts,
    )


def _agree_on_start(found: Restored | None, hosts: Hosts, console: RunConsole) -> int:
    """Return the step that all processes resume from; report damaged checkpoints."""
    start = 0 if found is None else found.meta.step
    hosts.prove_equal("checkpoint to resume from", {"step": start})
    for problem in [] if found is None else found.problems:
        console.note(f"{problem}; resuming from the checkpoint before, at step {start:,}")
    return start


def _first_state(record: RunRecord, mesh: Mesh, initial: Initial | None, observer: Observer) -> TrainState:
    """Return the state before the first step; report the source of given weights."""
    weights, config = None, record.config
    if initial is not None:
        weights = initial.weights
        observer.say(initial.note)
    return init_state(config, record.input_spec, config.data.global_batch_size, mesh, weights)[1]


def _compare_start(observer: Observer, record: RunRecord, now: RunRecord) -> None:
    """Report a resume with other code of the user, or another number of CPU threads, than the run began with."""
    for line in record.code_changes():
        observer.say(line)
    if record.cpu_threads not in (None, now.cpu_threads):
        observer.say(
            f"{record.run}: began with {record.cpu_threads} CPU threads, resumes with {now.cpu_threads}; the numbers "
            "differ by rounding from those of one thread count"
        )


def _watch(stack: ExitStack, observer: Observer, keep: Keep, hosts: Hosts) -> None:
    """Register the observer to be closed.

    All processes receive the rows loaded and the validations known to process 0. `keep` shares their dictionary and so
    sees later ones.
    """
    stack.callback(observer.close)
    known = json.dumps([observer.rows_loaded, observer.scores])
    observer.rows_loaded, scores = json.loads(hosts.barrier("validations", known)[0])
    observer.scores.update({int(step): score for step, score in scores.items()})
    keep.scores = observer.scores


def _take_over(
    stack: ExitStack,
    folder: Folder,
    record: RunRecord,
    layout: Layout,
    console: RunConsole,
    hosts: Hosts,
    *,
    resume: bool,
    extend: int | None,
) -> tuple[RunRecord, Lease | None]:
    """Take the lease of a run's folder, and write the record of the resumed or new run.

    With several processes, only process 0 does so; the others then read the record.
    """
    if not hosts.is_coordinator:
        _find_root(folder, hosts)
        return continue_record(folder, record), None
    stack.enter_context(locked(folder, f"{record.run}: {BEING_TRAINED}; wait for it, or stop it"))
    lease = stack.enter_context(leased(folder, f"run {record.run}"))
    folder.store.remove_temporary(folder.path)
    if resume and not is_being_discarded(folder):
        record = continue_record(folder, record)
    elif discarded := discard(layout, folder, record):
        console.note(f"{record.run}: discarded {discarded} (--resume never)")
    record = extend_record(record, extend)
    write_record(folder, record)
    _show_root(folder, hosts)
    return record, lease


def _show_root(folder: Folder, hosts: Hosts) -> None:
    """Process 0: write a token that the other processes must find."""
    if hosts.count == 1:
        return
    token = secrets.token_hex(8)
    folder.write(START, token.encode())
    hosts.barrier("the run's folder", token)


def _find_root(folder: Folder, hosts: Hosts) -> None:
    """Other processes: check that the token of process 0 is in the run's folder."""
    token = hosts.barrier("the run's folder")[0]
    if folder.read(START) != token.encode():
        raise HostError(
            f"{folder}: {hosts.name(hosts.index)} does not see the files of {hosts.name(0)}. All processes need one "
            f"shared --root"
        )


def _feed(
    stack: ExitStack,
    dataset: Dataset | Mixture,
    record: RunRecord,
    compiled: CompiledStep,
    start: int,
    mesh: Mesh,
) -> Prefetcher:
    """Return the prefetcher for this process's part of the batches, or of their row numbers, from a step on."""
    config, execution, (part, parts) = record.config, record.config.execution, data_part(mesh)
    held = dataset if isinstance(dataset, Dataset) and execution.device_rows else None
    loader = make_loader(
        dataset if held is None else numbered(held),
        global_batch_size=config.data.global_batch_size,
        seed=config.seed,
        process_index=part,
        process_count=parts,
        start_step=start,
    )
    stack.enter_context(loader)
    most, every = execution.steps_per_dispatch, (execution.checkpoint_every, execution.validate_every)
    counts = dispatches(start, record.total_steps, most, every, [end for end, _ in compiled.stages])
    rows = None if held is None else hold_rows(held, mesh)
    return stack.enter_context(Prefetcher(loader, mesh, counts, most, rows))


def _flops_at(config: RunConfig, spec: InputSpec) -> Callable[[int], float | None]:
    """Return the floating-point operations of a step (from 1), or None if the network does not count them."""
    stages = flops_by_stage(config, spec)
    if stages is None:
        return lambda _: None
    return lambda step: next((flops for end, flops in stages if step <= end), stages[-1][1])


def _open_training(config: RunConfig, layout: Layout) -> Dataset | Mixture:
    """Open the training split, or those of a mixture."""
    if isinstance(config.data, MixtureConfig):
        return open_mixture(config.data.shares, layout, "train", shared_puzzles=config.data.shared_puzzles)
    return open_dataset(config.data.only_dataset(), layout, "train")


def _rows(dataset: Dataset | Mixture) -> int:
    """Return the number of rows that devices can hold with `execution.device_rows`; 0 for a mixture."""
    return len(dataset) if isinstance(dataset, Dataset) else 0


def _open_validation(record: RunRecord, layout: Layout, dataset: Dataset | Mixture) -> dict[str, ReadsRows]:
    """Open the validation split of every dataset that has one, by name; empty if validation is off."""
    if not record.config.execution.validate_every:
        return {}
    if isinstance(dataset, Dataset):
        if "validation" not in dataset.manifest.splits:
            return {}
        name = record.config.data.only_dataset()
        return {name: open_dataset(name, layout, "validation")}
    return {
        each.dataset: EncodedSplit(
            open_dataset(each.dataset, layout, "validation"), each, record.input_spec.sequence_length
        )
        for each, opened in zip(record.mixture, dataset.datasets, strict=True)
        if "validation" in opened.manifest.splits
    }


AHEAD = 2
"""Number of dispatches whose input is prefetched while one is computed."""


@dataclass(frozen=True)
class RowNumbers:
    """Reader that returns row numbers instead of rows, for devices that already hold the rows.

    Attributes:
        dataset: Dataset that the rows belong to.
    """

    dataset: Dataset

    def gather(self, picks: Picks) -> Batch:
        """Return the row numbers of a batch as `rows`, int32 [b]."""
        return {"rows": self.dataset.groups.rows(picks).astype(np.int32)}


def numbered(dataset: Dataset) -> Dataset:
    """Return the same split with a reader whose batches contain only row numbers (`rows`)."""
    if len(dataset) > np.iinfo(np.int32).max:
        raise ConfigError(
            f"execution.device_rows: {dataset.name} has {len(dataset):,} rows, more than 2^31 - 1"
        )
    return replace(dataset, reader=RowNumbers(dataset))


def dispatches(start: int, total: int, most: int, every: Sequence[int], ends: Sequence[int]) -> Iterator[int]:
    """Yield the number of steps of each dispatch: as many as possible without passing a step where something is due.

    Args:
        start: Steps already taken.
        total: Total number of steps.
        most: Maximum number of steps in one dispatch.
        every: Intervals in steps (0: never).
        ends: Last step of each training stage.
    """
    step = start
    while step < total:
        next_due = [(step // interval + 1) * interval for interval in every if interval]
        count = min(most, min([total, *next_due, *(end for end in ends if end > step)]) - step)
        yield count
        step += count


class Prefetcher:
    """Prefetcher: a thread that puts the input of the next dispatches on the devices.

    Args:
        loader: This process's batches, from the next step on.
        mesh: Mesh of the devices.
        counts: Number of steps in each dispatch.
        most: Maximum number of steps in one dispatch.
        held: Rows that the devices already hold, or None.
    """

    def __init__(
        self,
        loader: BatchLoader,
        mesh: Mesh,
        counts: Iterator[int],
        most: int,
        held: dict[str, jax.Array] | None,
    ) -> None:
        self._loader, self._mesh, self._most, self._held = loader, mesh, most, held
        self._counts = counts
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="feed")
        self._coming: deque[tuple[int, Future[Given]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def next(self) -> tuple[int, Given]:
        """Return the number of steps in the next dispatch, and its input."""
        if not self._coming:
            self.prepare()
        count, coming = self._coming.popleft()
        return count, coming.result()

    def prepare(self) -> None:
        """Start to prefetch the input of the next dispatches. Best called while the devices are busy."""
        while len(self._coming) < AHEAD and (count := next(self._counts, 0)):
            self._coming.append((count, self._thread.submit(self._make, count)))

    def _make(self, count: int) -> Given:
        if self._most == 1:
            return Given(put_batch(next(self._loader), batch_sharding(self._mesh)), None, self._held)
        batches = [next(self._loader) for _ in range(count)]
        together = {name: np.zeros((self._most, *one.shape), one.dtype) for name, one in batches[0].items()}
        for index, batch in enumerate(batches):
            for name, values in batch.items():
                together[name][index] = values
        everywhere = replicated(self._mesh)
        (number,) = put_batch({"steps": np.asarray(count, np.int32)}, everywhere).values()
        return Given(put_batch(together, batches_sharding(self._mesh)), number, self._held)


def hold_rows(dataset: Dataset, mesh: Mesh) -> dict[str, jax.Array]:
    """Put all rows of a split on every device."""
    return put_batch(dataset.read(np.arange(len(dataset))), replicated(mesh))
