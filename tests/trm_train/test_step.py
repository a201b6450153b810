"""Training and evaluation steps on a small model: learning, halting, counting."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trm_train.config.data import DataConfig
from trm_train.config.run import InputSpec, ModelConfig, OptimConfig, RunConfig
from trm_train.mesh import jit_train_step, make_mesh
from trm_train.model.published import weights_from_published, weights_to_published
from trm_train.state import TrainState, Weights, eval_weights, init_state
from trm_train.step.evaluate import make_eval_step
from trm_train.step.train import make_train_step

BATCH = 8
SPEC = InputSpec(sequence_length=9, vocabulary_size=6, num_identifiers=5)
MODEL = ModelConfig(
    hidden_size=16,
    num_heads=2,
    num_layers=1,
    h_cycles=2,
    l_cycles=1,
    halt_max_steps=3,
    puzzle_emb_len=1,
    forward_dtype="float32",
)
CONFIG = RunConfig(
    data=DataConfig(dataset="made-up", global_batch_size=BATCH),
    model=MODEL,
    optim=OptimConfig(lr=1e-2, lr_warmup_steps=0, puzzle_emb_lr=1e-2, ema_rate=0.5, weight_decay=0.1),
    total_steps=10,
)


def make_batch(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "inputs": rng.integers(1, 6, (BATCH, 9)).astype(np.uint8),
        "labels": rng.integers(2, 6, (BATCH, 9)).astype(np.uint8),
        "puzzle_identifiers": rng.integers(0, 3, BATCH).astype(np.int32),
    }


def prepare(config: RunConfig) -> tuple[Any, TrainState, Any]:
    """Return the model, the first state and the step."""
    model, first = init_state(config, SPEC, BATCH)
    return model, first, jax.jit(make_train_step(config, SPEC, model))


prepare_once = functools.cache(prepare)
"""Traced once, because most tests train the same configuration. The step donates nothing, so states remain valid."""


def train(
    config: RunConfig, steps: int, prepare: Callable[[RunConfig], tuple[Any, TrainState, Any]] = prepare_once
) -> tuple[TrainState, TrainState, list[dict[str, float]]]:
    """Return the first state, the last, and the metrics of every step."""
    _, first, step = prepare(config)
    state, history = first, []
    for t in range(steps):
        state, metrics = step(state, make_batch(t))
        history.append({name: value.item() for name, value in metrics.items()})
    return first, state, history


def changed(a: object, b: object) -> bool:
    return any(not np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_what_learns_and_what_does_not() -> None:
    first, last, _ = train(CONFIG, 2)
    for name in ("params", "ema", "puzzle_table", "carry"):
        assert changed(getattr(first, name), getattr(last, name)), name
    assert not changed(first.fixed, last.fixed)
    assert not changed(first.key, last.key)
    assert last.step == 2
    assert last.opt_state.count == 2
    assert np.all(last.puzzle_table[3:] == 0)
    assert np.any(last.puzzle_table[:3] != 0)
    kernels = jax.tree.leaves(jax.tree.map(lambda a, b: bool(np.any(a != b)), first.params, last.params))
    assert all(kernels)


def test_initial_ema_is_a_copy_and_follows_the_parameters() -> None:
    first, last, _ = train(CONFIG, 1)
    assert not changed(first.params, first.ema)
    wanted = jax.tree.map(lambda a, b: 0.5 * a + 0.5 * b, first.params, last.params)
    for e, w in zip(jax.tree.leaves(last.ema), jax.tree.leaves(wanted), strict=True):
        assert np.allclose(e, w, atol=1e-7)
    assert eval_weights(last).params is last.ema


def test_frozen_weights_leave_only_the_puzzle_embedding_learning() -> None:
    config = dataclasses.replace(CONFIG, optim=dataclasses.replace(CONFIG.optim, freeze_weights=True))
    first, last, _ = train(config, 2)
    assert not changed((first.params, first.ema), (last.params, last.ema))
    assert changed(first.puzzle_table, last.puzzle_table)


def test_slots_halt_at_the_limit_and_the_carry_keeps_their_labels() -> None:
    first, last, history = train(CONFIG, 2)
    assert np.all(first.carry.halted)
    assert [metrics["count"] for metrics in history] == [0, 0]  # q_head starts at -5
    assert np.array_equal(last.carry.current["labels"], make_batch(0)["labels"])
    assert np.all(last.carry.steps == 2)
    _, last, history = train(CONFIG, 4)
    assert [metrics["count"] for metrics in history] == [0, 0, BATCH, 0]
    assert history[2]["steps"] == 3 * BATCH
    assert np.array_equal(last.carry.current["labels"], make_batch(3)["labels"])


def test_slots_may_take_more_steps_as_training_goes_on() -> None:
    """Maximum 1, then 2, then 3 steps, for a third of the training each; all in one program."""
    model = dataclasses.replace(MODEL, halt_first_max_steps=1, halt_exploration_prob=0.0)
    _, _, history = train(dataclasses.replace(CONFIG, model=model, total_steps=9), 9)
    assert [metrics["count"] for metrics in history] == [BATCH, BATCH, BATCH, 0, BATCH, 0, 0, BATCH, 0]
    assert [metrics["steps"] for metrics in history if metrics["count"]] == [
        BATCH * steps for steps in (1, 1, 1, 2, 3)
    ]


def test_a_model_without_puzzle_positions_has_no_table() -> None:
    model = dataclasses.replace(MODEL, puzzle_emb_ndim=0)
    _, last, history = train(dataclasses.replace(CONFIG, model=model), 1)
    assert last.puzzle_table is None
    assert last.carry.states["z_h"].shape == (BATCH, 9, 16)
    assert np.isfinite(history[0]["lm_loss"])


@pytest.mark.integration
def test_bfloat16_stays_finite_and_keeps_float32_parameters() -> None:
    config = dataclasses.replace(CONFIG, model=dataclasses.replace(MODEL, forward_dtype="bfloat16"))
    _, last, _history = train(config, 3)
    assert last.carry.states["z_h"].dtype == jnp.bfloat16
    assert {leaf.dtype for leaf in jax.tree.leaves(last.params)} == {np.dtype("float32")}
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(last.params))


@pytest.mark.integration
def test_the_step_over_a_mesh_donates_its_state() -> None:
    mesh = make_mesh()
    model, state = init_state(CONFIG, SPEC, BATCH, mesh)
    step = jit_train_step(make_train_step(CONFIG, SPEC, model), mesh, state)
    new, metrics = step(state, make_batch(0))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves((state.params, state.opt_state, state.ema)))
    _, plain, _ = train(CONFIG, 1)
    assert np.allclose(new.carry.states["z_h"], plain.carry.states["z_h"], atol=1e-6)
    assert metrics["count"] == 0


def certain_weights(state: TrainState) -> Weights:
    """Return weights that would halt at once if evaluation halted."""
    bias = jnp.full((2,), 9.0)
    params = state.params | {"q_head": state.params["q_head"] | {"bias": bias}}
    return Weights(params=params, fixed=state.fixed, puzzle_table=state.puzzle_table)


@pytest.fixture(scope="module")
def trained() -> tuple[object, TrainState]:
    return prepare_once(CONFIG)[0], train(CONFIG, 3)[1]


def test_evaluation_runs_every_step_and_never_halts(trained: tuple) -> None:
    model, state = trained
    step = jax.jit(make_eval_step(CONFIG, SPEC, model, return_logits=True))
    outputs = step(certain_weights(state), make_batch(9))
    assert outputs.q_halt_by_step.shape == (3, BATCH)
    assert np.all(outputs.q_halt_by_step > 0)
    assert outputs.metrics["steps"] == 3 * BATCH
    assert outputs.metrics["count"] == BATCH
    shorter = jax.jit(make_eval_step(CONFIG, SPEC, model, steps=2, return_logits=True))
    assert not np.allclose(shorter(certain_weights(state), make_batch(9)).logits, outputs.logits)
    assert np.array_equal(outputs.q_halt_by_step[-1], outputs.q_halt_logits)
    assert np.array_equal(outputs.predictions, np.argmax(outputs.logits, -1))


def test_padded_rows_do_not_change_an_evaluation(trained: tuple) -> None:
    model, state = trained
    step = jax.jit(make_eval_step(CONFIG, SPEC, model))
    batch = make_batch(9)
    weight = np.arange(BATCH) < 5
    padded = step(eval_weights(state), batch | {"weight": weight})
    batch["labels"][5:], batch["inputs"][5:] = 2, 0
    other_padding = step(eval_weights(state), batch | {"weight": weight})
    assert padded.metrics["count"] == 5
    assert padded.logits is None
    assert {k: v.item() for k, v in padded.metrics.items()} == {
        k: v.item() for k, v in other_padding.metrics.items()
    }


def test_published_names_and_back(trained: tuple) -> None:
    _, state = trained
    tensors = weights_to_published(MODEL, SPEC, state.params, state.fixed, state.puzzle_table)
    assert tensors["inner.puzzle_emb.weights"].shape == (5, 16)
    assert tensors["inner.lm_head.weight"].shape == (6, 16)
    prefixed = {f"_orig_mod.model.{name}": value for name, value in tensors.items()}
    again = weights_from_published(MODEL, SPEC, prefixed)
    assert not changed(again, (state.params, state.fixed, state.puzzle_table))


def test_slots_without_labels_halt_too() -> None:
    _, state, step = prepare_once(CONFIG)
    for t in range(3):  # at the third step all slots halt
        batch = make_batch(t)
        batch["labels"][:3] = 0
        state, metrics = step(state, batch)
    assert (metrics["halted_slots"].item(), metrics["count"].item()) == (BATCH, BATCH - 3)
