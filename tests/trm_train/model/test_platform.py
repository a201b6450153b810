"""Implementations of a network for each platform: the same parameters, and the same results."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.support.scripts import load_script
from tests.trm_train.test_execution import detail_of, relative
from tests.trm_train.test_step import CONFIG, MODEL, SPEC
from trm_train.mesh import make_mesh
from trm_train.model import attention, networks
from trm_train.model.base import split
from trm_train.model.layers import look_up_by_product, look_up_by_scatter
from trm_train.model.networks import make_network

OTHERS = ("tpu", "cuda")


@pytest.mark.integration
@pytest.mark.parametrize("mixer", ["mlp_t", "attention"])
@pytest.mark.parametrize("name", OTHERS)
def test_a_step_gives_the_same_in_every_form(name: str, mixer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = dataclasses.replace(MODEL, mixer=mixer, pos_encodings="none" if mixer == "mlp_t" else "rope")
    config = dataclasses.replace(CONFIG, model=model)
    state, wanted, _ = detail_of(config)
    monkeypatch.setitem(networks.KERNELS, "cpu", networks.KERNELS[name])
    other, found, _ = detail_of.__wrapped__(config)
    assert jax.tree.structure(state.params) == jax.tree.structure(other.params)
    assert relative(wanted.logits, found.logits) < 1e-5
    assert relative(wanted.grads, found.grads) < 1e-5


@pytest.mark.integration
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("fixture", ["trm_parity_mlp_t", "trm_parity_attention_rope"])
def test_golden_numbers_hold_in_every_form(name: str, fixture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = Path(__file__).parents[2]
    check = load_script(tests / "parity" / "check.py")
    monkeypatch.setitem(networks.KERNELS, "cpu", networks.KERNELS[name])
    rows = list(check.check_fixture(str(tests / "fixtures" / f"{fixture}.npz")))
    assert len(rows) > 10
    assert [row.quantity for row in rows if not row.ok] == []


def test_a_form_leaves_the_parameters() -> None:
    assert networks.platform_of(None) == networks.platform_of(make_mesh()) == "cpu"
    network = make_network(MODEL, SPEC, rngs=nnx.Rngs(params=0, latents=0))
    before = jax.tree.map(lambda leaf: leaf.shape, split(network)[1])
    networks.compute_on(network, "tpu")
    assert jax.tree.map(lambda leaf: leaf.shape, split(network)[1]) == before
    assert not network.level.positions_first  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.integration
def test_splash_attention_is_attention_without_the_padding() -> None:
    """The TPU's kernel, interpreted: its results and the gradients of all its inputs."""
    keys = jax.random.split(jax.random.key(0), 4)
    length, width, heads = 300, 32, 2
    x = jax.random.normal(keys[0], (2, length, width))
    qkv = jax.random.normal(keys[1], (width, 3 * width)) * width**-0.5
    out = jax.random.normal(keys[2], (width, width)) * width**-0.5
    dy = jax.random.normal(keys[3], x.shape)

    def plain(x: Any, qkv: Any, out: Any) -> Any:
        parts = (x @ qkv).reshape(2, length, 3 * heads, width // heads)
        query, key, value = jnp.split(parts, 3, axis=2)
        cos, sin = attention.rope_tables(length, width // heads)
        query, key = attention.rotate(query, cos, sin), attention.rotate(key, cos, sin)
        return attention.written_out_attention(query, key, value).reshape(x.shape) @ out

    def splash(x: Any, qkv: Any, out: Any) -> Any:
        return attention.splash_attention(x, qkv, out, heads, rope=True, interpret=True)

    wanted, pull = jax.vjp(plain, x, qkv, out)
    found, pull_splash = jax.vjp(splash, x, qkv, out)
    for ours, theirs in zip((found, *pull_splash(dy)), (wanted, *pull(dy)), strict=True):
        assert np.allclose(ours, theirs, rtol=2e-3, atol=2e-3)


def test_the_derivative_of_a_lookup_adds_the_rows_of_each_token() -> None:
    table = jax.random.normal(jax.random.key(1), (5, 3))
    tokens = jnp.asarray([[0, 4, 4], [1, 4, 0]])
    dy = jax.random.normal(jax.random.key(2), (2, 3, 3))
    wanted, pull = jax.vjp(lambda table: look_up_by_scatter(table, tokens, "float32"), table)
    found, pull_product = jax.vjp(lambda table: look_up_by_product(table, tokens, "float32"), table)
    assert np.array_equal(found, wanted)
    assert np.allclose(pull_product(dy)[0], pull(dy)[0], atol=1e-6)
