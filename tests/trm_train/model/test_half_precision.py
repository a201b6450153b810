"""In bfloat16 and float16, derivatives that add many rows add them in float32, and SwiGLU multiplies in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from trm_train.config.model import ModelConfig
from trm_train.model.layers import HaltHead, InputEmbedding, gated
from trm_train.model.window import WindowAttention

ROWS, CELLS, VOCABULARY, WIDTH = 6_144, 16, 5, 8
HALVES = ("bfloat16", "float16")


def weighted(y: jax.Array) -> jax.Array:
    """Return a sum whose derivative has one sign and many sizes: adding it loses small terms."""
    weights = jnp.linspace(0.5, 1.5, y.size, dtype=jnp.float32)
    return jnp.sum(y.astype(jnp.float32) * weights.reshape(y.shape))


def gradients(module: nnx.Module, forward: Callable[[Any], jax.Array]) -> dict[str, jax.Array]:
    """Return the gradient of `weighted(forward(module))` by parameter."""
    definition, params, rest = nnx.split(module, nnx.Param, ...)
    gradient = jax.jit(jax.grad(lambda params: weighted(forward(nnx.merge(definition, params, rest)))))
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree.leaves_with_path(gradient(params))}


def error(found: jax.Array, wanted: jax.Array) -> float:
    """Return the relative error of a gradient."""
    return float(jnp.linalg.norm(found.astype(jnp.float32) - wanted) / jnp.linalg.norm(wanted))


@pytest.mark.parametrize("scatters", [True, False])
@pytest.mark.parametrize("dtype", HALVES)
def test_token_and_position_embeddings(dtype: Any, scatters: bool) -> None:
    tokens = jax.random.randint(jax.random.key(1), (ROWS, CELLS), 0, VOCABULARY)
    rows = jax.random.normal(jax.random.key(2), (ROWS, WIDTH))

    def found(dtype: Any) -> dict[str, jax.Array]:
        config = ModelConfig(hidden_size=WIDTH, num_heads=1, puzzle_emb_len=1, forward_dtype=dtype)
        module = InputEmbedding(config, CELLS, VOCABULARY, learned_positions=True, rngs=nnx.Rngs(params=0))
        module.scatters = scatters
        return gradients(module, lambda module: module(tokens, rows))

    half, wanted = found(dtype), found("float32")
    assert len(wanted) == 2
    for name, gradient in half.items():
        assert gradient.dtype == jnp.float32
        assert error(gradient, wanted[name]) < 0.01


@pytest.mark.parametrize("dtype", HALVES)
def test_the_halting_head(dtype: Any) -> None:
    z = jax.random.normal(jax.random.key(1), (ROWS, WIDTH)) + 1
    half = gradients(HaltHead(WIDTH), lambda head: head(z.astype(dtype)))
    wanted = gradients(HaltHead(WIDTH), lambda head: head(z))
    assert len(wanted) == 2
    assert max(error(half[name], wanted[name]) for name in wanted) < 0.01


@pytest.mark.integration
@pytest.mark.parametrize("dtype", HALVES)
def test_the_shifts_of_the_window_mixer(dtype: Any) -> None:
    grid = (24, 24)
    qkv = jax.random.normal(jax.random.key(1), (3, 1, 1 + grid[0] * grid[1], 1, WIDTH)) + 0.5
    attention = WindowAttention(
        WIDTH, 1, rope=False, puzzle_positions=1, grid=grid, distance=12, rngs=nnx.Rngs(params=0)
    )
    half, wanted = (
        jax.jit(jax.grad(lambda qkv: weighted(attention.mix(*qkv))))(qkv.astype(each))
        for each in (dtype, "float32")
    )
    for one, other in zip(half, wanted, strict=True):
        assert error(one, other) < 0.01


@pytest.mark.parametrize("dtype", HALVES)
def test_the_gate_of_swiglu_is_rounded_once(dtype: Any) -> None:
    gate, up = jax.random.normal(jax.random.key(1), (2, 4_096)).astype(dtype)
    wanted = jax.nn.silu(gate.astype(jnp.float32)) * up.astype(jnp.float32)
    assert (gated(gate, up) == wanted.astype(dtype)).all()
