"""Predictions for every row of a split, once, for any batches, and the values stored with them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.trm_eval.conftest import Evaluated
from trm_eval.identity import EvalRequest
from trm_eval.infer import compile_rollout, restore
from trm_eval.rollout import Inferred, RowReader, choose_rows
from trm_train.errors import CheckpointError


def inferred(
    evaluated: Evaluated,
    *,
    step: int = 12,
    weights: str = "ema",
    supervision_steps: int = 3,
    limit: int = 0,
) -> list[Inferred]:
    """Return all batches of one pass over the test split."""
    restored = restore(evaluated.folder, evaluated.record, step=step, weights=weights)
    reader = RowReader(evaluated.test, "own", 1)
    answer = compile_rollout(restored, reader, EvalRequest(), supervision_steps)
    rows = choose_rows(len(reader), limit, None)
    return list(answer(rows))


def joined(batches: list[Inferred], name: str) -> np.ndarray:
    return np.concatenate([getattr(batch, name) for batch in batches])


def test_every_row_comes_once_and_in_order_without_padding(evaluated: Evaluated) -> None:
    batches = inferred(evaluated)
    assert len(evaluated.test) % len(batches[0].predictions) or len(batches) == 1  # the last batch is padded
    starts = np.cumsum([0, *(len(batch.predictions) for batch in batches)])
    assert [int(batch.rows[0]) for batch in batches] == starts[:-1].tolist()
    assert starts[-1] == len(evaluated.test) == 12
    assert joined(batches, "predictions").shape == (12, 36)
    assert joined(batches, "predictions").dtype == np.uint8


def test_the_sums_are_those_of_the_rows(evaluated: Evaluated) -> None:
    batches = inferred(evaluated)
    labels = evaluated.test.read(np.arange(12))["labels"]
    right = joined(batches, "predictions") == labels
    assert sum(batch.metrics["count"] for batch in batches) == 12
    assert sum(batch.metrics["exact_accuracy"] for batch in batches) == right.all(axis=1).sum()
    assert sum(batch.metrics["accuracy"] for batch in batches) == pytest.approx(
        right.mean(axis=1).sum(), 1e-5
    )


@pytest.mark.parametrize("limit", [5, 500])
def test_a_limit_is_the_first_rows(evaluated: Evaluated, limit: int) -> None:
    some, everything = inferred(evaluated, limit=limit), inferred(evaluated)
    count = min(limit, 12)
    np.testing.assert_array_equal(joined(some, "predictions"), joined(everything, "predictions")[:count])
    np.testing.assert_array_equal(joined(some, "q_halt_logits"), joined(everything, "q_halt_logits")[:count])


def test_the_halting_step_is_the_first_with_a_positive_logit(evaluated: Evaluated) -> None:
    """The halting step of a long pass is the first pass length whose last logit is positive."""
    longest = 4
    last = np.stack(
        [joined(inferred(evaluated, supervision_steps=n), "q_halt_logits") for n in range(1, longest + 1)]
    )
    halted = last > 0
    expected = np.where(halted.any(axis=0), halted.argmax(axis=0) + 1, 0)
    steps = joined(inferred(evaluated, supervision_steps=longest), "halt_steps")
    np.testing.assert_array_equal(steps, expected)


def test_averaged_and_raw_weights_are_two_networks(evaluated: Evaluated) -> None:
    ema, raw = inferred(evaluated), inferred(evaluated, weights="raw")
    assert not np.array_equal(joined(ema, "q_halt_logits"), joined(raw, "q_halt_logits"))


def test_a_checkpoint_that_is_not_there(evaluated: Evaluated) -> None:
    with pytest.raises(CheckpointError, match="7"):
        inferred(evaluated, step=7)


def test_what_is_wrong_after_every_step_is_what_a_pass_of_so_many_predicts(evaluated: Evaluated) -> None:
    labels = evaluated.test.read(np.arange(12))["labels"]
    by_step = np.concatenate(
        [batch.wrong_by_step for batch in inferred(evaluated, supervision_steps=4)], axis=1
    )
    assert by_step.shape == (4, 12)
    for depth in range(1, 5):
        predictions = joined(inferred(evaluated, supervision_steps=depth), "predictions")
        np.testing.assert_array_equal(by_step[depth - 1], (predictions != labels).sum(axis=1))
