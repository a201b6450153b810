"""Speed of a run: step times and waiting for batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


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
