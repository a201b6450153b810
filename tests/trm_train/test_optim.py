import dataclasses
import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from trm_train.config import values
from trm_train.config.data import DataConfig
from trm_train.config.optim import (
    OPTIMIZERS,
    AdamWConfig,
    LionConfig,
    MuonConfig,
    OptimConfig,
    OptimizerConfig,
)
from trm_train.config.run import RunConfig
from trm_train.config.values import Function, Linear, add_lr_schedule, parse_lr_schedule
from trm_train.errors import ConfigError
from trm_train.optim import adam_atan2, make_optimizer, rate_factor, sign_sgd, update_ema, value_at


def test_adam_atan2_by_hand() -> None:
    optimizer = adam_atan2(
        lambda step: jnp.float32(0.1) * step.astype(jnp.float32), beta1=0.9, beta2=0.95, weight_decay=0.5
    )
    params = {"w": jnp.asarray([2.0, -1.0, 0.5])}
    state = optimizer.init(params)
    wanted = np.array([2.0, -1.0, 0.5])
    m = v = np.zeros(3)
    for t, gradient in enumerate(([1.0, -3.0, 0.0], [-2.0, 0.5, 0.0]), start=1):
        gradient, rate = np.array(gradient), 0.1 * t
        changes, state = optimizer.update({"w": jnp.asarray(gradient, jnp.float32)}, state, params)
        params = optax.apply_updates(params, changes)
        m, v = 0.9 * m + 0.1 * gradient, 0.95 * v + 0.05 * gradient**2
        wanted = wanted * (1 - rate * 0.5)
        step = np.arctan2(m, np.sqrt(v) / math.sqrt(1 - 0.95**t)) / (1 - 0.9**t)
        wanted = wanted - rate * step
    assert np.allclose(params["w"], wanted, atol=1e-6)
    assert state.count == 2


def test_adam_atan2_does_not_clip() -> None:
    """The update does not depend on the scale of the gradient."""
    optimizer = adam_atan2(lambda _: jnp.float32(1.0), beta1=0.9, beta2=0.95, weight_decay=0.0)
    params = jnp.zeros(2)
    changes, _ = optimizer.update(jnp.asarray([1e-12, 1e12]), optimizer.init(params), params)
    assert np.allclose(changes, changes[0], rtol=1e-4)
    assert changes[0] < 0


@pytest.mark.parametrize(
    ("step", "factor"), [(1, 0.25), (3, 0.75), (4, 1.0), (8, 0.55), (12, 0.1), (99, 0.1)]
)
def test_schedule_warms_up_then_follows_a_cosine(step: int, factor: float) -> None:
    got = rate_factor(jnp.int32(step), warmup_steps=4, total_steps=12, min_ratio=0.1)
    assert got == pytest.approx(factor, abs=1e-6)


@pytest.mark.parametrize(
    ("step", "factor"), [(1, 0.25), (4, 1.0), (6, 0.775), (8, 0.55), (10, 0.325), (12, 0.1), (99, 0.1)]
)
def test_the_linear_schedule(step: int, factor: float) -> None:
    got = rate_factor(jnp.int32(step), warmup_steps=4, total_steps=12, min_ratio=0.1, schedule="linear")
    assert got == pytest.approx(factor, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "factors"),
    [
        ("piecewise(0:1, 0.5:2, 1:0)", [0.25, 1.0, 1.5, 2.0, 1.0, 0.0, 0.0]),
        ("constant(0.5)", [0.25, 1.0, 1.0, 1.0, 0.55, 0.1, 0.1]),
    ],
)
def test_schedules_with_numbers(text: str, factors: list[float]) -> None:
    schedule = parse_lr_schedule(text)
    got = [
        rate_factor(
            jnp.int32(step),
            warmup_steps=4,
            total_steps=12,
            min_ratio=0.1,
            schedule=schedule,
        )
        for step in (1, 4, 6, 8, 10, 12, 99)
    ]
    assert got == pytest.approx(factors, abs=1e-6)


def halved(progress: Any) -> Any:
    return 1.0 - progress / 2


def test_a_function_is_a_schedule_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_FUNCTIONS", {})
    assert add_lr_schedule(halved) is halved
    schedule = parse_lr_schedule("halved")
    assert isinstance(schedule, Function)
    assert parse_lr_schedule(str(schedule)) == schedule, "as config.json has it"
    got = rate_factor(jnp.int32(8), warmup_steps=4, total_steps=12, min_ratio=1.0, schedule=schedule)
    assert got == pytest.approx(0.75)
    edited = dataclasses.replace(schedule, digest="0" * 8)
    with pytest.raises(
        ConfigError, match=r"the source of halved has changed .got [0-9a-f]{8}; the run has 0{8}"
    ):
        OptimConfig(lr_schedule=edited).check()
    with pytest.raises(ConfigError, match="no function other is registered"):
        OptimConfig(lr_schedule=dataclasses.replace(schedule, name="other")).check()
    with pytest.raises(ConfigError, match="needs a name of its own"):
        add_lr_schedule(lambda progress: progress)


@pytest.mark.parametrize(
    "text",
    [
        "cos", "constant(0)", "constant(1.5)", "constant(nan)", "piecewise(0:1)", "piecewise(0:1, 0.5:1)",
        "piecewise(0:1, 1:-1)", "piecewise(0:1, 1:inf)", "piecewise(0:1, 1)", "piecewise(1:1, 0:1)",
        "piecewise(0:a, 1:1)",
    ],
)  # fmt: skip
def test_what_is_no_schedule(text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(repr(text))):
        parse_lr_schedule(text)


def test_values_over_training_reach_both_ends() -> None:
    got = [float(value_at(Linear(0.3, 0.1), jnp.int32(step), 5)) for step in range(1, 7)]
    assert got == pytest.approx([0.3, 0.25, 0.2, 0.15, 0.1, 0.1])
    assert value_at(0.25, jnp.int32(3), 5) == 0.25


def test_adamw_by_hand() -> None:
    optim = AdamWConfig(lr=0.1, lr_warmup_steps=2, beta1=0.8, beta2=0.9, weight_decay=0.5, epsilon=1e-3)
    optimizer = make_optimizer(RunConfig(data=DataConfig(dataset="x"), optim=optim, total_steps=9))
    params = {"w": jnp.asarray([2.0, -1.0])}
    state = optimizer.init(params)
    wanted = np.array([2.0, -1.0])
    m = v = np.zeros(2)
    for t, gradient in enumerate(([1.0, -3.0], [-2.0, 0.5], [0.1, 0.2]), start=1):
        gradient, rate = np.array(gradient), 0.1 * min(t / 2, 1.0)
        changes, state = optimizer.update({"w": jnp.asarray(gradient, jnp.float32)}, state, params)
        params = optax.apply_updates(params, changes)
        m, v = 0.8 * m + 0.2 * gradient, 0.9 * v + 0.1 * gradient**2
        direction = m / (1 - 0.8**t) / (np.sqrt(v / (1 - 0.9**t)) + 1e-3)
        wanted = wanted - rate * (direction + 0.5 * wanted)
    assert np.allclose(params["w"], wanted, atol=1e-6)


def steps_of(
    optim: OptimizerConfig, params: dict[str, jax.Array], gradients: list[dict[str, jax.Array]]
) -> list:
    """Return the changes that the optimizer of a configuration makes to parameters at each step."""
    optimizer = make_optimizer(RunConfig(data=DataConfig(dataset="x"), optim=optim, total_steps=9))
    state, made = optimizer.init(params), []
    update = jax.jit(optimizer.update)
    for gradient in gradients:
        changes, state = update(gradient, state, params)
        params = optax.apply_updates(params, changes)
        made.append(changes)
    return made


def test_lion_by_hand() -> None:
    optim = LionConfig(lr=0.1, lr_warmup_steps=2, beta1=0.8, beta2=0.9, weight_decay=0.5)
    gradients = [np.array([1.0, -3.0]), np.array([-9.0, 0.5]), np.array([0.1, 0.2])]
    start = np.array([2.0, -1.0])
    made = steps_of(optim, {"w": jnp.asarray(start)}, [{"w": jnp.asarray(g)} for g in gradients])
    wanted, m = start, np.zeros(2)
    for t, (gradient, change) in enumerate(zip(gradients, made, strict=True), start=1):
        expected = -0.1 * min(t / 2, 1.0) * (np.sign(0.8 * m + 0.2 * gradient) + 0.5 * wanted)
        assert np.allclose(change["w"], expected, atol=1e-6)
        wanted, m = wanted + expected, 0.9 * m + 0.1 * gradient


def test_muon_turns_matrices_and_leaves_the_rest_to_nadamw() -> None:
    rng = np.random.default_rng(0)
    matrix, vector = rng.normal(size=(12, 6)), rng.normal(size=4)
    params = {"matrix": jnp.zeros((12, 6)), "vector": jnp.ones(4)}
    gradient = {"matrix": jnp.asarray(matrix, jnp.float32), "vector": jnp.asarray(vector, jnp.float32)}
    optim = MuonConfig(lr=0.1, lr_warmup_steps=0, weight_decay=0.5)
    (made,) = steps_of(optim, params, [gradient])
    look_ahead = 1 + 0.9 * 0.1 / (1 - 0.9**2)  # of the first step, with the moment one step further on
    assert np.allclose(made["vector"], -0.1 * (look_ahead * np.sign(vector) + 0.5), atol=1e-4)
    singular = np.linalg.svd(np.asarray(made["matrix"]), compute_uv=False)
    assert singular.max() < 2 * singular.min()  # nearly the same length in every direction
    gradient_u, _, gradient_vt = np.linalg.svd(matrix)
    nearest = -gradient_u[:, :6] @ gradient_vt
    assert np.sum(nearest * made["matrix"]) / np.linalg.norm(nearest) / np.linalg.norm(made["matrix"]) > 0.97
    assert np.sqrt(np.mean(np.square(made["matrix"]))) == pytest.approx(0.1 * 0.2, rel=0.25)


def test_muon_leaves_embeddings_and_heads_to_nadamw_in_new_runs() -> None:
    rng = np.random.default_rng(0)
    shapes = {
        "embedding": {"tokens": (8, 6)},
        "level": {"kernel": (6, 4)},
        "lm_head": {"kernel": (6, 8)},
        "multihead": {"kernel": (6, 6)},
    }
    gradients = jax.tree.map(
        lambda shape: jnp.asarray(rng.normal(size=shape), jnp.float32),
        shapes,
        is_leaf=lambda x: isinstance(x, tuple),
    )
    params = jax.tree.map(jnp.zeros_like, gradients)
    chosen = OPTIMIZERS.choose(OptimConfig(lr=0.1, lr_warmup_steps=0), "muon")
    assert isinstance(chosen, MuonConfig)
    assert (chosen.matrices, MuonConfig().matrices) == ("hidden", "all"), (
        "records without the field keep theirs"
    )
    flat = {}
    for matrices in ("hidden", "all"):
        (made,) = steps_of(
            dataclasses.replace(chosen, matrices=matrices, weight_decay=0.0), params, [gradients]
        )
        flat[matrices] = {
            name: bool(np.ptp(np.abs(np.asarray(leaf))) < 1e-4)  # a first step of Adam has one size
            for name, leaf in zip(shapes, jax.tree.leaves(made), strict=True)
        }
    assert flat == {
        "hidden": {"embedding": True, "level": False, "lm_head": True, "multihead": False},
        "all": dict.fromkeys(shapes, False),
    }


@pytest.mark.parametrize("optim", [OptimConfig, AdamWConfig, LionConfig, MuonConfig])
def test_long_gradients_are_clipped_together(optim: type[OptimizerConfig]) -> None:
    gradients = [
        {"a": jnp.full((2, 2), 3.0), "b": jnp.full(4, 4.0)},
        {"a": jnp.full((2, 2), 0.1), "b": jnp.ones(4)},
    ]
    params = jax.tree.map(jnp.zeros_like, gradients[0])
    common = {"lr": 0.1, "lr_warmup_steps": 0}
    clipped = steps_of(optim(clip_norm=5.0, **common), params, gradients)
    by_hand = [
        jax.tree.map(lambda g: g * 0.5, gradients[0]),
        gradients[1],
    ]  # its length is 10, the other's 2.01
    wanted = steps_of(optim(**common), params, by_hand)
    for got, expected in zip(clipped, wanted, strict=True):
        assert all(np.allclose(got[name], expected[name], atol=1e-7) for name in got)


def table_after(identifiers: list[int], grads: list[list[float]]) -> np.ndarray:
    table = jnp.full((8, 2), 10.0)
    rate = jnp.float32(0.1)
    return np.asarray(
        jax.jit(sign_sgd, static_argnums=4)(table, jnp.asarray(grads), jnp.asarray(identifiers), rate, 0.5)
    )


def test_sign_sgd_moves_rows_of_the_batch_only() -> None:
    table = table_after([3, 0, 3], [[1.0, -2.0], [5.0, 0.0], [-3.0, -2.0]])
    decayed = 10.0 * (1 - 0.1 * 0.5)
    assert np.allclose(table[3], [decayed + 0.1, decayed + 0.1])  # sums -2 and -4: one step for both slots
    assert np.allclose(table[0], [decayed - 0.1, decayed])  # sign(0) = 0 still decays
    assert np.all(np.delete(table, [0, 3], axis=0) == 10.0)


def test_sign_sgd_when_every_slot_shares_row_0_and_the_last_row() -> None:
    shared = table_after([0, 0, 0], [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]])
    assert np.allclose(shared[0], 9.5 - 0.1)
    assert np.all(shared[1:] == 10.0)
    last = table_after([7, 7, 1], [[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]])
    assert np.allclose(last[7], 9.4)
    assert np.allclose(last[1], 9.6)
    assert np.all(last[0] == 10.0)


def test_ema() -> None:
    average = update_ema({"w": jnp.asarray([1.0])}, {"w": jnp.asarray([2.0])}, 0.9)
    assert np.allclose(average["w"], 1.1)
