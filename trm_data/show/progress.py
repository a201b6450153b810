"""The interface for progress reports of long operations.

Commands and `trm_data.build_dataset` use `terminal_progress`; other callers of the flows get `NoProgress`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Protocol

from typing_extensions import override

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

FIRST_S = 5.0
"""Time until a stage's first progress line without a terminal (s); the next line comes after twice the elapsed time."""


class Progress(Protocol):
    """Receives progress reports of a long command."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Begin a stage; `total` is in `unit`, None if unknown."""
        ...

    def advance(self, count: int) -> None:
        """Report this many more as done; negative if an estimate was too high. May be called from any thread."""
        ...


class NoProgress:
    """Progress that shows nothing."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Do nothing."""

    def advance(self, count: int) -> None:
        """Do nothing."""


class LineProgress:
    """Prints a plain line at the end of each stage, and some during a long one: for output that is not a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._stage = ""
        self._due = 0.0

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """End the previous stage and begin the next."""
        self.finish()
        self._stage, self._unit, self._done, self._begun = stage, unit, 0, time.perf_counter()
        self._total, self._of = total, "" if total is None else f" of {total:,}"
        self._due = self._begun + FIRST_S

    def advance(self, count: int) -> None:
        """Count, and print a line if one is due."""
        self._done += count
        if self._stage and self._done != self._total and (now := time.perf_counter()) >= self._due:
            seconds = now - self._begun
            self._due = now + seconds
            self._print(f"{self._stage}: {self._done:,}{self._of} {self._unit} after {seconds:.0f} s")

    def finish(self) -> None:
        """Print the line of the stage that ends."""
        if self._stage:
            seconds = time.perf_counter() - self._begun
            self._print(f"{self._stage}: {self._done:,} {self._unit} in {seconds:.1f} s")
        self._stage = ""

    def _print(self, line: str) -> None:
        with contextlib.suppress(OSError):  # nobody reads it; the work continues
            print(line, file=self._stream, flush=True)


@contextmanager
def terminal_progress(*, quiet: bool = False) -> Generator[Progress, None, None]:
    """Show a progress bar with rate and time left on a terminal, or plain lines otherwise, on stderr."""
    if quiet:
        yield NoProgress()
        return
    if not sys.stderr.isatty():
        lines = LineProgress(sys.stderr)
        yield lines
        lines.finish()
        return
    with rich_progress() as bars:
        yield bars


class _BarProgress:
    """A `Progress` that draws one bar for each stage."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Add a bar."""
        self._task = self._bars.add_task(stage, total=total, unit=unit)

    def advance(self, count: int) -> None:
        """Advance the newest bar."""
        if self._task is not None:
            self._bars.advance(self._task, count)


@contextmanager
def rich_progress() -> Generator[_BarProgress, None, None]:
    """Show bars on stderr within the context: stage, bar, count, rate, time left."""
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class RateColumn(progress.ProgressColumn):
        @override
        def render(self, task: progress.Task) -> Text:
            rate = task.finished_speed or task.speed
            return Text(f"{rate:,.0f} {task.fields['unit']}/s" if rate else "")

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        RateColumn(),
        progress.TimeRemainingColumn(compact=True),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as bars:
        yield _BarProgress(bars)
