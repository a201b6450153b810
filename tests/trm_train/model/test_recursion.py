"""Order of the updates and the gradient of the recursion, compared with hand-written loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from trm_train.model.recursion import Levels, recurse


class Scale(nnx.Module):
    """f(z, injection) = w (z + injection): its derivative counts every use of w."""

    def __init__(self, w: jax.Array):
        self.w = nnx.Param(w)

    def __call__(self, z, injection):
        return self.w[...] * (z + injection)


def by_hand(w, w_last, z_h, z_l, e, e_last, h_cycles: int, l_cycles: int):
    for cycle in range(h_cycles):
        used, embedded = (w_last, e_last) if cycle == h_cycles - 1 else (w, e)
        for _ in range(l_cycles):
            z_l = used * (z_l + z_h + embedded)
        z_h = used * (z_h + z_l)
    return z_h, z_l


def run(low, high, z_h, z_l, e, **options):
    """Return the states after a supervision step; `z_l` is one number or several."""
    latents = tuple(map(jnp.float32, z_l)) if isinstance(z_l, tuple) else (jnp.float32(z_l),)
    return recurse(Levels(low, high), z_h, latents, e, **options)


def one(w, z_h, z_l, e, **options):
    """Run with one network for both states."""
    level = Scale(w)
    return run(level, level, z_h, z_l, e, **options)


def test_order_of_the_updates() -> None:
    z_h, (z_l,), before = one(
        jnp.float32(0.7), jnp.float32(1.0), 2.0, jnp.float32(3.0), h_cycles=3, l_cycles=2
    )
    assert np.allclose((z_h, z_l), by_hand(0.7, 0.7, 1.0, 2.0, 3.0, 3.0, 3, 2))
    assert np.allclose(before, by_hand(0.7, 0.7, 1.0, 2.0, 3.0, 3.0, 2, 2)[0])


def test_gradient_flows_through_the_last_cycle_only() -> None:
    def answer(w, e):
        return one(w, jnp.float32(1.0), 2.0, e, h_cycles=3, l_cycles=2)[0]

    def last_only(w_last, e_last):
        return by_hand(0.7, w_last, 1.0, 2.0, 3.0, e_last, 3, 2)[0]

    w, e = jnp.float32(0.7), jnp.float32(3.0)
    assert np.allclose(jax.grad(answer, (0, 1))(w, e), jax.grad(last_only, (0, 1))(w, e), rtol=1e-5)


def test_initial_states_get_gradient_only_with_a_single_cycle() -> None:
    def answer(z_h, h_cycles):
        return one(jnp.float32(0.7), z_h, 2.0, jnp.float32(3.0), h_cycles=h_cycles, l_cycles=1)[0]

    assert jax.grad(answer)(jnp.float32(1.0), 2) == 0.0
    assert jax.grad(answer)(jnp.float32(1.0), 1) != 0.0


def test_one_step_gradient_is_that_of_the_last_update_of_each_state() -> None:
    def answer(low, high, e):
        return run(Scale(low), Scale(high), jnp.float32(1.0), 2.0, e, h_cycles=2, l_cycles=3, one_step=True)[
            0
        ]

    def last_updates(low, high, e):
        z_h, z_l = 1.0, 2.0
        for cycle in range(2):
            for update in range(3):
                last = cycle == 1 and update == 2
                z_l = (low if last else 0.7) * (z_l + z_h + (e if last else 3.0))
            z_h = (high if cycle == 1 else 0.9) * (z_h + z_l)
        return z_h

    point = jnp.float32(0.7), jnp.float32(0.9), jnp.float32(3.0)
    assert np.allclose(answer(*point), last_updates(*point))
    found, wanted = (jax.grad(f, (0, 1, 2))(*point) for f in (answer, last_updates))
    assert np.allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("recomputes", [False, True])
def test_multi_scale_updates_each_latent_from_the_sum_of_all(recomputes: bool) -> None:
    def answer(w):
        z_h, z_l, _ = one(
            w,
            jnp.float32(1.0),
            (2.0, -1.0, 0.5),
            jnp.float32(3.0),
            h_cycles=2,
            l_cycles=3,
            recomputes=recomputes,
        )
        return z_h, z_l

    def by_definition(w):
        z_h, z_l = 1.0, [2.0, -1.0, 0.5]
        for cycle in range(2):
            used = w if cycle == 1 else 0.7
            for k in range(3):
                z_l[k] = used * (sum(z_l) + z_h + 3.0)
            z_h = used * (z_h + sum(z_l))
        return z_h, tuple(z_l)

    w = jnp.float32(0.7)
    assert np.allclose(jax.tree.leaves(answer(w)), jax.tree.leaves(by_definition(w)), rtol=1e-5)
    found, wanted = (jax.jacrev(f)(w) for f in (answer, by_definition))
    assert np.allclose(jax.tree.leaves(found), jax.tree.leaves(wanted), rtol=1e-5)
