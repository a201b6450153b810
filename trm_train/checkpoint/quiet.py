"""Keeps what Orbax leaves half done from being printed."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass


def let_work_be_given_up() -> None:
    """Keep quiet about the rest of what Orbax was doing where one part has failed: each would print a traceback.

    The error itself is raised, and said in a line. May be called any number of times: it lasts until somebody
    sets another hook for what cannot be raised.
    """
    if not isinstance(sys.unraisablehook, _NotOfOrbax):
        sys.unraisablehook = _NotOfOrbax(sys.unraisablehook)
    logging.getLogger("asyncio").addFilter(_is_of_something_else)
    logging.getLogger("absl").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class _NotOfOrbax:
    """What hears of an exception that cannot be raised, unless it is of work that Orbax has given up."""

    otherwise: Callable[[sys.UnraisableHookArgs], object]

    def __call__(self, unraisable: sys.UnraisableHookArgs, /) -> None:
        of_orbax = getattr(getattr(unraisable.object, "cr_code", None), "co_filename", "")
        if str(unraisable.exc_value) != "Event loop is closed" and "orbax" not in of_orbax:
            self.otherwise(unraisable)


def _is_of_something_else(record: logging.LogRecord) -> bool:
    return "never retrieved" not in record.getMessage()
