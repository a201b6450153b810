"""What a person must know of an experiment, before it is run and when it is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Quantity:
    """What a group of experiments varies, where that is a number: the axis of its figures.

    Attributes:
        name: For people.
        unit: Of the numbers.
        of: The number of a configuration (`RunConfig`).
        log: Whether the numbers are spread over orders of magnitude.
    """

    name: str
    unit: str
    of: Callable[[Any], float]
    log: bool = True


@dataclass(frozen=True, kw_only=True)
class Guide:
    """The guide of an experiment; every field is a sentence or a few."""

    question: str
    """What it asks; ends with a question mark."""
    varies: str
    """What differs between the runs of its group."""
    fixed: str
    """What does not."""
    expected: str
    """What should come out, with a number where one is known."""
    judge_by: str
    """The command and the figure that decide."""
    metrics: str = (
        "exact and cell accuracy on the test split with EMA weights, supervision steps, halting accuracy"
    )
    """What is measured."""
    cost: str = ""
    """What was measured of its time and memory, and on what; what is computed `describe` adds."""

    def text(self) -> str:
        """The guide for a person: the question, then a line for each other field."""
        rest = (item for item in fields(self) if item.name != "question" and getattr(self, item.name))
        lines = (
            f"{item.name.replace('_', ' ').capitalize() + ':':<10} {getattr(self, item.name)}"
            for item in rest
        )
        return "\n".join([self.question, "", *lines])
