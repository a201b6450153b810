"""The guide of an experiment: question, variations, expectation, criteria and cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from trm_train.experiments.claim import Claim


@dataclass(frozen=True)
class Quantity:
    """The numeric quantity that a group of experiments varies: the axis of its figures.

    Attributes:
        name: Name for display.
        unit: Unit of the numbers.
        of: Returns the number of a configuration (`RunConfig`).
        log: Whether the axis is logarithmic.
    """

    name: str
    unit: str
    of: Callable[[Any], float]
    log: bool = True


@dataclass(frozen=True, kw_only=True)
class Guide:
    """Guide of an experiment; every field except `claims` has one or a few sentences."""

    question: str
    """Question of the experiment, with a question mark."""
    varies: str
    """Differences between the runs of the group."""
    fixed: str
    """Settings that are equal in all runs of the group."""
    expected: str
    """Expected result, with a number if one is known."""
    judge_by: str
    """Command and number that decide the question."""
    metrics: str = (
        "exact and cell accuracy on the test split with EMA weights, supervision steps, halting accuracy"
    )
    """Measured quantities."""
    cost: str = ""
    """Measured time and memory with the machine; `describe` adds computed costs."""
    claims: tuple[Claim, ...] = ()
    """Parts of `expected` that exact accuracies can confirm; a report checks them."""

    def text(self) -> str:
        """Return the guide as text: the question, then a line for each other field."""
        rest = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "question"}
        rest["claims"] = "; ".join(map(str, self.claims))
        lines = (
            f"{name.replace('_', ' ').capitalize() + ':':<10} {said}" for name, said in rest.items() if said
        )
        return "\n".join([self.question, "", *lines])

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; claims are sentences."""
        return {item.name: getattr(self, item.name) for item in fields(self)} | {
            "claims": [str(claim) for claim in self.claims]
        }
