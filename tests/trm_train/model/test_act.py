import jax.numpy as jnp
import numpy as np
import pytest

from trm_train.model.act import exploration_min_steps, halt, initial_carry, refill

KEY = jnp.asarray([7, 11], jnp.uint32)


def batch_of(value: int) -> dict:
    return {
        "inputs": jnp.full((4, 3), value, jnp.uint8),
        "labels": jnp.full((4, 3), value + 1, jnp.uint8),
        "puzzle_identifiers": jnp.full((4,), value + 2, jnp.int32),
    }


def test_slots_keep_their_example_until_they_halt() -> None:
    initial = {"z_h": jnp.full((4, 5, 2), 5.0), "z_l": jnp.full((4, 5, 2), 6.0)}
    carry = refill(initial_carry(4, 3, initial), batch_of(10), initial)
    assert np.all(carry.current["labels"] == 11)
    assert carry.current["labels"].dtype == jnp.int32
    assert np.all(carry.states["z_h"] == 5.0)
    assert np.all(carry.states["z_l"] == 6.0)
    worked = type(carry)(
        states={name: z + 1.0 for name, z in carry.states.items()},
        steps=carry.steps + 3,
        halted=jnp.asarray([False, True, False, True]),
        current=carry.current,
    )
    carry = refill(worked, batch_of(20), initial)
    assert carry.current["inputs"][:, 0].tolist() == [10, 20, 10, 20]
    assert carry.current["labels"][:, 0].tolist() == [11, 21, 11, 21]
    assert carry.current["puzzle_identifiers"].tolist() == [12, 22, 12, 22]
    assert carry.steps.tolist() == [3, 0, 3, 0]
    assert carry.states["z_h"][:, 0, 0].tolist() == [6.0, 5.0, 6.0, 5.0]


def test_halting() -> None:
    steps = jnp.asarray([1, 1, 2, 3, 3], jnp.int32)
    q_halt = jnp.asarray([0.1, 0.0, 0.1, -1.0, 0.1])
    free = jnp.ones((5,), jnp.int32)
    assert halt(steps, q_halt, free, 3).tolist() == [True, False, True, True, True]
    explored = jnp.asarray([2, 2, 3, 3, 3], jnp.int32)
    assert halt(steps, q_halt, explored, 3).tolist() == [False, False, False, True, True]


def test_exploration_is_drawn_for_every_slot_and_step() -> None:
    draws = np.stack([exploration_min_steps(KEY, jnp.int32(t), 4_000, 0.25, 16) for t in range(3)])
    explored = draws > 1
    assert explored.mean() == pytest.approx(0.25, abs=0.02)
    assert set(np.unique(draws)) == set(range(1, 17))
    assert np.bincount(draws[explored], minlength=17)[2:].std() / explored.sum() < 0.01
    assert len({tuple(row) for row in draws}) == 3
    assert 0.02 < (explored[0] & explored[1]).mean() < 0.11  # steps are drawn independently


def test_a_probability_that_changes_over_training_draws_like_the_number_it_is() -> None:
    as_number = exploration_min_steps(KEY, jnp.int32(5), 64, 0.5, 16)
    assert np.array_equal(as_number, exploration_min_steps(KEY, jnp.int32(5), 64, jnp.float32(0.5), 16))
    assert np.all(exploration_min_steps(KEY, jnp.int32(5), 64, jnp.float32(0.0), 16) == 1)


def test_exploration_of_a_slot_does_not_depend_on_the_other_slots() -> None:
    many = exploration_min_steps(KEY, jnp.int32(5), 64, 0.5, 16)
    few = exploration_min_steps(KEY, jnp.int32(5), 8, 0.5, 16)
    assert np.array_equal(many[:8], few)


@pytest.mark.parametrize(("probability", "max_steps"), [(0.0, 16), (0.5, 1)])
def test_no_exploration(probability: float, max_steps: int) -> None:
    assert np.all(exploration_min_steps(KEY, jnp.int32(0), 8, probability, max_steps) == 1)
