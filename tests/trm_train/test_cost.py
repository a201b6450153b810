"""Counts of networks and of runs."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import jax
import pytest
from flax import nnx

from tests.trm_train.model.test_networks import MODEL as ONE_STATE
from tests.trm_train.model.test_networks import OneState
from tests.trm_train.test_loop import TINY
from trm_train.config.model import ModelConfig
from trm_train.config.run import InputSpec
from trm_train.cost import cost_of, flops_by_stage, parameters_of
from trm_train.experiments.registry import find_experiment
from trm_train.model.networks import NETWORKS, make_network

SPEC = InputSpec(sequence_length=81, vocabulary_size=11, num_identifiers=1)


def test_the_published_networks_have_their_published_size() -> None:
    """5.03M and 6.8M parameters, 42.7 GFLOP per example and step (REFERENCE.md)."""
    mlp_t, attention = (find_experiment(name).make() for name in ("trm_sudoku_mlp", "trm_maze"))
    assert parameters_of(mlp_t.model, SPEC) == 5_028_866
    assert parameters_of(attention.model, SPEC) == 6_828_034
    cost = cost_of(mlp_t, SPEC)
    assert cost is not None
    assert cost.example_flops == 42_721_723_392


def test_a_network_of_another_package_has_parameters_and_no_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(NETWORKS, "one_state", OneState)
    config = dataclasses.replace(TINY, model=ONE_STATE)
    network = make_network(ONE_STATE, SPEC, rngs=nnx.Rngs(params=0, latents=0))
    counted = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(network, nnx.Param)))
    assert parameters_of(ONE_STATE, SPEC) == counted
    assert cost_of(config, SPEC) is None
    assert flops_by_stage(config, SPEC) is None


def test_counting_asks_no_device() -> None:
    """jax fails for a missing platform; counting imports it only where a network is made."""
    program = (
        "import os, sys; os.environ['JAX_PLATFORMS'] = 'tpu'\n"
        "import trm_train.runs.record, trm_train.batch\n"
        "from trm_train.cost import parameters_of\n"
        "assert 'jax' not in sys.modules\n"
        "from trm_train.config.run import InputSpec, ModelConfig\n"
        f"print(parameters_of(ModelConfig(), {SPEC!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout.split() == [str(parameters_of(ModelConfig(), SPEC))]
