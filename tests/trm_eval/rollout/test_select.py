"""Selection among samples, without labels."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from trm_eval.rollout import SELECTIONS, Selection, choices


def slowly(
    selection: Selection,
    answers: list[bytes],
    margins: NDArray[np.float32],
    halt_steps: NDArray[np.int32],
    residuals: NDArray[np.float32],
    lawful: NDArray[np.bool_],
) -> int:
    """Return the choice among all samples of one row, computed literally from its definition."""
    every = range(len(answers))
    if selection == "halt_logit":
        return max(every, key=lambda k: (margins[k], -k))
    if selection == "first_halt":
        never = 10**9
        return min(every, key=lambda k: (halt_steps[k] or never, -margins[k], k))
    if selection == "residual":
        return min(every, key=lambda k: (residuals[k], -margins[k], k))
    if selection == "rules":
        return max(every, key=lambda k: (lawful[k], margins[k], -k))
    votes = Counter(answers)
    surest = {answer: max(margins[k] for k in every if answers[k] == answer) for answer in votes}
    order = {answer: answers.index(answer) for answer in votes}
    best = max(votes, key=lambda answer: (votes[answer], surest[answer], -order[answer]))
    return min(k for k in every if answers[k] == best and margins[k] == surest[best])


@given(st.data(), st.integers(1, 7), st.integers(1, 4), st.sampled_from(SELECTIONS))
def test_the_choice_is_the_one_that_is_defined(
    data: st.DataObject, samples: int, rows: int, selection: Selection
) -> None:
    """The choice holds for every prefix of the samples, so one pass gives a curve over their number."""

    def drawn(low: int, high: int, cells: int = 1) -> NDArray[np.int64]:
        size = samples * rows * cells
        values = data.draw(st.lists(st.integers(low, high), min_size=size, max_size=size))
        return np.array(values).reshape(samples, rows, cells)

    tokens = drawn(2, 3, cells=2).astype(np.uint8)
    margins, halts = drawn(-2, 2)[..., 0].astype(np.float32), drawn(0, 3)[..., 0].astype(np.int32)
    residuals, lawful = drawn(0, 2)[..., 0].astype(np.float32), drawn(0, 1)[..., 0].astype(bool)
    found = choices(selection, tokens, margins, halts, residuals, lawful)
    assert found.shape == (samples, rows)
    for k in range(samples):
        for row in range(rows):
            answers = [tokens[i, row].tobytes() for i in range(k + 1)]
            expected = slowly(
                selection, answers, *(each[: k + 1, row] for each in (margins, halts, residuals, lawful))
            )
            if selection == "mode":  # tied answers with equal confidence: any is right
                assert answers[found[k, row]] == answers[expected] or _tied(answers, margins[: k + 1, row])
            else:
                assert found[k, row] == expected


def _tied(answers: list[bytes], margins: NDArray[np.float32]) -> bool:
    """Return whether two answers have the same number of votes and the same highest confidence."""
    votes = Counter(answers)
    keys = [
        (votes[answer], max(margins[k] for k in range(len(answers)) if answers[k] == answer))
        for answer in votes
    ]
    return len(set(keys)) < len(keys)


@pytest.mark.parametrize(("selection", "chosen"), [("halt_logit", 2), ("mode", 1), ("first_halt", 0)])
def test_the_three_ways_differ(selection: Selection, chosen: int) -> None:
    tokens = np.array([[[2, 2]], [[3, 3]], [[4, 4]], [[3, 3]]], np.uint8)
    margins = np.array([[0.1], [0.6], [0.9], [0.5]], np.float32)
    halt_steps = np.array([[1], [3], [2], [0]], np.int32)
    assert choices(selection, tokens, margins, halt_steps)[-1].tolist() == [chosen]


def test_the_residual_and_the_rules_choose_without_labels() -> None:
    tokens = np.zeros((3, 2, 4), np.uint8)
    margins = np.array([[1.0, 3.0], [2.0, 2.0], [0.0, 1.0]], np.float32)
    steps = np.zeros((3, 2), np.int32)
    residuals = np.array([[0.3, 0.1], [0.2, 0.1], [0.2, 0.0]], np.float32)
    by_residual = choices("residual", tokens, margins, steps, residuals)
    assert by_residual.tolist() == [[0, 0], [1, 0], [1, 2]]  # tie: the most confident, then the first
    lawful = np.array([[False, False], [False, True], [True, True]])
    by_rules = choices("rules", tokens, margins, steps, None, lawful)
    assert by_rules.tolist() == [[0, 0], [1, 1], [2, 1]]  # the most confident while none is lawful
