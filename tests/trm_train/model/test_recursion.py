import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from trm_train.model.recursion import recurse


class Scale(nnx.Module):
    """f(z, injection) = w (z + injection): every use of w can be counted in its derivative."""

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


def test_order_of_the_updates() -> None:
    z = recurse(Scale(jnp.float32(0.7)), *map(jnp.float32, (1.0, 2.0, 3.0)), h_cycles=3, l_cycles=2)
    assert np.allclose(z, by_hand(0.7, 0.7, 1.0, 2.0, 3.0, 3.0, 3, 2))


def test_gradient_flows_through_the_last_cycle_only() -> None:
    def answer(w, e):
        return recurse(Scale(w), jnp.float32(1.0), jnp.float32(2.0), e, h_cycles=3, l_cycles=2)[0]

    def last_only(w_last, e_last):
        return by_hand(0.7, w_last, 1.0, 2.0, 3.0, e_last, 3, 2)[0]

    w, e = jnp.float32(0.7), jnp.float32(3.0)
    assert np.allclose(jax.grad(answer, (0, 1))(w, e), jax.grad(last_only, (0, 1))(w, e), rtol=1e-5)


def test_initial_states_get_gradient_only_with_a_single_cycle() -> None:
    def answer(z_h, h_cycles):
        return recurse(
            Scale(jnp.float32(0.7)), z_h, jnp.float32(2.0), jnp.float32(3.0), h_cycles=h_cycles, l_cycles=1
        )[0]

    assert jax.grad(answer)(jnp.float32(1.0), 2) == 0.0
    assert jax.grad(answer)(jnp.float32(1.0), 1) != 0.0
