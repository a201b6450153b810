"""Observer of every process of a run: log, speed, and the check for NaN.

Reports are written in the background: soon after the first step, then about once a minute, and before every
checkpoint, which depends on them. If the bucket refuses a report, the next report includes its content.

    logs/worker-1-<start>-000000.log       log lines in parts, because a bucket cannot append

Process 0 also writes metrics and status: `training/recorder.py`. All processes see the same metrics, because metrics
are sums over all devices.
"""

from __future__ import annotations

import faulthandler
import math
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from trm_data.errors import BucketError
from trm_data.storage.store import Folder
from trm_train.errors import NotFiniteError
from trm_train.hosts import Hosts
from trm_train.runs.record import LOGS, RunRecord
from trm_train.runs.status import State, now


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


class Observer:
    """Records every step of one start of a run. Process 0 uses the subclass `Recorder`.

    Args:
        folder: The run's folder.
        record: The run's record.
        start: Step that the run starts from.
        pace: Timer of the steps.
        hosts: All processes.

    Attributes:
        pace: Timer of the steps.
        stall_timer: Ends a process that makes no progress.
        scores: Exact accuracy by step for the validations of this start; None without labelled rows. In process 0,
            also those of earlier starts.
    """

    def __init__(self, folder: Folder, record: RunRecord, start: int, pace: Pace, hosts: Hosts) -> None:
        self._folder, self._record, self._config, self._hosts = folder, record, record.config, hosts
        self._step = self._start = start
        self._started_at = now()
        self._lines: list[str] = []
        self._log_parts: list[str] = []
        self._parts_written = 0
        self._step_s = self._data_wait_s = 0.0
        self._reporter = ThreadPoolExecutor(1, thread_name_prefix="reports")
        self._report: Future[None] | None = None
        self._reported = time.perf_counter()
        self._interval_s = min(FIRST_S, EVERY_S)
        self._unreachable = False
        self.pace = pace
        self.scores: dict[int, float | None] = {}
        self.stall_timer = StallTimer(record.config.execution.stall_s)

    @property
    def seconds(self) -> float:
        """Training time over all starts (s); only process 0 measures it."""
        return 0.0

    def begin(self) -> None:
        """Report the start; called just before the first step."""
        self._note_begin()
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
        self._note_step(step, metrics, paced)
        self._report_if_due()

    def validated(
        self, step: int, sums: dict[str, float], by_dataset: dict[str, dict[str, float]] | None = None
    ) -> None:
        """Record a validation: sums over its rows; for a mixture, also those of each dataset."""
        count = int(sums["count"])
        self.scores[step] = sums["exact_accuracy"] / count if count else None
        self._note(f"step {step:>6,}  validation: exact {int(sums['exact_accuracy']):,} of {count:,}")

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
        """Report how the run ended."""
        self._note(f"{state} at step {self._step:,}")
        self.flush(state)

    def close(self) -> None:
        """Stop the timer and the thread, after a report in progress is written."""
        self.stall_timer.close()
        self._reporter.shutdown(wait=True)

    def say(self, text: str) -> None:
        """Add a line to the log; process 0 shows it on the console too."""
        self._note(text)

    def _note_begin(self) -> None:
        begins = f"resumes from step {self._step:,}" if self._step else "begins"
        self._note(
            f"{self._record.run} {begins}; {self._hosts.name(self._hosts.index)} of {self._hosts.count}"
        )

    def _note_step(self, step: int, metrics: dict[str, Any], paced: dict[str, Any]) -> None:
        self._step_s += paced["step_s"]
        self._data_wait_s += paced["data_wait_s"]
        loss = float(metrics["lm_loss"]) / self._config.data.global_batch_size
        if not math.isfinite(loss):
            raise NotFiniteError(f"step {step:,}: the loss is {loss}")
        if step % self._config.execution.log_every == 0 or step == self._record.total_steps:
            waited = self._data_wait_s / self._step_s if self._step_s else 0.0
            self._note(f"step {step:>6,}  loss {loss:.4f}  waits {waited:.1%} of the time for batches")
            self._step_s = self._data_wait_s = 0.0

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

    def _prepare(self, state: State, reason: str = "") -> Callable[[], None]:
        """Return a function that writes everything recorded so far; later steps do not change what it writes."""
        if reason:
            self._note(f"{state}: {reason}")
        lines, self._lines = self._lines, []
        if lines:
            self._log_parts.append("".join(lines))
        self._reported = time.perf_counter()

        def write() -> None:
            while self._log_parts:
                self._folder.write(self._log_name(f"{self._parts_written:06d}"), self._log_parts[0].encode())
                self._parts_written += 1
                del self._log_parts[0]

        return write

    def _log_name(self, part: str) -> str:
        return f"{LOGS}/worker-{self._hosts.index}-{self._started_at.replace(':', '')}-{part}.log"
