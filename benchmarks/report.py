"""What every benchmark shares: the machine, repeated timings, a table, JSON.

Input: functions to time. Output: `Report`, printed by rich and written as JSON.
Neighbours: the `bench_*.py` files beside it.

Compilation is never timed: each function runs once before its clock starts.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Measurement:
    """One line of a report. Rates are `items` divided by the seconds of each repeat."""

    name: str
    unit: str
    n: int
    """Items in one repeat."""
    repeats: int
    median: float
    low: float
    high: float
    target: str = ""
    """What it is held against, and whether it holds."""


@dataclass
class Report:
    """Collects measurements under a title."""

    title: str
    packages: Sequence[str] = ("numba", "numpy")
    measurements: list[Measurement] = field(default_factory=list[Measurement])
    notes: list[str] = field(default_factory=list[str])

    def measure(
        self,
        name: str,
        function: Callable[[], object],
        *,
        repeats: int = 5,
        unit: str = "items/s",
        per: int = 1,
        at_least: float | None = None,
    ) -> Measurement:
        """Times `function`, which handles `per` items a call, after one call that is not timed.

        Args:
            name: the line's name.
            function: what to time.
            repeats: timed calls.
            unit: of the rate.
            per: items handled by one call.
            at_least: the target for the median rate, if there is one.

        Returns:
            The measurement, which the report keeps too.
        """
        function()
        rates: list[float] = []
        for _ in range(repeats):
            start = time.perf_counter()
            function()
            rates.append(per / (time.perf_counter() - start))
        return self.add(name, rates, unit=unit, n=per, at_least=at_least)

    def add(
        self, name: str, values: Sequence[float], *, unit: str, n: int, at_least: float | None = None
    ) -> Measurement:
        """Keeps values that were obtained otherwise."""
        values = [float(value) for value in values]
        median = statistics.median(values)
        target = ""
        if at_least is not None:
            target = f"{'reached' if median >= at_least else 'MISSED'}: at least {at_least:,.4g}"
        line = Measurement(name, unit, n, len(values), median, min(values), max(values), target)
        self.measurements.append(line)
        return line

    def note(self, text: str) -> None:
        """Keeps a remark, such as what was skipped and why."""
        self.notes.append(text)

    def print(self) -> None:
        """Prints machine, versions and table; plain lines where the output is no terminal."""
        console = Console()
        if not console.is_terminal:
            console = Console(width=160)
        console.print(
            f"{self.title}\n{describe_machine()}\n{describe_versions(self.packages)}", highlight=False
        )
        table = Table("measurement", "unit", "n", "repeats", "median", "lowest", "highest", "target")
        for line in self.measurements:
            numbers = [
                f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
                for value in (line.median, line.low, line.high)
            ]
            table.add_row(line.name, line.unit, f"{line.n:,}", str(line.repeats), *numbers, line.target)
        console.print(table)
        for note in self.notes:
            console.print(f"note: {note}", highlight=False)

    def write_json(self, path: Path) -> None:
        """Writes everything that `print` shows."""
        content = {
            "title": self.title,
            "machine": describe_machine(),
            "versions": describe_versions(self.packages),
            "measurements": [asdict(line) for line in self.measurements],
            "notes": self.notes,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n")


def describe_machine() -> str:
    """The processor's model, the cores this process may use, and the system."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text().splitlines()
        model = next(
            (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model
        )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores, {platform.system()} {platform.release()}"


def describe_versions(packages: Sequence[str]) -> str:
    """The versions of Python and of some packages."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    return ", ".join([f"Python {platform.python_version()}", *versions])
