"""Selection among samples: pure functions of the samples, without labels.

Ties go to the earlier sample, so the choice among the first k samples never depends on later ones.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Selection = Literal["halt_logit", "mode", "first_halt", "residual", "rules"]
SELECTIONS: tuple[Selection, ...] = get_args(Selection)


def choices(
    selection: Selection,
    predictions: NDArray[np.uint8],
    margins: NDArray[np.float32],
    halt_steps: NDArray[np.int32],
    residuals: NDArray[np.float32] | None = None,
    lawful: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    """Return the sample chosen among the first 1, 2, ... K, int32 [K, n]; the last row is the choice among all.

    Args:
        selection: `halt_logit`, the most confident sample; `mode`, the most frequent answer (tie: the one with the most
            confident sample); `first_halt`, the sample that would halt first (tie, or if none halts: the most
            confident); `residual`, the one whose answer state changed least in the last step; `rules`, an answer that
            satisfies the puzzle's rules (tie, or if none does: the most confident).
        predictions: Tokens of K samples of n rows, uint8 [K, n, S].
        margins: Halting margin (confidence) of each sample, float32 [K, n].
        halt_steps: First supervision step at which each would have halted, int32 [K, n]; 0 for never.
        residuals: Change of the answer state in the last step, float32 [K, n]; for `residual`.
        lawful: Whether each answer satisfies the puzzle's rules, bool [K, n]; for `rules`.
    """
    if selection == "residual":
        assert residuals is not None
        return _first_best(-residuals, margins)
    if selection == "rules":
        assert lawful is not None
        return _first_best(lawful, margins)
    if selection == "halt_logit":
        return _first_best(margins, margins)
    if selection == "first_halt":
        never = np.iinfo(np.int32).max
        return _first_best(-np.where(halt_steps > 0, halt_steps, never).astype(np.int64), margins)
    return _modes(_same_answers(predictions), margins)


def _first_best(first: NDArray, second: NDArray) -> NDArray[np.int32]:
    """Return the best sample so far by two criteria, int32 [K, n]."""
    best = np.zeros(first.shape, np.int32)
    at = np.arange(first.shape[1])
    for k in range(1, len(first)):
        held = best[k - 1]
        better = (first[k] > first[held, at]) | (
            (first[k] == first[held, at]) & (second[k] > second[held, at])
        )
        best[k] = np.where(better, k, held)
    return best


def _same_answers(predictions: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return the first sample of the row with the same answer, int32 [K, n]."""
    samples, rows = predictions.shape[:2]
    same = np.empty((samples, rows), np.int32)
    for row in range(rows):
        seen: dict[bytes, int] = {}
        same[:, row] = [seen.setdefault(predictions[k, row].tobytes(), k) for k in range(samples)]
    return same


def _modes(same: NDArray[np.int32], margins: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return the most confident sample of the most frequent answer so far, int32 [K, n]."""
    samples, rows = same.shape
    at = np.arange(rows)
    votes, surest = np.zeros((samples, rows), np.int32), np.zeros((samples, rows), np.int32)
    leader, best = np.zeros(rows, np.int32), np.zeros((samples, rows), np.int32)
    for k in range(samples):
        answer = same[k]
        new = votes[answer, at] == 0
        votes[answer, at] += 1
        surer = new | (margins[k] > margins[surest[answer, at], at])
        surest[answer, at] = np.where(surer, k, surest[answer, at])
        mine, led = votes[answer, at], votes[leader, at]
        sure, led_sure = margins[surest[answer, at], at], margins[surest[leader, at], at]
        leads = (k == 0) | (mine > led) | ((mine == led) & (sure > led_sure))
        leader = np.where(leads, answer, leader)
        best[k] = surest[leader, at]
    return best
