from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from trm_train.config.model import inner_width
from trm_train.config.run import InputSpec, ModelConfig
from trm_train.errors import ConfigError
from trm_train.model import layers
from trm_train.model.attention import Attention, rope_tables, rotate
from trm_train.model.base import merge, split, table_rows
from trm_train.model.blocks import TRM
from trm_train.model.layers import HALT_BIAS


def test_truncated_normal_has_the_stated_sd_and_is_cut_at_two() -> None:
    draws = np.asarray(layers.truncated_normal(jax.random.key(0), (200_000,), 0.3))
    assert draws.std() == pytest.approx(0.3, rel=1e-2)
    # Before rescaling the cut is at 2; a standard normal with this cut has standard deviation 0.8796.
    assert np.abs(draws).max() <= 0.3 * 2 / 0.8796 + 1e-3


@pytest.mark.parametrize(("width", "inner"), [(512, 1536), (96, 256)])
def test_inner_width(width: int, inner: int) -> None:
    assert inner_width(width, 4.0) == inner


def test_rms_norm_against_float64() -> None:
    x = np.random.default_rng(0).normal(size=(3, 5, 7)).astype(np.float32)
    for axis in (0, -1):
        wanted = x / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=axis, keepdims=True) + 1e-5)
        assert np.allclose(layers.rms_norm(jnp.asarray(x), axis), wanted, atol=1e-6)


def test_rms_norm_computes_in_float32() -> None:
    x = jnp.full((4, 512), 3e2, jnp.bfloat16)
    normed = layers.rms_norm(x)
    assert normed.dtype == jnp.bfloat16
    assert np.allclose(normed.astype(jnp.float32), 1.0)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("widths", [(3, 8), (8, 3)])
def test_the_written_derivative_is_that_of_the_product(axis: int, widths: tuple[int, int]) -> None:
    key_x, key_w, key_y = jax.random.split(jax.random.key(1), 3)
    shape = (widths[0], 4, 5) if axis == 0 else (4, 5, widths[0])
    x, kernel = jax.random.normal(key_x, shape), jax.random.normal(key_w, widths)
    plain = "io,ibd->obd" if axis == 0 else "lbi,io->lbo"
    y, pull = jax.vjp(lambda x, w: layers.product_for_cpu(x, w, axis), x, kernel)
    wanted, wanted_pull = jax.vjp(
        lambda x, w: jnp.einsum(plain, *((w, x) if axis == 0 else (x, w))), x, kernel
    )
    dy = jax.random.normal(key_y, wanted.shape)
    for ours, theirs in zip((y, *pull(dy)), (wanted, *wanted_pull(dy)), strict=True):
        assert np.allclose(ours, theirs, atol=1e-5)


def test_swiglu_over_the_first_axis_is_the_transposed_one() -> None:
    first = layers.SwiGLU(6, 4.0, axis=0, rngs=nnx.Rngs(params=0))
    last = layers.SwiGLU(6, 4.0, rngs=nnx.Rngs(params=0))
    x = jax.random.normal(jax.random.key(2), (6, 3, 4))
    assert np.allclose(first(x), jnp.moveaxis(last(jnp.moveaxis(x, 0, -1)), -1, 0), atol=1e-5)


def test_swiglu_gate_comes_first() -> None:
    mlp = layers.SwiGLU(2, 4.0, rngs=nnx.Rngs(params=0))
    x = jax.random.normal(jax.random.key(3), (5, 2))
    gate_up, down = np.asarray(mlp.gate_up.kernel[...]), np.asarray(mlp.down.kernel[...])
    gate, up = np.asarray(x) @ gate_up[:, :256], np.asarray(x) @ gate_up[:, 256:]
    assert np.allclose(mlp(x), (gate / (1 + np.exp(-gate)) * up) @ down, atol=1e-5)


SPEC = InputSpec(sequence_length=9, vocabulary_size=6, num_identifiers=5)


@pytest.mark.parametrize(
    ("ndim", "length", "positions"), [(None, 2, 2), (None, 0, 1), (0, 16, 0), (20, 0, 2), (16, 3, 3)]
)
def test_puzzle_positions(ndim: int | None, length: int, positions: int) -> None:
    config = ModelConfig(hidden_size=16, num_heads=2, puzzle_emb_ndim=ndim, puzzle_emb_len=length)
    assert config.puzzle_positions == positions


@pytest.mark.parametrize("mixer", ["mlp_t", "attention"])
@pytest.mark.parametrize("positions", ["none", "rope", "learned"])
@pytest.mark.parametrize("ndim", [None, 0, 20])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_model_runs_in_its_dtype(mixer: str, positions: str, ndim: int | None, dtype: str) -> None:
    config = ModelConfig(
        hidden_size=16,
        num_heads=2,
        h_cycles=1,
        l_cycles=1,
        mixer=mixer,
        pos_encodings=positions,
        puzzle_emb_ndim=ndim,
        puzzle_emb_len=2,
        forward_dtype=dtype,
    )

    def run(rows):
        network = TRM(config, SPEC, rngs=nnx.Rngs(params=0, latents=1))
        return network(network.initial_states(3), jnp.zeros((3, 9), jnp.int32), rows)

    rows = None if ndim == 0 else jax.ShapeDtypeStruct((3, ndim or 16), jnp.float32)
    outputs = jax.eval_shape(run, rows)
    assert outputs.states["z_h"].dtype == dtype
    assert outputs.logits.shape == (3, 9, 6)
    assert outputs.q_logits.dtype == jnp.float32


def test_initial_values_and_kinds() -> None:
    config = ModelConfig(hidden_size=64, num_heads=2, puzzle_emb_len=1)
    network = TRM(config, SPEC, rngs=nnx.Rngs(params=0, latents=1))
    definition, params, fixed, table = split(network)
    assert set(params) == {"embedding", "level", "lm_head", "q_head"}
    assert set(fixed) == {"h_init", "l_init"}
    assert np.all(params["q_head"]["bias"] == HALT_BIAS)
    assert HALT_BIAS == -5.0
    assert np.all(params["q_head"]["kernel"] == 0)
    assert table.shape == (128, 64)
    assert np.all(table == 0)
    assert params["level"]["block_0"]["mlp"]["gate_up"]["kernel"].std() == pytest.approx(1 / 8, rel=0.05)
    assert not np.allclose(fixed["h_init"], fixed["l_init"])
    again = merge(definition, params, fixed, table)
    assert np.array_equal(again.h_init[...], network.h_init[...])


def test_table_rows_are_padded_to_a_fixed_multiple() -> None:
    assert [table_rows(n) for n in (1, 128, 129)] == [128, 128, 256]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"num_heads": 7, "mixer": "attention"}, "num_heads"),
        ({"puzzle_emb_ndim": 2048, "puzzle_emb_len": 1}, "puzzle_emb_ndim"),
        ({"h_cycles": 0}, "h_cycles"),
    ],
)
def test_models_that_cannot_run_are_refused(change: dict, key: str) -> None:
    with pytest.raises(ConfigError, match=f"model.{key}"):
        ModelConfig(**change).check()


def test_rope_turns_pairs_of_the_two_halves() -> None:
    cos, sin = rope_tables(3, 4)
    x = np.zeros((1, 3, 1, 4), np.float32)
    x[..., 0] = 1.0
    turned = np.asarray(rotate(jax.numpy.asarray(x), cos, sin))
    for t in range(3):
        assert np.allclose(turned[0, t, 0], [np.cos(t), 0.0, np.sin(t), 0.0], atol=1e-6)
    assert np.allclose(cos[2, 1], np.cos(2 * 10_000**-0.5))


def test_attention_against_numpy() -> None:
    attention = Attention(8, 2, rope=False, rngs=nnx.Rngs(params=0))
    x = np.asarray(jax.random.normal(jax.random.key(0), (2, 5, 8)))
    qkv = x @ np.asarray(attention.qkv.kernel[...])
    heads = [part.reshape(2, 5, 2, 4) for part in np.split(qkv, 3, axis=-1)]
    query, key, value = heads
    scores = np.exp(np.einsum("blhk,bmhk->bhlm", query, key) / 2.0)
    weights = scores / scores.sum(-1, keepdims=True)
    mixed = np.einsum("bhlm,bmhk->blhk", weights, value).reshape(2, 5, 8)
    assert np.allclose(
        attention(jax.numpy.asarray(x)), mixed @ np.asarray(attention.out.kernel[...]), atol=1e-5
    )
