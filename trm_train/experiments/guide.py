"""The guide of an experiment: question, variations, expectation, criteria and cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from trm_train.experiments.claim import Claim


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
    """The guide of an experiment; every field but the claims is a sentence or a few."""

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
    claims: tuple[Claim, ...] = ()
    """What of `expected` exact accuracies alone can bear out; a report holds them against its numbers."""

    def text(self) -> str:
        """The guide for a person: the question, then a line for each other field."""
        rest = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "question"}
        rest["claims"] = "; ".join(map(str, self.claims))
        lines = (
            f"{name.replace('_', ' ').capitalize() + ':':<10} {said}" for name, said in rest.items() if said
        )
        return "\n".join([self.question, "", *lines])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; claims as sentences."""
        return {item.name: getattr(self, item.name) for item in fields(self)} | {
            "claims": [str(claim) for claim in self.claims]
        }
