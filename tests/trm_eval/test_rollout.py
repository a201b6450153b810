"""Rows that halt, and rows with several samples, compared with the plain evaluation step.

Selection among samples, without labels.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.trm_eval.conftest import Evaluated
from trm_data.loader.dataset import open_dataset
from trm_eval.identity import EvalRequest, Sampling
from trm_eval.infer import LoadedNetwork, compile_rollout, restore
from trm_eval.rollout import SELECTIONS, Inferred, RowReader, Selection, choices, choose_rows, retention
from trm_train.step import compile
from trm_train.training import validate

STEPS = 6
"""Maximum number of supervision steps in these tests."""


@dataclass(frozen=True)
class Restless:
    """A network that halts at different steps, and the rows of the training split."""

    restored: LoadedNetwork
    reader: RowReader

    @property
    def rows(self) -> np.ndarray:
        """All row numbers."""
        return np.arange(len(self.reader), dtype=np.int64)


@pytest.fixture(scope="session")
def restless(evaluated: Evaluated) -> Restless:
    restored = restore(evaluated.folder, evaluated.record, step=12, weights="ema")
    weights = restored.weights
    head = weights.params["q_head"]
    leaves, tree = jax.tree_util.tree_flatten(head)
    rng = np.random.default_rng(0)
    loud = [
        jnp.asarray(rng.normal(0, 1, leaf.shape) if leaf.ndim > 1 else np.full(leaf.shape, -0.2), leaf.dtype)
        for leaf in leaves
    ]
    params = {**weights.params, "q_head": jax.tree_util.tree_unflatten(tree, loud)}
    restored = dataclasses.replace(restored, weights=dataclasses.replace(weights, params=params))
    train = open_dataset("small", evaluated.layout, "train")
    return Restless(restored, RowReader(train, "own", evaluated.record.input_spec.num_identifiers))


@pytest.fixture(scope="module", autouse=True)
def large_batches() -> Generator[None, None, None]:
    """All rows in one batch, as on a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile, "CACHED_POSITIONS", 1 << 20)
        yield


def answered(
    restless: Restless, request: EvalRequest, rows: np.ndarray | None = None, steps: int = STEPS
) -> list[Inferred]:
    answer = compile_rollout(restless.restored, restless.reader, request, steps)
    return list(answer(restless.rows if rows is None else rows))


def joined(batches: list[Inferred], name: str) -> np.ndarray:
    return np.concatenate([getattr(batch, name) for batch in batches])


def summed(batches: list[Inferred], name: str) -> float:
    return sum(batch.metrics[name] for batch in batches)


@pytest.fixture(scope="module")
def plain(restless: Restless) -> list[list[Inferred]]:
    """The published evaluation with 1, 2, ... supervision steps."""
    return [answered(restless, EvalRequest(), steps=n) for n in range(1, STEPS + 1)]


@pytest.mark.parametrize("slots", [256, 7])
def test_rows_halt_where_and_as_in_training(
    restless: Restless,
    plain: list[list[Inferred]],
    monkeypatch: pytest.MonkeyPatch,
    slots: int,
) -> None:
    """The answer of every row equals the plain one after the same number of steps, for any slots in its batch."""
    halt_steps = joined(plain[-1], "halt_steps")
    assert len(set(halt_steps.tolist())) > 3  # including 0: rows that never halt
    steps = np.where(halt_steps > 0, halt_steps, STEPS)
    monkeypatch.setattr(validate, "BATCH_EXAMPLES", slots)
    batches = answered(restless, EvalRequest(mode="halting"))
    np.testing.assert_array_equal(joined(batches, "rows"), restless.rows)
    np.testing.assert_array_equal(joined(batches, "steps"), steps)
    np.testing.assert_array_equal(joined(batches, "halt_steps"), halt_steps)
    at = np.arange(len(steps))
    tokens = np.stack([joined(one, "predictions") for one in plain])[steps - 1, at]
    logits = np.stack([joined(one, "q_halt_logits") for one in plain])[steps - 1, at]
    np.testing.assert_array_equal(joined(batches, "predictions"), tokens)
    np.testing.assert_allclose(joined(batches, "q_halt_logits"), logits, atol=1e-3)
    assert sum(batch.spent for batch in batches) == steps.sum()  # no slot works on a finished row


def test_halting_sums_are_those_of_its_rows(restless: Restless) -> None:
    batches = answered(restless, EvalRequest(mode="halting"))
    labels = restless.reader.dataset.read(restless.rows)["labels"]
    right = (joined(batches, "predictions") == labels).all(axis=1)
    assert summed(batches, "count") == len(restless.rows)
    assert summed(batches, "exact_accuracy") == right.sum()
    fits = (joined(batches, "q_halt_logits") >= 0) == right
    assert summed(batches, "q_halt_accuracy") == fits.sum()


SAMPLING = Sampling(samples=4, noise=0.5)


@pytest.fixture(scope="module")
def sampled(restless: Restless) -> list[Inferred]:
    return answered(restless, EvalRequest(sampling=SAMPLING), steps=3)


def test_samples_differ_by_their_noise_and_the_first_are_the_same_of_more(
    restless: Restless, sampled: list[Inferred]
) -> None:
    fewer = answered(restless, EvalRequest(sampling=dataclasses.replace(SAMPLING, samples=1)), steps=3)
    both = zip(fewer, sampled, strict=True)
    for one, several in both:
        assert one.sampled is not None
        assert several.sampled is not None
        first = several.sampled.chosen == 0
        assert 0 < first.sum() < len(first)  # samples differ
        np.testing.assert_array_equal(one.predictions[first], several.predictions[first])
        assert one.sampled.exact_by_samples[0] == several.sampled.exact_by_samples[0]
    assert sum(batch.spent for batch in sampled) == 3 * 4 * len(restless.rows)


def test_samples_do_not_depend_on_the_batches(restless: Restless, sampled: list[Inferred]) -> None:
    """Some of the rows, in batches of another size: the same answers."""
    some = choose_rows(len(restless.reader), 5, seed=1)
    few = answered(restless, EvalRequest(sampling=SAMPLING), rows=some, steps=3)
    np.testing.assert_array_equal(joined(few, "predictions"), joined(sampled, "predictions")[some])


def test_an_oracle_is_at_least_as_good_as_any_choice(sampled: list[Inferred]) -> None:
    for batch in sampled:
        assert batch.sampled is not None
        assert (batch.sampled.oracle_by_samples >= batch.sampled.exact_by_samples).all()
        assert (np.diff(batch.sampled.oracle_by_samples) >= 0).all()
        assert batch.sampled.oracle_by_samples[-1] == batch.sampled.oracle.sum()
        assert batch.sampled.exact_by_samples[-1] == batch.metrics["exact_accuracy"]


def test_a_subset_is_drawn_once_and_a_larger_one_holds_it() -> None:
    small, large = (set(choose_rows(1000, n, 7).tolist()) for n in (10, 50))
    assert len(small) == 10
    assert small < large
    assert choose_rows(1000, 10, 7).tolist() != choose_rows(1000, 10, 8).tolist()
    assert choose_rows(1000, 10, None).tolist() == list(range(10))
    assert choose_rows(5, 10, 7).tolist() == choose_rows(5, 0, None).tolist() == list(range(5))


def test_identifiers_are_blank_or_those_of_others(restless: Restless) -> None:
    rows, dataset = np.arange(40), restless.reader.dataset
    assert not RowReader(dataset, "blank", 9).read(rows)["puzzle_identifiers"].any()
    random = RowReader(dataset, "random", 9)
    drawn = random.read(rows)["puzzle_identifiers"]
    assert set(drawn.tolist()) <= set(range(1, 9))
    assert len(set(drawn.tolist())) > 4
    np.testing.assert_array_equal(random.read(rows[7:9])["puzzle_identifiers"], drawn[7:9])
    np.testing.assert_array_equal(random.read(rows)["inputs"], dataset.read(rows)["inputs"])


@pytest.mark.integration
@pytest.mark.parametrize("selection", ["halt_logit", "mode", "first_halt", "residual"])
def test_one_pass_gives_what_passes_of_fewer_steps_and_samples_give(
    restless: Restless, selection: Selection
) -> None:
    """Every combination of 1 to 3 steps and 1 to 3 samples, compared with a separate evaluation."""
    sampling = Sampling(samples=3, noise=0.5, selection=selection)
    (whole,) = answered(restless, EvalRequest(sampling=sampling, depths=(1, 2, 3)), steps=3)
    assert whole.sampled is not None
    assert whole.sampled.scaling is not None
    exact, oracle = whole.sampled.scaling
    assert exact.shape == oracle.shape == (3, 3)
    for depth in (1, 2, 3):
        (alone,) = answered(restless, EvalRequest(sampling=sampling), steps=depth)
        assert alone.sampled is not None
        np.testing.assert_array_equal(exact[depth - 1], alone.sampled.exact_by_samples)
        np.testing.assert_array_equal(oracle[depth - 1], alone.sampled.oracle_by_samples)
    np.testing.assert_array_equal(exact[-1], whole.sampled.exact_by_samples)
    assert whole.sampled.course is not None
    now, ever, lost = whole.sampled.course
    np.testing.assert_array_equal(now, ever - lost)
    assert (np.diff(ever) >= 0).all()


@pytest.mark.integration
def test_samples_that_begin_elsewhere_differ_without_noise(restless: Restless) -> None:
    sampling = Sampling(samples=3, noise=0.0)
    (found,) = answered(restless, EvalRequest(sampling=sampling, latent_init="random"), steps=3)
    assert found.sampled is not None
    assert len(set(found.sampled.chosen.tolist())) > 1
    (fixed,) = answered(restless, EvalRequest(sampling=sampling), steps=3)
    assert fixed.sampled is not None
    assert set(fixed.sampled.chosen.tolist()) == {0}  # all samples are the same


def test_answers_that_were_right_and_are_lost_are_counted_by_step() -> None:
    right = np.array([[0, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]], bool)
    assert [counts.tolist() for counts in retention(right)] == [[2, 2, 1], [2, 3, 3], [0, 1, 2]]


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
