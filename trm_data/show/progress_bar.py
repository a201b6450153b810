"""The progress bar of the terminal: stage, bar, count, rate, time left."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text
from typing_extensions import override


class _RateColumn(ProgressColumn):
    """Rate in units per second."""

    @override
    def render(self, task: Task) -> Text:
        rate = task.finished_speed or task.speed
        return Text(f"{rate:,.0f} {task.fields['unit']}/s" if rate else "")


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
    """Show bars on stderr within the context."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _RateColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        yield _BarProgress(bars)
