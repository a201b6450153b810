import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trm_train.objective import log_stablemax, slot_losses
from trm_train.step.think import metric_sums


def log_stablemax_float64(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    s = np.where(x >= 0, x + 1, 1 / (1 - np.minimum(x, 0)))
    return np.log(s / s.sum(-1, keepdims=True))


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_stablemax_against_float64(scale: float) -> None:
    x = (np.random.default_rng(0).normal(size=(500, 11)) * scale).astype(np.float32)
    assert np.abs(np.asarray(log_stablemax(jnp.asarray(x))) - log_stablemax_float64(x)).max() < 1e-5


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_stablemax_gradient_at_exactly_one_and_zero(dtype: jnp.dtype) -> None:
    x = jnp.asarray([1.0, 1.0, 0.0, -1.0, 2.0], dtype)
    gradient = jax.grad(lambda x: log_stablemax(x)[0])(x).astype(jnp.float32)
    total = 2 + 2 + 1 + 0.5 + 3
    slope = np.array([1, 1, 1, 0.25, 1])
    wanted = -slope / total
    wanted[0] += 1 / 2
    assert np.all(np.isfinite(gradient))
    assert np.allclose(gradient, wanted, atol=1e-6 if dtype == jnp.float32 else 2e-3)


def make_losses(labels: list[list[int]], q_halt: list[float]):
    logits = jax.nn.one_hot(jnp.asarray([[1, 2, 3]] * len(labels)), 4) * 5.0
    return jax.jit(slot_losses, static_argnums=3)(
        logits, jnp.asarray(q_halt), jnp.asarray(labels, jnp.int32), 0
    )


def test_losses_average_over_labelled_cells_of_each_row() -> None:
    losses = make_losses([[1, 2, 3], [1, 0, 0], [2, 0, 3], [0, 0, 0]], [0.0, 1.0, -1.0, 2.0])
    right, wrong = -np.log(6 / 9), -np.log(1 / 9)
    assert np.allclose(losses.lm, [right, right, (right + wrong) / 2, 0.0], atol=1e-6)
    assert losses.labelled.tolist() == [3, 1, 2, 0]
    assert losses.correct.tolist() == [3, 1, 1, 0]
    # A row without labels counts as correct (0 of 0), but only in the halting loss.
    assert losses.right.tolist() == [True, True, False, True]
    sigmoid = 1 / (1 + np.exp(-np.array([0.0, 1.0, -1.0, 2.0])))
    wanted = -np.log(np.where([True, True, False, True], sigmoid, 1 - sigmoid))
    assert np.allclose(losses.q_halt, wanted, atol=1e-6)
    assert losses.total() == pytest.approx(float(losses.lm.sum() + 0.5 * losses.q_halt.sum()))


def test_ignore_label_may_be_negative() -> None:
    logits = jnp.zeros((1, 3, 4)).at[0, :, 0].set(9.0)
    losses = slot_losses(logits, jnp.zeros(1), jnp.asarray([[0, -100, 0]], jnp.int32), -100)
    assert losses.labelled.tolist() == [2]
    assert losses.correct.tolist() == [2]


def test_metrics_count_halted_slots_with_labels() -> None:
    q_halt = [1.0, 0.0, 1.0, 2.0]
    losses = make_losses([[1, 2, 3], [1, 0, 0], [2, 0, 3], [0, 0, 0]], q_halt)
    steps = jnp.asarray([2, 3, 4, 5], jnp.int32)
    halted = jnp.asarray([True, False, True, True])
    sums = {k: v.item() for k, v in metric_sums(losses, jnp.asarray(q_halt), steps, halted).items()}
    assert sums["count"] == 2
    assert sums["steps"] == 6
    assert sums["accuracy"] == 1.5
    assert sums["exact_accuracy"] == 1
    assert sums["q_halt_accuracy"] == 1
    assert sums["lm_loss"] == pytest.approx(float(losses.lm.sum()))
    assert sums["q_halt_loss"] == pytest.approx(float(losses.q_halt.sum()))


def test_padded_rows_add_to_nothing() -> None:
    losses = make_losses([[1, 2, 3], [1, 2, 3]], [1.0, 1.0])
    alone = make_losses([[1, 2, 3]], [1.0])
    everywhere = jnp.ones((2,), bool)
    padded = metric_sums(losses, jnp.ones(2), jnp.ones(2, jnp.int32), everywhere, jnp.asarray([True, False]))
    single = metric_sums(alone, jnp.ones(1), jnp.ones(1, jnp.int32), everywhere[:1])
    assert {k: v.item() for k, v in padded.items()} == {k: v.item() for k, v in single.items()}
