"""Console output of a run: a progress bar on a terminal, otherwise lines."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from trm_data.commands.common import duration
from trm_data.storage.store import Folder
from trm_train.config.run import RunConfig
from trm_train.runs.record import RunRecord

if TYPE_CHECKING:
    from trm_train.step.compile import CompiledStep


class RunConsole:
    """Prints lines and, on a terminal, a progress bar with speed and remaining time.

    Args:
        config: The run's configuration.
        quiet: Show nothing.
    """

    def __init__(self, config: RunConfig, *, quiet: bool = False) -> None:
        self._config = config
        self._quiet = quiet
        self._bar: Any = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps  {task.fields[rate]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, record: RunRecord, folder: Folder, start_step: int, compiled: CompiledStep) -> list[str]:
        """Show the run, its folder and its first step."""
        begins = f"resumes from step {start_step:,}" if start_step else "begins"
        pieces = f" in {compiled.micro_batches} microbatches" if compiled.micro_batches > 1 else ""
        self._total = record.total_steps
        lines = self._lines(
            f"{record.run} {begins}; {folder}",
            f"{compiled.num_parameters:,} parameters, {self._total:,} steps of "
            f"{self._config.data.global_batch_size} slots{pieces}, compiled in {compiled.seconds:.1f} s",
        )
        self._marked = time.perf_counter()
        if self._bar is not None:
            self._task = self._bar.add_task("train", total=self._total, completed=start_step, rate="")
            self._bar.start()
        return lines

    def note(self, text: str) -> list[str]:
        """Show one line."""
        return self._lines(text)

    def step(self, step: int) -> None:
        """Update the progress bar."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step)

    def window(self, step: int, rows_loaded: int, steps: int, metrics: dict[str, float]) -> list[str]:
        """Show one line for the steps since the last window."""
        self.step(step)
        now = time.perf_counter()
        rate = steps / max(now - self._marked, 1e-9)
        self._marked = now
        left = (self._total - step) / rate
        speed = f"{rate:.1f} steps/s, {rate * self._config.data.global_batch_size:,.0f} examples/s"
        if self._bar is not None:
            self._bar.update(self._task, rate=speed)
        return self._lines(
            f"step {step:>6,}  loss {metrics['lm_loss']:.4f}  cells {_percent(metrics['accuracy'])}  "
            f"exact {_percent(metrics['exact_accuracy'])}  {rows_loaded:,} rows  {speed}, {duration(left)} left"
        )

    def validated(self, step: int, metrics: dict[str, float]) -> list[str]:
        """Show the metrics of a validation."""
        share = metrics.get("optimal_share")
        optimal = "" if share is None else f"as good as the label {_percent(share)}, "
        return self._lines(
            f"step {step:>6,}  validation: exact {_percent(metrics['exact_accuracy'])} of {metrics['count']:,.0f}, "
            f"{optimal}cells {_percent(metrics['accuracy'])} (EMA weights)"
        )

    def _lines(self, *lines: str) -> list[str]:
        """Show lines unless quiet, and return them for the log."""
        for text in () if self._quiet else lines:
            if self._bar is not None:
                self._bar.console.print(text, markup=False, highlight=False)
            else:
                print(text, file=sys.stderr, flush=True)
        return list(lines)


def _percent(share: float) -> str:
    return "   -  " if share != share else f"{100 * share:5.1f}%"
