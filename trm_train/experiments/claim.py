"""Claims about named experiments, which reports check against measured accuracies.

Claims have names of experiments, so the same claim applies at every scale. `trm_eval/report/verdict.py` judges them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

LITTLE = 2.0
"""Percentage points of exact accuracy; guides call a smaller difference "little" or "much the same"."""


@dataclass(frozen=True)
class Pair:
    """A claim about an experiment, and another with which it is compared."""

    name: str
    other: str

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the experiments in the claim."""
        return self.other, self.name


@dataclass(frozen=True)
class Better(Pair):
    """One experiment solves more of the same puzzles than another.

    Attributes:
        clearly: Whether their 95% intervals must also be disjoint; the interval of the difference excludes 0 anyway.
    """

    clearly: bool = False

    def __str__(self) -> str:
        return f"{self.name} solves {'clearly ' if self.clearly else ''}more than {self.other}"


@dataclass(frozen=True)
class Alike(Pair):
    """Two experiments differ by less than `within` percentage points."""

    within: float = LITTLE

    def __str__(self) -> str:
        return f"{self.name} and {self.other} differ by less than {self.within:g} points"


@dataclass(frozen=True)
class NoWorse(Pair):
    """One experiment is as good as another, or worse by less than `within` percentage points."""

    within: float = LITTLE

    def __str__(self) -> str:
        return f"{self.name} is not {self.within:g} points worse than {self.other}"


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
        """Name of the experiment in the claim."""
        return (self.name,)

    def __str__(self) -> str:
        return f"{self.name} reaches {self.percent:g}% exact accuracy"


Claim = Better | Alike | NoWorse | Reaches


def rising(*names: str) -> tuple[Better, ...]:
    """Claim that each experiment solves more than the previous one."""
    return tuple(Better(name, than) for than, name in pairwise(names))


def best(name: str, *others: str) -> tuple[Better, ...]:
    """Claim that an experiment solves more than each of the others."""
    return tuple(Better(name, other) for other in others)


def nearly_best(name: str, *others: str) -> tuple[NoWorse, ...]:
    """Claim that an experiment is at most slightly worse than each of the others."""
    return tuple(NoWorse(name, other) for other in others)
