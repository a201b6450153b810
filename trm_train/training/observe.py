"""Observer of a run: log, speed, the check for NaN and, in process 0, metrics and status.

Reports are written in the background: soon after the first step, then about once a minute, and before every
checkpoint, which depends on them. If the bucket refuses a report, the next report includes its content.

    logs/worker-1-<start>-000000.log       log lines in parts, because a bucket cannot append
    metrics/000000101-000000160.parquet    rows of the table `train_metrics`, the source of truth
    status.json                            state, step, speed, last loss, heartbeat: `Status`

All processes see the same metrics, because metrics are sums over all devices; process 0 writes the last two.
"""

from __future__ import annotations

import faulthandler
import math
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from trm_data.errors import BucketError
from trm_data.storage.store import Folder, Lease
from trm_train.checkpoint.manager import resume_steps
from trm_train.console import RunConsole
from trm_train.errors import NotFiniteError
from trm_train.hosts import Hosts
from trm_train.mesh import held_bytes
from trm_train.metrics import MetricTable, merge_many
from trm_train.runs.record import LOGS, RunRecord
from trm_train.runs.status import STATUS_FILE, State, Status, now, read_status, status_bytes
from trm_train.step.compile import CompiledStep
from trm_train.step.train import BY_TASK

if TYPE_CHECKING:
    import wandb


class Pace:
    """Timer of a run's steps.

    The host is one dispatch ahead of the device. So the time of a dispatch is the time between two arrivals of metrics,
    divided equally among its steps.

    Args:
        flops_at: Returns the floating-point operations of a step (from 1); None if unknown.
        peak: Peak performance of the devices (FLOP/s); None if unknown.

    Attributes:
        dispatch_s: Duration of the last dispatch (s).
    """

    def __init__(self, flops_at: Callable[[int], float | None], peak: float | None) -> None:
        self._flops_at, self._peak = flops_at, peak
        self._marked = time.perf_counter()
        self._aside = self._waited = 0.0
        self._sums = {"step_s": 0.0, "data_wait_s": 0.0, "model_flops": 0.0}
        self._steps = 0
        self.dispatch_s = 0.0
        self._of_a_step = 0.0, 0.0
        self._noted = 0

    def begin(self) -> None:
        """Start the timer; called just before the first step."""
        self._marked = time.perf_counter()

    @contextmanager
    def waiting(self) -> Generator[None, None, None]:
        """Count the time inside this context as waiting for a batch."""
        begun = time.perf_counter()
        yield
        self._waited += time.perf_counter() - begun

    @contextmanager
    def aside(self) -> Generator[None, None, None]:
        """Exclude the time inside this context from step times: validation, saving a checkpoint."""
        begun = time.perf_counter()
        yield
        self._aside += time.perf_counter() - begun

    def arrived(self, steps: int) -> None:
        """Record that the metrics of one dispatch have arrived, for a number of steps."""
        now = time.perf_counter()
        self.dispatch_s = max(now - self._marked - self._aside, 0.0)
        self._of_a_step = self.dispatch_s / steps, self._waited / steps
        self._noted = steps
        self._marked, self._aside, self._waited = now, 0.0, 0.0

    def step(self, step: int) -> dict[str, Any]:
        """Record a finished step, and return its columns of the metric table."""
        if not self._noted:
            self.arrived(1)
        self._noted -= 1
        taken, waited = self._of_a_step
        columns = {
            "step_s": taken,
            "data_wait_s": waited,
            "model_flops": self._flops_at(step),
            "peak_flops_per_s": self._peak,
        }
        for name in self._sums:
            self._sums[name] += columns[name] or 0.0
        self._steps += 1
        return columns

    def window(self, slots: int) -> dict[str, float]:
        """Return the rates since the last window, for `slots` slots per step; unknown rates are left out."""
        seconds = max(self._sums["step_s"], 1e-9)
        rates = {
            "step_s": seconds / max(self._steps, 1),
            "examples_per_s": self._steps * slots / seconds,
            "data_wait": self._sums["data_wait_s"] / seconds,
        }
        if self._peak and self._sums["model_flops"]:
            rates["mfu"] = self._sums["model_flops"] / seconds / self._peak
        self._sums, self._steps = dict.fromkeys(self._sums, 0.0), 0
        return rates


FIRST_S = 5.0
"""Time to the first report (s); each later interval is twice as long, up to `EVERY_S`."""
EVERY_S = 60.0
"""Longest interval between reports: status, metrics and log (s)."""
LONGEST_STEPS = 20.0
"""A step may take this multiple of the longest step so far, if that is longer than the user's limit."""
STDERR = 2


class StallTimer:
    """Ends the process, with the tracebacks of all threads, if it makes no progress for too long.

    Python cannot interrupt a thread that waits inside a library for a device, a disk or another host, so `faulthandler`
    ends the process with exit code 1. The same command resumes from the last checkpoint.

    Args:
        limit_s: Longest time between two calls of `beat` (s); 0 for no limit.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s, self._longest_s = limit_s, 0.0

    def beat(self, step_s: float = 0.0) -> None:
        """Record progress, which starts the time again.

        Args:
            step_s: Duration of the last step (s).
        """
        self._longest_s = max(self._longest_s, step_s)
        self._start(self._limit_s and max(self._limit_s, LONGEST_STEPS * self._longest_s))

    @contextmanager
    def task(self, limit_s: float) -> Generator[None, None, None]:
        """Context with its own limit (s) in place of the limit between two calls of `beat`."""
        self._start(limit_s)
        try:
            yield
        finally:
            self.beat()

    def close(self) -> None:
        """Stop the timer."""
        faulthandler.cancel_dump_traceback_later()

    def _start(self, limit_s: float) -> None:
        if limit_s:
            faulthandler.dump_traceback_later(limit_s, exit=True, file=STDERR)
        else:
            self.close()


VAIN_SKIPS = 20
"""Consecutive float16 steps that overflow at the smallest loss scale before the run ends."""
FIRST_LINE_S = 10.0
"""Time after which the first finished step is shown, even if `execution.log_every` steps are not done (s)."""
LAST_LOSSES = 8
"""Number of last losses shown after a non-finite value, which they include."""


class Observer:
    """Records every step of one start of a run.

    Args:
        folder: The run's folder.
        record: The run's record.
        start: Step that the run starts from.
        pace: Timer of the steps.
        hosts: All processes.
        rates: Learning rate of the network at every step, from step 1.
        compiled: The training step.
        console: Console that shows progress.
        tracker: The wandb run, or None.
        lease: Lease of the folder in process 0, which writes metrics and status; None in the others.

    Attributes:
        pace: Timer of the steps.
        stall_timer: Ends a process that makes no progress.
        scores: Exact accuracy by step for all validations; None without labelled rows.
        rows_loaded: Number of rows that the slots have loaded, those of the next step included.
    """

    def __init__(
        self,
        folder: Folder,
        record: RunRecord,
        start: int,
        pace: Pace,
        hosts: Hosts,
        rates: Any,
        compiled: CompiledStep,
        console: RunConsole,
        tracker: wandb.Run | None,
        lease: Lease | None,
    ) -> None:
        self._folder, self._record, self._config, self._hosts = folder, record, record.config, hosts
        self._rates, self._compiled = rates, compiled
        self._console, self._tracker, self._lease = console, tracker, lease
        self._step = self._start = self._status_step = start
        self._started_at = now()
        self._lines: list[str] = []
        self._log_parts: list[str] = []
        self._parts_written = 0
        self._reporter = ThreadPoolExecutor(1, thread_name_prefix="reports")
        self._report: Future[None] | None = None
        self._reported = self._begun = time.perf_counter()
        self._interval_s = min(FIRST_S, EVERY_S)
        self._unreachable = False
        self._table = None if lease is None else MetricTable(folder, start)
        self._seconds_before = 0.0 if self._table is None else self._table.seconds
        self.scores = {} if self._table is None else self._table.scores
        self.rows_loaded = 0 if self._table is None else self._table.rows_loaded
        before = read_status(folder)
        self._optimal_share = None if before is None else before.optimal_share
        self._merge_metrics()
        self._loss: float | None = None
        self._losses: deque[float] = deque(maxlen=LAST_LOSSES)
        self._skipped: int | None = None
        self._skipped_in_vain = 0
        self._speed = 0.0
        self._window: dict[str, float] = {}
        self._window_steps = 0
        self._shown = False
        self._memory = held_bytes()
        self.pace = pace
        self.stall_timer = StallTimer(record.config.execution.stall_s)

    @property
    def seconds(self) -> float:
        """Training time over all starts (s)."""
        return self._seconds_before + time.perf_counter() - self._begun

    def begin(self) -> None:
        """Report the start; called just before the first step."""
        self._begun = self._reported = time.perf_counter()
        self._note(*self._console.begin(self._record, self._folder, self._start, self._compiled))
        if self._hosts.count > 1:
            self._note(f"{self._hosts.name(self._hosts.index)} of {self._hosts.count}")
        self.flush("running")
        self.pace.begin()

    def step(self, step: int, metrics: dict[str, Any]) -> None:
        """Record the metrics of a step.

        Args:
            step: Step number, from 1.
            metrics: Numpy scalars, sums over the batch; for a mixture, also those of each dataset.
        """
        self._step = step
        paced = self.pace.step(step)
        self.stall_timer.beat(self.pace.dispatch_s)
        by_task = metrics.get(BY_TASK, {})
        values = {name: value.item() for name, value in metrics.items() if name != BY_TASK}
        slots = self._config.data.global_batch_size
        # A slot loads a row after it halts: all slots at the first step, then those that halted at the step before.
        if step == 1:
            self.rows_loaded += slots
        rows_loaded = self.rows_loaded
        self._memory = held_bytes()
        if self._table is not None:
            row = {"step": step, "split": "train", "rows_loaded": rows_loaded, "global_batch_size": slots}
            row |= {"lr": float(self._rates[step - 1]), "seconds": self.seconds}
            self._table.add(row | values | paced | {"device_memory_bytes": self._memory})
            self._add_by_task(self._table, row, by_task)
        self.rows_loaded += int(values["halted_slots"])
        self._check_finite(step, values, values["lm_loss"] / slots)
        for name, value in values.items():
            self._window[name] = self._window.get(name, 0.0) + value
        self._window_steps += 1
        slow = not self._shown and time.perf_counter() - self._begun > FIRST_LINE_S
        if step % self._config.execution.log_every == 0 or step == self._record.total_steps or slow:
            self._report_window(step, rows_loaded)
        else:
            self._console.step(step)
        self._report_if_due()

    def validated(
        self, step: int, sums: dict[str, float], by_dataset: dict[str, dict[str, float]] | None = None
    ) -> None:
        """Record a validation: sums over its rows; for a mixture, also those of each dataset."""
        count = int(sums["count"])
        shared = {"step": step, "split": "validation", "rows_loaded": self.rows_loaded}
        shared["seconds"] = self.seconds
        for dataset, found in {None: sums, **(by_dataset or {})}.items():
            row = {**shared, "dataset": dataset, "global_batch_size": int(found["count"]), **found}
            for name in ("count", "exact_accuracy", "q_halt_accuracy", "steps", "steps_squared"):
                row[name] = int(found[name])
            if "optimal" in found:
                row["optimal"] = int(found["optimal"])
            if self._table is not None:
                self._table.add(row)
        shown = means(sums, count)
        self.scores[step] = shown["exact_accuracy"] if count else None
        if "optimal_share" in shown and count:
            self._optimal_share = max(self._optimal_share or 0.0, shown["optimal_share"])
        self._note(*self._console.validated(step, shown))
        self._track(step, "validation", shown)

    def flush(self, state: State, reason: str = "") -> None:
        """Write everything since the last report; return when it is written."""
        if self._report is not None:
            try:
                self._report.result()
            except BucketError:
                pass  # the flush below includes what that report could not write
            finally:
                self._report = None
        self._prepare(state, reason)()

    def end(self, state: State) -> None:
        """Report how the run ended, unless `status.json` already says so."""
        there = read_status(self._folder)
        news = there is None or (there.state, there.step) != (state, self._step)
        if self._table is None or self._step > self._status_step or news:
            self.flush(state)
        self._merge_metrics()

    def close(self) -> None:
        """Stop the timer and the thread, after a report in progress is written."""
        self.stall_timer.close()
        self._reporter.shutdown(wait=True)

    def say(self, text: str) -> None:
        """Show a line on the console and write it to the log."""
        self._note(*self._console.note(text))

    def _note(self, *lines: str) -> None:
        self._lines.extend(f"{now()} {line}\n" for line in lines)

    def _report_if_due(self) -> None:
        """Check the result of the last report, and start the next one in the background when it is due."""
        if self._report is not None and self._report.done():
            report, self._report = self._report, None
            try:
                report.result()
                self._unreachable = False
            except BucketError as error:
                if not self._unreachable:
                    self.say(
                        f"step {self._step:>6,}  {error}; training continues, and the next report has it all"
                    )
                self._unreachable = True
        if self._report is None and time.perf_counter() - self._reported >= self._interval_s:
            self._interval_s = min(2 * self._interval_s, EVERY_S)
            self._report = self._reporter.submit(self._prepare("running"))

    def _add_by_task(self, table: MetricTable, row: dict[str, Any], by_task: dict[str, Any]) -> None:
        """Add one row for each dataset of a mixture."""
        shared = {name: row[name] for name in ("step", "split", "lr", "seconds")}
        for task, name in enumerate(self._config.data.names if by_task else ()):
            sums = {metric: values[task].item() for metric, values in by_task.items()}
            slots = sums.pop("slots")
            table.add(shared | {"dataset": name, "global_batch_size": slots} | sums)

    def _check_finite(self, step: int, values: dict[str, float], loss: float) -> None:
        """Raise NotFiniteError if the loss or the update is not finite."""
        self._loss = loss
        self._losses.append(loss)
        if not math.isfinite(values["lm_loss"]):
            self._not_finite(f"the loss is {values['lm_loss']}")
        if not math.isfinite(values["update_norm"]):  # before a checkpoint contains these parameters
            self._not_finite(f"the change of the parameters is {values['update_norm']}")
        self._watch_scale(step, values.get("loss_scale"), int(values.get("skipped", 0)))

    def _watch_scale(self, step: int, scale: float | None, skipped: int) -> None:
        """Report a skipped float16 step; raise NotFiniteError after too many skips at the smallest loss scale."""
        if scale is None:
            return
        if self._skipped is not None and skipped > self._skipped:
            self.say(f"step {step:>6,}  overflow: skipped, loss scale {scale:g} ({skipped:,} so far)")
            self._skipped_in_vain = self._skipped_in_vain + 1 if scale <= 1.0 else 0
        elif self._skipped is not None:
            self._skipped_in_vain = 0
        self._skipped = skipped
        if self._skipped_in_vain >= VAIN_SKIPS:
            self._not_finite(f"float16 overflows at any loss scale, for {VAIN_SKIPS} steps")

    def _not_finite(self, what: str) -> None:
        first, losses = self._step - len(self._losses) + 1, ", ".join(f"{loss:.4g}" for loss in self._losses)
        text = f"step {self._step:,}: {what} (loss of steps {first:,} to {self._step:,}: {losses})"
        if self._tracker is not None:
            self._tracker.alert(title="no number", text=text)
        raise NotFiniteError(text)

    def _report_window(self, step: int, rows_loaded: int) -> None:
        """Send the means of the steps since the last window to the console and the tracker."""
        steps, slots = self._window_steps, self._config.data.global_batch_size
        shown = means(self._window, steps * slots)
        self._note(*self._console.window(step, rows_loaded, steps, shown))
        rates = self.pace.window(slots)
        rates |= {name: self._window[name] / steps for name in ("grad_norm", "update_norm")}
        if self._memory is not None:
            rates["device_memory_bytes"] = float(self._memory)
        self._track(step, "train", shown | rates)
        if self._hosts.count > 1:
            self._note(f"step {step:>6,}  waits {rates['data_wait']:.1%} of the time for batches")
        self._window, self._window_steps, self._shown = {}, 0, True

    def _track(self, step: int, what: str, metrics: dict[str, float]) -> None:
        if self._tracker is not None:
            self._tracker.log({f"{what}/{name}": value for name, value in metrics.items()}, step=step)

    def _merge_metrics(self) -> None:
        """Merge the parts of the metric table, up to the oldest step that the run can resume from."""
        if self._lease is not None:
            merge_many(self._folder, min(resume_steps(self._folder), default=None), self._lease.check)

    def _prepare(self, state: State, reason: str = "") -> Callable[[], None]:
        """Return a function that writes everything recorded so far; later steps do not change what it writes."""
        if reason:
            self._note(f"{state}: {reason}")
        lines, self._lines = self._lines, []
        if lines:
            self._log_parts.append("".join(lines))
        slots = (self._step - self._status_step) * self._config.data.global_batch_size
        if slots:
            self._speed = slots / max(time.perf_counter() - self._reported, 1e-9)
        self._status_step = self._step
        self._reported = time.perf_counter()
        status = status_bytes(self._status(state, reason))
        table, lease = self._table, self._lease
        if table is not None:
            table.take_part(self._step)

        def write() -> None:
            if lease is not None and table is not None:
                lease.check()
                table.write_parts()
            while self._log_parts:
                log = f"worker-{self._hosts.index}-{self._started_at.replace(':', '')}-{self._parts_written:06d}.log"
                self._folder.write(f"{LOGS}/{log}", self._log_parts[0].encode())
                self._parts_written += 1
                del self._log_parts[0]
            if lease is not None:
                self._folder.write(STATUS_FILE, status)

        return write

    def _status(self, state: State, reason: str) -> Status:
        return Status(
            state=state,
            step=self._step,
            total_steps=self._record.total_steps,
            examples_per_s=round(self._speed, 3),
            loss=self._loss if self._loss is not None and math.isfinite(self._loss) else None,
            heartbeat=now(),
            seconds=round(self.seconds, 3),
            compile_s=round(self._compiled.seconds, 3),
            host=socket.gethostname(),
            process=os.getpid(),
            started_at=self._started_at,
            reason=reason,
            exact_accuracy=max((score for score in self.scores.values() if score is not None), default=None),
            optimal_share=self._optimal_share,
            workers=self._hosts.count,
        )


def means(sums: dict[str, float], loss_rows: int) -> dict[str, float]:
    """Divide metric sums: accuracies and steps by `count`, losses by `loss_rows`."""
    count = sums["count"]
    shown = {"count": float(count)}
    for name in ("accuracy", "exact_accuracy", "q_halt_accuracy", "steps"):
        shown[name] = sums[name] / count if count else float("nan")
    if "optimal" in sums:
        shown["optimal_share"] = sums["optimal"] / count if count else float("nan")
    spread = sums["steps_squared"] / count - shown["steps"] ** 2 if count else float("nan")
    shown["steps_std"] = math.sqrt(max(spread, 0.0)) if count else spread
    for name in ("lm_loss", "q_halt_loss"):
        shown[name] = sums[name] / max(loss_rows, 1)
    return shown
