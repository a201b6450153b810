"""Every architecture of this package: it trains, counts its operations, and matches its definition."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.trm_train.model.test_networks import BATCH, CONFIG, SPEC, make_batch
from trm_train.config.model import (
    BlocksConfig,
    HRMConfig,
    ModelConfig,
    NetworkConfig,
    SingleZConfig,
    TransformerConfig,
)
from trm_train.config.optim import LossConfig
from trm_train.config.run import RunConfig, check_config, effective_identity, identity_hash
from trm_train.cost import cost_of, count_network
from trm_train.errors import ConfigError
from trm_train.model.base import merge
from trm_train.objective import log_probabilities
from trm_train.state import init_state
from trm_train.step.train import make_train_step

SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "num_heads": 2,
    "puzzle_emb_len": 1,
    "halt_max_steps": 3,
    "halt_exploration_prob": 0.0,
    "forward_dtype": "float32",
}
CYCLES: dict[str, Any] = {**SMALL, "num_layers": 1, "h_cycles": 2, "l_cycles": 2}
TRM = ModelConfig(**CYCLES)
VARIANTS: dict[str, BlocksConfig] = {
    "two networks": dataclasses.replace(TRM, networks=2),
    "one-step gradient": dataclasses.replace(TRM, gradient="one_step"),
    "multi-scale": dataclasses.replace(TRM, multi_scale=True),
    "single z": SingleZConfig(**CYCLES),
    "hrm": HRMConfig(**CYCLES),
    "transformer": TransformerConfig(**SMALL, num_layers=2),
    "transformer with mlp_t": TransformerConfig(**SMALL, num_layers=2, mixer="mlp_t", pos_encodings="none"),
    "trm with learned positions": dataclasses.replace(TRM, mixer="attention", pos_encodings="learned"),
    "single z with attention": SingleZConfig(**CYCLES, mixer="attention", pos_encodings="rope"),
}


def configured(model: NetworkConfig, **changes: Any) -> RunConfig:
    return dataclasses.replace(CONFIG, model=model, **changes)


@functools.cache
def first_step(config: RunConfig) -> Any:
    """Return metrics and detail of the first training step, and the state after it."""
    definition, state = init_state(config, SPEC, BATCH)
    return jax.jit(make_train_step(config, SPEC, definition, with_detail=True))(state, make_batch(0))


@pytest.mark.integration
@pytest.mark.parametrize("name", VARIANTS)
def test_every_parameter_and_state_moves(name: str) -> None:
    config = configured(VARIANTS[name])
    check_config(config)
    _, before = init_state(config, SPEC, BATCH)
    after, metrics, detail = first_step(config)
    assert np.isfinite(metrics["lm_loss"])
    for tree, other in ((before.params, after.params), (before.carry.states, after.carry.states)):
        moved = jax.tree.map(lambda a, b: bool(np.any(a != b)), tree, other)
        assert all(jax.tree.leaves(moved)), moved
    assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(detail.grads))
    assert set(jax.tree.leaves(jax.tree.map(lambda x: x.dtype, after.carry.states))) == {jnp.dtype("float32")}


@pytest.mark.integration
@pytest.mark.parametrize("name", ["multi-scale", "single z", "hrm", "transformer"])
def test_recomputing_the_states_gives_the_same_gradient(name: str) -> None:
    config = configured(VARIANTS[name])
    execution = dataclasses.replace(config.execution, rematerialise=True)
    _, _, kept = first_step(config)
    _, _, again = first_step(dataclasses.replace(config, execution=execution))
    for a, b in zip(jax.tree.leaves(kept.grads), jax.tree.leaves(again.grads), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-6)


def test_operations_follow_the_number_of_updates() -> None:
    counted = {name: count_network(model, SPEC) for name, model in VARIANTS.items()}
    trm = count_network(TRM, SPEC)
    flops = {name: one.flops for name, one in counted.items()}
    assert trm.flops is not None
    update = trm.flops.think / 6
    assert flops["two networks"] == trm.flops == flops["multi-scale"]
    one_step = flops["one-step gradient"]
    assert one_step is not None
    assert (one_step.think, one_step.gradient) == (6 * update, 2 * update)
    single, plain = flops["single z"], flops["transformer with mlp_t"]
    assert single is not None
    assert plain is not None
    assert (single.think, single.gradient) == (6 * update, 3 * update)
    assert (plain.think, plain.gradient) == (2 * update, 2 * update)  # one pass through two layers
    assert counted["two networks"].parameters > trm.parameters == counted["single z"].parameters
    assert all(cost_of(configured(model), SPEC) is not None for model in VARIANTS.values())


@pytest.mark.integration
def test_heads_that_do_not_divide_the_width_are_narrower() -> None:
    _, state = init_state(configured(TransformerConfig(hidden_size=20, num_heads=3)), SPEC, BATCH)
    block = state.params["level"]["block_0"]["attention"]
    assert block["qkv"]["kernel"].shape == (20, 3 * 3 * 6)
    assert block["out"]["kernel"].shape == (3 * 6, 20)


def test_defaults_leave_the_identity_of_a_configuration_as_it_was() -> None:
    assert not any(key.startswith("loss") for key in effective_identity(configured(ModelConfig())))
    names = {identity_hash(configured(model)) for model in (TRM, *VARIANTS.values())}
    assert len(names) == len(VARIANTS) + 1
    assert effective_identity(configured(VARIANTS["hrm"]))["model.architecture"] == "hrm"


@pytest.mark.integration
def test_softmax_is_the_cross_entropy_of_logits() -> None:
    logits = jnp.asarray([[0.5, -1.0, 2.0]])
    wanted = logits - jnp.log(jnp.sum(jnp.exp(logits), axis=-1, keepdims=True))
    np.testing.assert_allclose(log_probabilities(logits, "softmax"), wanted, rtol=1e-6)
    plain, softmax = (
        first_step(configured(TRM, loss=LossConfig(cells=cells)))[2] for cells in ("stablemax", "softmax")
    )
    labels = make_batch(0)["labels"].astype(np.int32)
    log_p = jax.nn.log_softmax(softmax.logits, axis=-1)
    by_hand = -np.take_along_axis(np.asarray(log_p), labels[..., None], axis=-1)[..., 0].mean(axis=1)
    np.testing.assert_allclose(softmax.losses.lm, by_hand, rtol=1e-5)
    assert np.any(softmax.losses.lm != plain.losses.lm)


@pytest.mark.integration
def test_cycle_consistency_is_the_squared_change_of_the_answer_over_the_last_cycle() -> None:
    weight = 0.5
    plain = first_step(configured(TRM))[2]
    with_it = first_step(configured(TRM, loss=LossConfig(cycle_consistency=weight)))[2]
    config = configured(TRM)
    one_cycle = dataclasses.replace(TRM, h_cycles=1)
    definition, state = init_state(config, SPEC, BATCH)
    shorter, _ = init_state(configured(one_cycle), SPEC, BATCH)
    inputs = jnp.asarray(make_batch(0)["inputs"], jnp.int32)
    rows = jnp.zeros((BATCH, 16))

    def answer(of: Any) -> Any:
        network = merge(of, state.params, state.fixed, state.puzzle_table)
        return network.think(network.initial_states(BATCH), inputs, rows)["z_h"]

    change = np.mean(np.square(np.asarray(answer(definition) - answer(shorter))), axis=(1, 2))
    np.testing.assert_allclose(with_it.loss - plain.loss, weight * change.sum(), rtol=1e-3)
    assert np.any(with_it.grads["level"]["block_0"]["mlp"]["down"]["kernel"] != 0)


def test_supervision_decay_weights_later_steps_of_an_example_less() -> None:
    config = configured(TRM, loss=LossConfig(supervision_decay=0.5))
    definition, state = init_state(config, SPEC, BATCH)
    step = jax.jit(make_train_step(config, SPEC, definition, with_detail=True))
    for taken in range(2):
        state, _, detail = step(state, make_batch(taken))
        unweighted = float(detail.losses._replace(weight=None).total())
        assert float(detail.loss) == pytest.approx(0.5**taken * unweighted, rel=1e-5)


@pytest.mark.parametrize(
    ("config", "key", "value"),
    [
        (configured(dataclasses.replace(TRM, gradient="none")), "model.gradient", "none"),
        (configured(dataclasses.replace(TRM, mixer="gru")), "model.mixer", "gru"),
        (configured(TRM, loss=LossConfig(supervision_decay=1.5)), "loss.supervision_decay", "1.5"),
        (
            configured(VARIANTS["transformer"], loss=LossConfig(cycle_consistency=1.0)),
            "loss.cycle_consistency",
            "transformer",
        ),
        (configured(TransformerConfig(hidden_size=8, num_heads=9)), "model.num_heads", "9"),
        (configured(HRMConfig(hidden_size=16, num_heads=3)), "model.num_heads", "3"),
    ],
)
def test_impossible_configurations_name_key_and_value(config: RunConfig, key: str, value: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_config(config)
    assert key in str(error.value)
    assert value in str(error.value)
