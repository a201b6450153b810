"""Claims about named experiments, which reports check against the numbers.

Names, not values: the same claim holds at every scale. A report judges them (`trm_eval/report/verdict.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

LITTLE = 2.0
"""Percentage points of exact accuracy: a difference below it is what the guides call little, or much the same."""


@dataclass(frozen=True)
class Better:
    """One experiment solves more of the same puzzles than another.

    Attributes:
        name: The one.
        than: The other.
        clearly: Their 95% intervals must not overlap, beyond that the difference has none with 0.
    """

    name: str
    than: str
    clearly: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The experiments it is about."""
        return self.than, self.name

    def __str__(self) -> str:
        return f"{self.name} solves {'clearly ' if self.clearly else ''}more than {self.than}"


@dataclass(frozen=True)
class Alike:
    """Two experiments differ by little.

    Attributes:
        name: The one.
        other: The other.
        within: The most that they may differ by (points).
    """

    name: str
    other: str
    within: float = LITTLE

    @property
    def names(self) -> tuple[str, ...]:
        """The experiments it is about."""
        return self.other, self.name

    def __str__(self) -> str:
        return f"{self.name} and {self.other} differ by less than {self.within:g} points"


@dataclass(frozen=True)
class NoWorse:
    """One experiment is as good as another, or worse by little.

    Attributes:
        name: The one.
        than: The other.
        within: The most that it may be worse by (points).
    """

    name: str
    than: str
    within: float = LITTLE

    @property
    def names(self) -> tuple[str, ...]:
        """The experiments it is about."""
        return self.than, self.name

    def __str__(self) -> str:
        return f"{self.name} is not {self.within:g} points worse than {self.than}"


@dataclass(frozen=True)
class Reaches:
    """An experiment reaches an accuracy.

    Attributes:
        name: The experiment.
        percent: Exact accuracy (%).
    """

    name: str
    percent: float

    @property
    def names(self) -> tuple[str, ...]:
        """The experiment it is about."""
        return (self.name,)

    def __str__(self) -> str:
        return f"{self.name} reaches {self.percent:g}% exact accuracy"


Claim = Better | Alike | NoWorse | Reaches


def rising(*names: str) -> tuple[Better, ...]:
    """Each of these experiments solves more than the one before."""
    return tuple(Better(name, than) for than, name in pairwise(names))


def best(name: str, *others: str) -> tuple[Better, ...]:
    """An experiment solves more than each of the others."""
    return tuple(Better(name, other) for other in others)


def nearly_best(name: str, *others: str) -> tuple[NoWorse, ...]:
    """An experiment is no worse than any of the others, or by little."""
    return tuple(NoWorse(name, other) for other in others)
