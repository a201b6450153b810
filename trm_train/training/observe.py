"""Tells everybody who watches how a run goes: metric parts, status.json, log parts, the console and the tracker.

About once a minute, sooner in the first, and before every checkpoint, what has come since is written to the run's
folder:

    metrics/000000101-000000160.parquet    rows of the table `train_metrics`
    status.json                            state, step, speed, last loss, heartbeat: `Status`
    logs/worker-0-<start>-000003.log       lines that a person reads, in parts, since a bucket cannot append

In between the writing happens beside the steps; before a checkpoint it has ended, because the checkpoint stands on
those rows.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from trm_data.command import Exit
from trm_data.errors import BucketError
from trm_data.interrupt import end_now
from trm_data.storage.store import Folder, Turn
from trm_train.checkpoint.manager import resume_steps
from trm_train.errors import NotFiniteError
from trm_train.mesh.devices import held_bytes
from trm_train.metrics.table import MetricTable, Part, merge_many
from trm_train.runs.heartbeat import Heart
from trm_train.runs.record import LOGS, RunRecord
from trm_train.runs.status import STATUS_FILE, State, Status, read_status, status_bytes
from trm_train.step.compile import CompiledStep
from trm_train.step.train import BY_TASK
from trm_train.training.pace import VAIN_STRETCHES, Pace, SlowAlert
from trm_train.training.reports import Reports, now
from trm_train.training.tracking import Tracker
from trm_train.training.watchdog import Watchdog

VAIN_SKIPS = 20
"""So many steps of float16 that overflow in a row, at the smallest loss scale, end a run."""
LAST_WORDS_S = 5.0
"""A run that stands still waits so long for each of those who are told that it ends."""
LAST_LOSSES = 8
"""So many losses are said where something is no number, the newest among them."""


class Console(Protocol):
    """Shows a person how a run goes."""

    def begin(self, record: RunRecord, folder: Folder, start_step: int, compiled: CompiledStep) -> list[str]:
        """The run starts, at `start_step`; returns the lines for the log."""
        ...

    def note(self, text: str) -> list[str]:
        """Something happens that a person should know; returns the lines for the log."""
        ...

    def step(self, step: int) -> None:
        """A step is done."""
        ...

    def window(self, step: int, rows_loaded: int, steps: int, metrics: dict[str, float]) -> list[str]:
        """So many steps since the last window are done; means over the examples that ended in them."""
        ...

    def validated(self, step: int, metrics: dict[str, float]) -> list[str]:
        """An evaluation on the validation split has ended."""
        ...


class Observer:
    """Notes every step of one start of a run.

    Args:
        folder: The run's folder.
        record: What it is.
        start: Step it goes on from.
        rates: Learning rate of the network at every step, from step 1.
        compiled: The training step.
        console: Shows progress.
        tracker: Mirrors metrics.
        turn: The right to write the folder.
        pace: The clock of its steps.
        heart: Says that this process lives, where there are others.

    Attributes:
        pace: The same.
        watchdog: Says when it stands still, and ends it.
        scores: Exact accuracy of the validations of all starts, by step; None of no labelled rows.
    """

    def __init__(
        self,
        folder: Folder,
        record: RunRecord,
        start: int,
        rates: Any,
        compiled: CompiledStep,
        console: Console,
        tracker: Tracker,
        turn: Turn,
        pace: Pace,
        heart: Heart | None = None,
    ) -> None:
        self._heart = heart
        self._folder, self._turn = folder, turn
        self._table = MetricTable(folder, start)
        self._merge_metrics()
        self._console, self._tracker = console, tracker
        self._record, self._config = record, record.config
        self._total, self._step, self._rates = record.total_steps, start, rates
        self._compile_s = compiled.seconds
        self._started_at = now()
        self._begun = self._flushed = time.perf_counter()
        self._flushed_step = start
        self._loss: float | None = None
        self.scores = self._table.scores
        self._skipped: int | None = None
        self._skipped_in_vain = 0
        self._speed = 0.0
        self._window: dict[str, float] = {}
        self._window_steps = 0
        self._losses: deque[float] = deque(maxlen=LAST_LOSSES)
        self._memory = held_bytes()
        self.pace = pace
        execution = record.config.execution
        self._slow = SlowAlert(execution.min_examples_per_s)
        self._too_slow = False
        self.watchdog = Watchdog(execution.stall_s, self._stands_still, self._ends_still)
        self._log: list[str] = []
        self._parts = 0
        self._reports = Reports()
        self._begin = lambda: console.begin(record, folder, start, compiled)

    def begin(self) -> None:
        """The first step is about to be taken."""
        self._begun = self._flushed = time.perf_counter()
        self._note(self._begin())
        self.flush("running")
        self.pace.begin()

    @property
    def seconds(self) -> float:
        """Training time over all starts."""
        return self._table.seconds + time.perf_counter() - self._begun

    def step(self, step: int, metrics: dict[str, Any]) -> None:
        """Note the metrics of a step: numpy scalars, sums over the batch; of a mixture those of each dataset too.

        Raises:
            NotFiniteError: The loss, or the change of the parameters, is no number any more.
        """
        by_task = metrics.get(BY_TASK, {})
        values = {name: value.item() for name, value in metrics.items() if name != BY_TASK}
        slots = self._config.data.global_batch_size
        # A slot takes a row when it has halted: at the first step all do, later those that halted the step before.
        if step == 1:
            self._table.rows_loaded += slots
        rows_loaded = self._table.rows_loaded
        row = {"step": step, "split": "train", "rows_loaded": rows_loaded, "global_batch_size": slots}
        row |= {"lr": float(self._rates[step - 1]), "seconds": self.seconds}
        paced = self.pace.step(step)
        self.watchdog.beat(self.pace.dispatch_s)
        if self._heart is not None:
            self._heart.step(step, paced)
        self._memory = held_bytes()
        self._table.add(row | values | paced | {"device_memory_bytes": self._memory})
        self._add_by_task(row, by_task)
        self._table.rows_loaded += int(values["halted_slots"])
        loss = values["lm_loss"] / slots
        self._step, self._loss = step, loss
        self._losses.append(loss)
        if not math.isfinite(values["lm_loss"]):
            self._not_finite(f"the loss is {values['lm_loss']}")
        if not math.isfinite(values["update_norm"]):  # before a checkpoint has these parameters
            self._not_finite(f"the change of the parameters is {values['update_norm']}")
        self._watch_scale(step, values.get("loss_scale"), values.get("skipped", 0))
        for name, value in values.items():
            self._window[name] = self._window.get(name, 0.0) + value
        self._window_steps += 1
        if step % self._config.execution.log_every == 0 or step == self._total:
            self._report_window(step, rows_loaded)
        else:
            self._console.step(step)
        if (lost := self._reports.hear()) is not None:
            self.say(f"step {step:>6,}  {lost}; the run keeps its state on this machine and ends")
        if self._reports.due(time.perf_counter() - self._flushed):
            self._reports.begin(self._prepared("running"))
        if text := self._slow.step(slots, paced["step_s"]):
            self._alert("slow", f"step {step:>6,}  {text}")

    @property
    def lost(self) -> BucketError | None:
        """Why the bucket is taken to be away; None while it is not."""
        return self._reports.lost

    @property
    def too_slow(self) -> bool:
        """Whether it is slower than the user asks for, and has long been; that is said once."""
        if self._slow.in_vain and not self._too_slow:
            self._too_slow = True
            wanted = self._config.execution.min_examples_per_s
            self._alert(
                "too slow",
                f"step {self._step:>6,}  slower than --execution.min-examples-per-s {wanted:g} "
                f"for {VAIN_STRETCHES} minutes ({self._slow.speed:,.1f}): saves a checkpoint and ends",
            )
        return self._too_slow

    def _report_window(self, step: int, rows_loaded: int) -> None:
        """Tell console and tracker how the steps since the last window went."""
        steps, slots = self._window_steps, self._config.data.global_batch_size
        shown = means(self._window, steps * slots)
        self._note(self._console.window(step, rows_loaded, steps, shown))
        rates = self.pace.window(slots)
        rates |= {name: self._window[name] / steps for name in ("grad_norm", "update_norm")}
        if self._memory is not None:
            rates["device_memory_bytes"] = float(self._memory)
        self._tracker.log(step, {f"train/{name}": value for name, value in {**shown, **rates}.items()})
        self._window, self._window_steps = {}, 0

    def _not_finite(self, what: str) -> None:
        """End a run of which something is no number any more."""
        first, losses = self._step - len(self._losses) + 1, ", ".join(f"{loss:.4g}" for loss in self._losses)
        text = f"step {self._step:,}: {what} (loss of steps {first:,} to {self._step:,}: {losses})"
        self._tracker.alert("no number", text)
        raise NotFiniteError(text)

    def _stands_still(self, seconds: float) -> None:
        """Say that a run stands still; the watchdog's thread does."""
        self._alert(
            "stands still",
            f"step {self._step:>6,}  no step for {seconds:,.0f} s: a device, the network or the disk stands still; "
            f"the run ends after {seconds:,.0f} s more",
        )

    def _ends_still(self, seconds: float) -> None:
        """End a run that stands still; the watchdog's thread does.

        Whoever can be told in a few seconds is; whatever hangs as well is left.
        """
        text = (
            f"{self._record.run}: stood still for {seconds:,.0f} s after step {self._step:,}, ended; the same "
            "command goes on from the last checkpoint; --execution.stall-s 0 waits for ever"
        )
        last_words = (
            lambda: print(f"trm-train: {text}", file=sys.stderr, flush=True),  # noqa: T201  # also where it is quiet
            lambda: self._folder.write(
                f"{LOGS}/worker-0-{self._log_name()}-stalled.log", self._last_log(text)
            ),
            lambda: self._tracker.alert("ended", text),
        )
        told = [threading.Thread(target=words, daemon=True) for words in last_words]
        for thread in told:
            thread.start()
        for thread in told:
            thread.join(LAST_WORDS_S)
        end_now(Exit.STALLED)

    def _last_log(self, text: str) -> bytes:
        """The lines that were not written yet, and one more."""
        return "".join([*self._log, f"{now()} {text}\n"]).encode()

    def _log_name(self) -> str:
        return self._started_at.replace(":", "")

    def _alert(self, title: str, text: str) -> None:
        """Say something in the log, on the console and to the tracker."""
        self._note(self._console.note(text))
        self._tracker.alert(title, text)

    def _watch_scale(self, step: int, scale: float | None, skipped: int) -> None:
        """Say that a step of float16 was skipped."""
        if scale is None:
            return
        if self._skipped is not None and skipped > self._skipped:
            text = f"step {step:>6,}  overflow: skipped, loss scale {scale:g} ({skipped:,} so far)"
            self._note(self._console.note(text))
            self._skipped_in_vain = self._skipped_in_vain + 1 if scale <= 1.0 else 0
        elif self._skipped is not None:
            self._skipped_in_vain = 0
        self._skipped = skipped
        if self._skipped_in_vain >= VAIN_SKIPS:
            self._not_finite(f"float16 overflows at any loss scale, for {VAIN_SKIPS} steps")

    def _add_by_task(self, row: dict[str, Any], by_task: dict[str, Any]) -> None:
        """Add the rows of a step for each dataset of a mixture."""
        shared = {name: row[name] for name in ("step", "split", "lr", "seconds")}
        for task, name in enumerate(self._config.data.names if by_task else ()):
            sums = {metric: values[task].item() for metric, values in by_task.items()}
            slots = sums.pop("slots")
            self._table.add(shared | {"dataset": name, "global_batch_size": slots} | sums)

    def validated(
        self, step: int, sums: dict[str, float], by_dataset: Mapping[str, dict[str, float]] | None = None
    ) -> None:
        """Note what the validation split gave: sums over its rows; of a mixture those of each dataset too."""
        count = int(sums["count"])
        shared = {"step": step, "split": "validation", "rows_loaded": self._table.rows_loaded}
        shared["seconds"] = self.seconds
        for dataset, found in {None: sums, **(by_dataset or {})}.items():
            row = {**shared, "dataset": dataset, "global_batch_size": int(found["count"]), **found}
            for name in ("count", "exact_accuracy", "q_halt_accuracy", "steps", "steps_squared"):
                row[name] = int(found[name])
            self._table.add(row)
        shown = means(sums, count)
        self.scores[step] = shown["exact_accuracy"] if count else None
        self._note(self._console.validated(step, shown))
        self._tracker.log(step, {f"validation/{name}": value for name, value in shown.items()})

    def last_words(self, text: str) -> None:
        """Leave word that another process of the run has failed; this one is ended, whatever it waits for."""
        self._tracker.alert("ended", text)
        self._prepared("failed", text)()

    def end(self, state: State) -> None:
        """Write how it ended, unless that is known and nothing has come since."""
        there = read_status(self._folder)
        if (
            self._step > self._flushed_step
            or there is None
            or (there.state, there.step) != (state, self._step)
        ):
            self.flush(state)
        self._merge_metrics()

    def _merge_metrics(self) -> None:
        """Merge many parts of the metric table into one, none beyond a step that the run can go on from."""
        merge_many(self._folder, min(resume_steps(self._folder), default=None), self._turn.check)

    def flush(self, state: State, reason: str = "") -> None:
        """Write what has come since the last time, and return when it is written."""
        self._reports.wait()
        self._prepared(state, reason)()

    def close(self) -> None:
        """End the threads; what was being written is written."""
        self.watchdog.close()
        self._reports.close()

    def say(self, text: str) -> None:
        """Say something on the console and in the log."""
        self._note(self._console.note(text))

    def unwritten(self, step: int) -> Part | None:
        """The rows of steps up to `step` that could not be written, or were not yet."""
        return self._table.unwritten(step)

    def _prepared(self, state: State, reason: str = "") -> Any:
        """What writes everything up to here; later steps do not change what it writes."""
        at, seconds = time.perf_counter(), self.seconds
        slots = (self._step - self._flushed_step) * self._config.data.global_batch_size
        if slots:
            self._speed = slots / max(at - self._flushed, 1e-9)
        status = Status(
            state=state,
            step=self._step,
            total_steps=self._total,
            examples_per_s=round(self._speed, 3),
            loss=self._loss if self._loss is not None and math.isfinite(self._loss) else None,
            heartbeat=now(),
            seconds=round(seconds, 3),
            compile_s=round(self._compile_s, 3),
            host=socket.gethostname(),
            process=os.getpid(),
            started_at=self._started_at,
            reason=reason,
            exact_accuracy=max((score for score in self.scores.values() if score is not None), default=None),
            workers=1 if self._heart is None else self._heart.workers,
        )
        self._flushed, self._flushed_step = at, self._step
        part = self._table.take_part(self._step)
        if reason:
            self._note([reason])
        lines, self._log = self._log, []
        beat = None if self._heart is None else self._heart.prepared()

        def write() -> None:
            self._turn.check()
            if beat is not None:
                beat()
            if part is not None:
                self._table.write_part(part)
            if lines:
                name = f"{LOGS}/worker-0-{self._log_name()}-{self._parts:06d}.log"
                self._folder.write(name, "".join(lines).encode())
                self._parts += 1
            self._folder.write(STATUS_FILE, status_bytes(status))

        return write

    def _note(self, lines: list[str]) -> None:
        self._log.extend(f"{now()} {line}\n" for line in lines)  # the watchdog's thread notes too


def means(sums: dict[str, float], loss_rows: int) -> dict[str, float]:
    """Divide metric sums: accuracies and steps by `count`, losses by the rows they are over."""
    count = sums["count"]
    shown = {"count": float(count)}
    for name in ("accuracy", "exact_accuracy", "q_halt_accuracy", "steps"):
        shown[name] = sums[name] / count if count else float("nan")
    spread = sums["steps_squared"] / count - shown["steps"] ** 2 if count else float("nan")
    shown["steps_std"] = math.sqrt(max(spread, 0.0)) if count else spread
    for name in ("lm_loss", "q_halt_loss"):
        shown[name] = sums[name] / max(loss_rows, 1)
    return shown
