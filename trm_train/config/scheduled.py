"""Values that may change over training: a plain number is constant, anything else is spelled `form(value, ...)`.

The spelling is the same on the command line, in `config.json` and in a run's identity.
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
    """A value that is one text: `str` gives the text, a function of `PARSERS` the value."""


@dataclass(frozen=True)
class Linear(Spelled):
    """From `start` at the first step to `end` at the last of `total_steps`, in equal steps."""

    start: float
    end: float

    def __str__(self) -> str:
        return f"linear({self.start!r}, {self.end!r})"


@dataclass(frozen=True)
class Curriculum(Spelled):
    """Recursion that deepens in equal stages over the first `share` of `total_steps`, and stays at the last one.

    Attributes:
        share: Of all steps, above 0 and at most 1.
        cycles: (`h_cycles`, `l_cycles`) of each stage.
    """

    share: float
    cycles: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return f"curriculum({self.share!r}, {', '.join(f'{high}x{low}' for high, low in self.cycles)})"

    def ends(self, total_steps: int) -> list[int]:
        """The last step of each stage but the last."""
        stages = len(self.cycles)
        return [round(total_steps * self.share * stage / stages) for stage in range(1, stages)]


FORMS = {"linear": Linear}

Scheduled = float | Linear


def parse_scheduled(text: str) -> Scheduled:
    """A value from its spelling: `0.1`, `linear(0.3, 0.05)`.

    Raises:
        ConfigError: Another spelling.
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
    """A curriculum from its spelling: `curriculum(0.2, 1x2, 2x4, 3x6)`, or `none`.

    Raises:
        ConfigError: Another spelling.
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
    """What a value may be besides a number, for people."""
    return ", ".join(
        f"{name}({', '.join(field.name for field in dataclasses.fields(form))})"
        for name, form in FORMS.items()
    )


PARSERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    Scheduled: (parse_scheduled, f"FLOAT|{spellings()}"),
    Curriculum | None: (parse_curriculum, "curriculum(SHARE, HxL, HxL, ...)|none"),
}
"""How the texts of fields of these types are read, and what they may be, for help."""
