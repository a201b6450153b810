"""States as nested dictionaries: names follow from positions, and every leaf returns to its position."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import pytest

from tests.trm_train.test_loop import TINY
from trm_train.checkpoint.tree import CARRY_NAMES, choose_weights, state_from_tree, state_tree, weights_tree
from trm_train.config.optim import AdamWConfig
from trm_train.config.run import InputSpec
from trm_train.errors import CheckpointError
from trm_train.state import TrainState, abstract_weights, init_state

SPEC = InputSpec(sequence_length=4, vocabulary_size=6, num_identifiers=3)


def state_of(optim: Any = TINY.optim) -> TrainState:
    return init_state(dataclasses.replace(TINY, optim=optim), SPEC, 2)[1]


@pytest.fixture(scope="module")
def state() -> TrainState:
    return state_of()


def names_of(tree: Any) -> set[str]:
    paths = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths}


def test_names_are_those_of_the_first_format(state: TrainState) -> None:
    names = names_of(state_tree(state))
    assert {
        "params.lm_head.kernel",
        "ema.lm_head.kernel",
        "optimizer.m.lm_head.kernel",
        "optimizer.v.lm_head.kernel",
        "puzzle_table.rows",
        "fixed.h_init",
        "carry.z_h",
        "carry.steps",
        "carry.current.inputs",
        "step",
        "key",
    } <= names


@pytest.mark.parametrize("optim", [TINY.optim, AdamWConfig()])
def test_every_leaf_comes_back_to_its_place(optim: Any) -> None:
    state = state_of(optim)
    counter = iter(range(10_000))
    numbered = jax.tree.map(lambda _: next(counter), state)
    assert state_from_tree(state_tree(numbered), state) == numbered


def test_a_state_of_the_network_cannot_hide_the_carry(state: TrainState) -> None:
    for name in CARRY_NAMES:
        carry = dataclasses.replace(state.carry, states={name: state.step})
        with pytest.raises(CheckpointError, match=f"the network has a state {name}"):
            state_tree(dataclasses.replace(state, carry=carry))


def test_evaluation_knows_the_weights_without_an_optimizer(state: TrainState) -> None:
    _, weights = abstract_weights(TINY, SPEC)
    like, real = weights_tree(weights), weights_tree(state)
    assert names_of(like) == names_of(real)
    for shape, leaf in zip(jax.tree.leaves(like), jax.tree.leaves(real), strict=True):
        assert (shape.shape, shape.dtype) == (leaf.shape, leaf.dtype)


def test_averaged_or_raw(state: TrainState) -> None:
    tree = weights_tree(dataclasses.replace(state, ema=jax.tree.map(lambda leaf: leaf + 1, state.params)))
    assert choose_weights(tree, "ema").params is tree["ema"]
    assert choose_weights(tree, "raw").params is tree["params"]
    assert choose_weights(tree, "raw").puzzle_table is tree["puzzle_table"]["rows"]
