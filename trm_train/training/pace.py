"""Speed of a run: step times, waiting for batches, and detection of slowdowns."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from statistics import median
from typing import Any

STRETCH_S = 60.0
"""Minimum duration of training over which a speed is measured (s)."""
SLOW_SHARE = 0.5
"""A warning is given if the speed is below this share of the earlier median."""
KNOWN_STRETCHES = 5
"""Number of measured intervals before slowness is detected."""
VAIN_STRETCHES = 3
"""Number of consecutive intervals below the user's minimum speed that end a run."""


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


class SlowAlert:
    """Detects that a run has become slow; reports it once until the run is fast again.

    Args:
        wanted: Minimum speed that the user asks for (examples/s); 0 for no minimum.

    Attributes:
        speed: Speed over the last interval (examples/s).
    """

    def __init__(self, wanted: float = 0.0) -> None:
        self._wanted = wanted
        self.speed = 0.0
        self._speeds: list[float] = []
        self._said = False
        self._below = 0
        self._examples, self._seconds = 0, 0.0

    def step(self, examples: int, seconds: float) -> str | None:
        """Record a step with a number of examples; return a warning for the user, or None."""
        self._examples += examples
        self._seconds += seconds
        if self._seconds < STRETCH_S:
            return None
        self.speed = self._examples / self._seconds
        self._examples, self._seconds = 0, 0.0
        return self._stretch(self.speed)

    def _stretch(self, speed: float) -> str | None:
        before = median(self._speeds) if len(self._speeds) >= KNOWN_STRETCHES else None
        slow = before is not None and speed < SLOW_SHARE * before
        self._below = self._below + 1 if speed < self._wanted else 0
        if not slow:
            self._speeds = [*self._speeds[-99:], speed]
        said, self._said = self._said, slow
        if slow and not said:
            return (
                f"slow: {speed:,.1f} examples/s, less than half of the {before:,.1f} before; "
                "see what else runs on this machine, or whether data come slowly"
            )
        return None

    @property
    def in_vain(self) -> bool:
        """Whether the speed was below the user's minimum for several intervals in a row."""
        return self._below >= VAIN_STRETCHES
