"""Retention policy for weights during training: the newest, those at an interval, and the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Keep:
    """What stays; with `last` 0 everything does.

    Attributes:
        last: Number of the newest to keep.
        every: Interval in steps; 0 keeps none.
        best: Those with the best validation, of steps that were validated.
        scores: Exact accuracy of the validation by step; whoever validates adds to it. Of several processes all have
            the same ones.
    """

    last: int = 0
    every: int = 0
    best: bool = True
    scores: dict[int, float | None] = field(default_factory=dict)

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        """Whether each checkpoint stays, as Orbax asks; it gives them by step."""
        kept = self.kept([checkpoint.step for checkpoint in checkpoints])
        return [checkpoint.step in kept for checkpoint in checkpoints]

    def kept(self, steps: Sequence[int]) -> set[int]:
        """The steps that stay, of ascending ones."""
        if not self.last:
            return set(steps)
        kept = set(steps[-self.last :])
        if self.every:
            kept |= {step for step in steps if step % self.every == 0}
        scored = [(score, step) for step in steps if (score := self.scores.get(step)) is not None]
        if self.best and scored:
            kept.add(max(scored)[1])
        return kept
