"""Values that may change over training: a number is constant, a schedule has the notation `form(value, ...)`.

The notation is the same on the command line, in `config.json` and in a run's identity.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trm_train.errors import ConfigError

SPELLING = re.compile(r"\s*([a-z_]+)\s*\(([^()]*)\)\s*")
CYCLES = re.compile(r"\s*([1-9][0-9]{0,3})x([1-9][0-9]{0,3})\s*")


@dataclass(frozen=True)
class Spelled:
    """A value with a text notation: `str` returns the text, and a function in `PARSERS` parses it."""


@dataclass(frozen=True)
class Linear(Spelled):
    """Linear change from `start` at the first step to `end` at the last of `total_steps`."""

    start: float
    end: float

    def __str__(self) -> str:
        return f"linear({self.start!r}, {self.end!r})"


@dataclass(frozen=True)
class Curriculum(Spelled):
    """Recursion that deepens in equal stages over the first `share` of `total_steps`, then stays at the last stage.

    Attributes:
        share: Share of all steps, above 0 and at most 1.
        cycles: (`h_cycles`, `l_cycles`) of each stage.
    """

    share: float
    cycles: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return f"curriculum({self.share!r}, {', '.join(f'{high}x{low}' for high, low in self.cycles)})"

    def ends(self, total_steps: int) -> list[int]:
        """Return the last step of each stage except the last stage."""
        stages = len(self.cycles)
        return [round(total_steps * self.share * stage / stages) for stage in range(1, stages)]


FORMS = {"linear": Linear}

Scheduled = float | Linear


def parse_scheduled(text: str) -> Scheduled:
    """Parse a number or schedule: `0.1`, `linear(0.3, 0.05)`.

    Raises:
        ConfigError: The text has another notation.
    """
    try:
        return float(text)
    except ValueError:
        pass
    match = SPELLING.fullmatch(text)
    if match and match[1] in FORMS:
        form = FORMS[match[1]]
        try:
            numbers = [float(number) for number in match[2].split(",")]
        except ValueError:
            numbers = []
        if len(numbers) == len(dataclasses.fields(form)):
            return form(*numbers)
    raise ConfigError(f"a number or {spellings()}, got {text!r}")


def parse_curriculum(text: str) -> Curriculum | None:
    """Parse a curriculum: `curriculum(0.2, 1x2, 2x4, 3x6)`, or `none`.

    Raises:
        ConfigError: The text has another notation.
    """
    if text.strip().lower() == "none":
        return None
    match = SPELLING.fullmatch(text)
    words = match[2].split(",") if match and match[1] == "curriculum" else []
    found = [CYCLES.fullmatch(word) for word in words[1:]]
    cycles = tuple((int(one[1]), int(one[2])) for one in found if one is not None)
    try:
        share = float(words[0]) if words else 0.0
    except ValueError:
        share = 0.0
    if not 0 < share <= 1 or len(cycles) < 2 or len(cycles) != len(found):
        raise ConfigError(
            f"curriculum(SHARE, HxL, HxL, ...) with a share of training above 0 and at most 1, or none, got {text!r}"
        )
    return Curriculum(share, cycles)


def spellings() -> str:
    """Return the allowed schedule notations, for display."""
    return ", ".join(
        f"{name}({', '.join(field.name for field in dataclasses.fields(form))})"
        for name, form in FORMS.items()
    )


PARSERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    Scheduled: (parse_scheduled, f"FLOAT|{spellings()}"),
    Curriculum | None: (parse_curriculum, "curriculum(SHARE, HxL, HxL, ...)|none"),
}
"""Parser and help placeholder of fields, by field type."""
