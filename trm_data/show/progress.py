"""How long work says how far it is, without knowing what shows it.

`trm_data.cli` passes a progress bar; library callers get `NoProgress`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Protocol


class Progress(Protocol):
    """A listener to the stages of a long command."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """A stage begins; `total` counts of `unit`, None if it is not known."""
        ...

    def advance(self, count: int) -> None:
        """So many more are done; fewer than none where an estimate was too high. Called from any thread."""
        ...


class NoProgress:
    """A listener that shows nothing."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Show nothing of it."""

    def advance(self, count: int) -> None:
        """Show nothing of it."""


class LineProgress:
    """One plain line a stage, when it ends: for output that is not a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._stage = ""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """End the stage before and begin the next."""
        self.finish()
        self._stage, self._unit, self._done, self._begun = stage, unit, 0, time.perf_counter()

    def advance(self, count: int) -> None:
        """Count."""
        self._done += count

    def finish(self) -> None:
        """Print the stage that ends."""
        if self._stage:
            seconds = time.perf_counter() - self._begun
            with contextlib.suppress(OSError):  # nobody reads it: the work goes on
                print(f"{self._stage}: {self._done:,} {self._unit} in {seconds:.1f} s", file=self._stream)
        self._stage = ""


@contextmanager
def terminal_progress(*, quiet: bool = False) -> Generator[Progress, None, None]:
    """A progress bar with rate and time left on a terminal, plain lines elsewhere, on standard error."""
    if quiet:
        yield NoProgress()
        return
    if not sys.stderr.isatty():
        lines = LineProgress(sys.stderr)
        yield lines
        lines.finish()
        return
    from trm_data.show.progress_bar import rich_progress

    with rich_progress() as bars:
        yield bars
