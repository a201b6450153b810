"""Values that may change over training: a plain number is constant, anything else is spelled `form(number, ...)`.

The spelling is the same on the command line, in `config.json` and in a run's identity.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from trm_train.errors import ConfigError

SPELLING = re.compile(r"\s*([a-z_]+)\s*\(([^()]*)\)\s*")


@dataclass(frozen=True)
class Linear:
    """From `start` at the first step to `end` at the last of `total_steps`, in equal steps."""

    start: float
    end: float

    def __str__(self) -> str:
        return f"linear({self.start!r}, {self.end!r})"


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


def spellings() -> str:
    """What a value may be besides a number, for people."""
    return ", ".join(
        f"{name}({', '.join(field.name for field in dataclasses.fields(form))})"
        for name, form in FORMS.items()
    )
