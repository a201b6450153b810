import jax
import numpy as np
from flax import nnx

from trm_train.model.attention import Attention, rope_tables, rotate


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
