"""Ways to execute the same step: in microbatches, with recomputation, in float16, in stages of recursion."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.trm_train.test_step import BATCH, CONFIG, MODEL, SPEC, changed, make_batch, prepare, train
from trm_train import optim
from trm_train.config.data import DataConfig
from trm_train.config.run import (
    ExecutionConfig,
    InputSpec,
    ModelConfig,
    RunConfig,
    check_config,
    config_from_json,
    config_to_json,
)
from trm_train.config.values import Curriculum
from trm_train.errors import ConfigError
from trm_train.mesh import make_mesh
from trm_train.optim import Scaled
from trm_train.state import TrainState, init_state
from trm_train.step.compile import CompiledStep, Given, bytes_refused, cached_pieces, compile_train_step
from trm_train.step.train import Detail, make_train_step


@functools.cache
def detail_of(config: RunConfig, steps: int = 3) -> tuple[TrainState, Detail, dict[str, Any]]:
    """Return the state after some steps, and the intermediate values of the last step."""
    model, state = init_state(config, SPEC, BATCH)
    step = jax.jit(make_train_step(config, SPEC, model, with_detail=True))
    for t in range(steps):
        state, metrics, detail = step(state, make_batch(t))
    return state, detail, metrics


def relative(a: Any, b: Any) -> float:
    """Return the norm of the difference of two trees, divided by the norm of the first."""
    difference = jax.tree.leaves(jax.tree.map(lambda x, y: jnp.sum(jnp.square(x - y)), a, b))
    return float(jnp.sqrt(sum(difference) / sum(jnp.sum(jnp.square(x)) for x in jax.tree.leaves(a))))


def carried_out(**execution: Any) -> RunConfig:
    return dataclasses.replace(CONFIG, execution=ExecutionConfig(**execution))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("mixer", "no_act_continue", "each"),
    [
        ("mlp_t", True, (2, 8)),
        pytest.param("attention", False, (4,), marks=pytest.mark.slow),
        pytest.param("mlp_t", False, (2, 4, 8), marks=pytest.mark.slow),
        pytest.param("attention", True, (2, 4, 8), marks=pytest.mark.slow),
    ],
)
def test_the_gradient_of_micro_batches_is_that_of_the_batch(
    mixer: str, no_act_continue: bool, each: tuple[int, ...]
) -> None:
    model = dataclasses.replace(MODEL, mixer=mixer, no_act_continue=no_act_continue)
    whole, once, metrics = detail_of(dataclasses.replace(CONFIG, model=model), 1)
    for pieces in each:
        config = dataclasses.replace(carried_out(micro_batches=pieces), model=model)
        parts, several, same = detail_of(config, 1)
        assert relative(once.grads, several.grads) < 1e-6
        assert relative(once.row_grads, several.row_grads) < 3e-6  # of a slot each, so not summed over slots
        assert np.allclose(once.logits, several.logits, atol=1e-6)
        assert np.array_equal(whole.carry.current["labels"], parts.carry.current["labels"])
        assert np.array_equal(whole.carry.halted, parts.carry.halted)
        assert np.allclose(whole.carry.states["z_h"], parts.carry.states["z_h"], atol=1e-5)
        assert float(metrics["lm_loss"]) == pytest.approx(float(same["lm_loss"]), rel=1e-6)


@pytest.mark.integration
def test_recomputed_states_give_the_same_gradient() -> None:
    _, kept, _ = detail_of(CONFIG, 1)
    _, again, _ = detail_of(carried_out(rematerialise=True), 1)
    assert relative(kept.grads, again.grads) < 1e-6


@pytest.mark.integration
def test_deep_recursion_fits_where_states_are_computed_again() -> None:
    """The temporaries of the compiled step at L 24 with recomputation are below 1.3 times those at L 6 without."""
    spec = InputSpec(sequence_length=81, vocabulary_size=11, num_identifiers=1)

    def temporaries(l_cycles: int, *, rematerialise: bool) -> int:
        model = ModelConfig(
            hidden_size=32, h_cycles=2, l_cycles=l_cycles, forward_dtype="float32", num_layers=1
        )
        config = RunConfig(
            data=DataConfig(dataset="x", global_batch_size=32),
            model=model,
            total_steps=3000,
            execution=ExecutionConfig(rematerialise=rematerialise),
        )
        compiled, _, _ = compile_train_step(config, spec, make_mesh())
        assert compiled.memory_bytes is not None
        return compiled.memory_bytes["temporaries"]

    shallow, deep = temporaries(6, rematerialise=False), temporaries(24, rematerialise=True)
    assert deep < 1.3 * shallow


@pytest.mark.integration
def test_auto_takes_the_fewest_microbatches_that_fit() -> None:
    config = carried_out(micro_batches="auto")
    assert config_from_json(config_to_json(config)) == config
    whole, _, _ = compile_train_step(config, SPEC, make_mesh())
    assert whole.micro_batches == 1
    assert whole.peak_bytes is not None
    limit = whole.peak_bytes - 1
    fitting, _, _ = compile_train_step(config, SPEC, make_mesh(), limit_bytes=limit)
    assert fitting.micro_batches == 2
    assert fitting.peak_bytes is not None
    assert fitting.peak_bytes <= limit


@pytest.mark.integration
def test_auto_refuses_what_fits_in_no_number_of_microbatches() -> None:
    with pytest.raises(ConfigError, match=rf"in {BATCH} microbatches .* too much; expected at most 0.0 GB"):
        compile_train_step(carried_out(micro_batches="auto"), SPEC, make_mesh(), limit_bytes=1_000)


def test_a_tpu_compilers_refusal_says_how_much_is_needed() -> None:
    said = "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 45.5G of 31.25G hbm. Exceeded by"
    assert bytes_refused(RuntimeError(said)) == (int(45.5 * 2**30), int(31.25 * 2**30))
    said = "total memory required for HLO temporaries (39.88G) exceeds available HBM (30.75G)."
    assert bytes_refused(RuntimeError(said)) == (int(39.88 * 2**30), int(30.75 * 2**30))
    assert bytes_refused(RuntimeError("INTERNAL: no")) is None


HALF = dataclasses.replace(CONFIG, model=dataclasses.replace(MODEL, forward_dtype="float16"))


@pytest.mark.integration
def test_float16_follows_float32_for_some_steps() -> None:
    _, full, _ = detail_of(CONFIG, 1)
    state, half, _ = detail_of(HALF, 1)
    assert isinstance(state.opt_state, Scaled)
    assert state.opt_state.skipped == 0
    assert relative(full.grads, half.grads) < 0.02
    _, last, history = train(HALF, 4)
    assert last.carry.states["z_h"].dtype == jnp.float16
    assert all(np.isfinite(metrics["lm_loss"]) for metrics in history)
    assert changed(last.params, last.ema)


@pytest.mark.integration
def test_float16_finds_gradients_that_it_could_not_hold() -> None:
    """A loss so small that its gradients are zero in float16 without a scale."""
    small = dataclasses.replace(HALF, data=dataclasses.replace(HALF.data, global_batch_size=BATCH))
    _, half, _ = detail_of(small, 1)
    assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(half.grads["level"]))


@pytest.mark.integration
def test_a_step_that_overflows_teaches_nothing_and_halves_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optim, "FIRST_SCALE", 2.0**40)
    monkeypatch.setattr(optim, "LARGEST_SCALE", 2.0**40)
    first, last, history = train(HALF, 1, prepare)
    assert last.opt_state.skipped == 1
    assert last.opt_state.scale == 2.0**39
    moments, before = last.opt_state.inner, first.opt_state.inner
    assert not changed(
        (first.params, first.ema, first.puzzle_table, before.m, before.v),
        (last.params, last.ema, last.puzzle_table, moments.m, moments.v),
    )
    assert moments.count == 1  # rates follow the steps of the run
    assert last.step == 1
    assert np.isfinite(history[0]["lm_loss"])
    assert np.array_equal(last.carry.steps, np.ones(BATCH))


@pytest.mark.integration
def test_the_scale_grows_after_many_good_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optim, "GROWTH_STEPS", 2)
    _, last, _ = train(HALF, 5, prepare)
    assert last.opt_state.scale == optim.FIRST_SCALE * 4
    assert last.opt_state.good_steps == 1


STAGED = dataclasses.replace(
    CONFIG,
    model=dataclasses.replace(
        MODEL, h_cycles=2, l_cycles=2, curriculum=Curriculum(0.5, ((1, 1), (2, 1), (2, 2)))
    ),
    total_steps=12,
)


@pytest.fixture(scope="module")
def staged() -> tuple[CompiledStep, TrainState]:
    """The program of each stage, and the state before the first step; a step donates the state, so copy it."""
    compiled, _, _ = compile_train_step(STAGED, SPEC, make_mesh())
    return compiled, init_state(STAGED, SPEC, BATCH, make_mesh())[1]


@pytest.mark.integration
def test_a_curriculum_has_a_program_for_each_stage(staged: tuple[CompiledStep, TrainState]) -> None:
    compiled, _ = staged
    assert [end for end, _ in compiled.stages] == [2, 4, 12]
    programs = [program for _, program in compiled.stages]
    taken = [programs.index(compiled.at(step)) for step in range(1, 14)]
    assert taken == [0, 0, 1, 1, *[2] * 9]


@pytest.mark.integration
def test_a_stage_is_the_step_of_its_cycles(staged: tuple[CompiledStep, TrainState]) -> None:
    compiled, state = staged
    for stage, (h_cycles, l_cycles) in zip(range(3), [(1, 1), (2, 1), (2, 2)], strict=True):
        plain = dataclasses.replace(
            STAGED,
            model=dataclasses.replace(STAGED.model, curriculum=None, h_cycles=h_cycles, l_cycles=l_cycles),
        )
        same, _, _ = compile_train_step(plain, SPEC, make_mesh())
        plain_state = init_state(plain, SPEC, BATCH, make_mesh())[1]
        staged_after, _ = compiled.stages[stage][1](jax.tree.map(jnp.copy, state), Given(make_batch(0)))
        plain_after, _ = same.at(1)(plain_state, Given(make_batch(0)))
        assert not changed(staged_after, plain_after)


@pytest.mark.parametrize(
    ("curriculum", "message"),
    [
        (
            Curriculum(0.5, ((1, 1), (3, 2))),
            r"ends at the model's own 2x2, got curriculum\(0.5, 1x1, 3x2\)",
        ),
        (
            Curriculum(0.05, ((1, 1), (2, 1), (2, 2))),
            r"stages of a step at least, but with 12 steps they end at",
        ),
    ],
)
def test_a_curriculum_that_cannot_be(curriculum: Curriculum, message: str) -> None:
    model = dataclasses.replace(STAGED.model, curriculum=curriculum)
    with pytest.raises(ConfigError, match=message):
        check_config(dataclasses.replace(STAGED, model=model))


@pytest.mark.parametrize(
    ("slots", "length", "pieces"),
    [
        (64, 82, 8),
        (16, 97, 2),
        (16, 901, 8),
        (1, 901, 1),
        (31, 82, 1),
    ],
)
def test_microbatches_of_a_cpu_fit_into_its_caches(slots: int, length: int, pieces: int) -> None:
    assert cached_pieces(slots, length) == pieces


def test_a_step_on_a_cpu_is_computed_in_microbatches() -> None:
    spec = dataclasses.replace(SPEC, sequence_length=300)
    compiled, _, _ = compile_train_step(carried_out(micro_batches="auto"), spec, make_mesh())
    assert compiled.micro_batches == BATCH // 2
