"""Any network and optimizer: a second network with one state is trained, saved and restored by the same code."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from trm_data.storage.local import LocalStore
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import CheckpointMeta, Checkpoints, restore_weights
from trm_train.checkpoint.tree import choose_weights, state_from_tree, state_tree, weights_tree
from trm_train.config.data import DataConfig
from trm_train.config.model import ARCHITECTURES, ModelConfig, NetworkConfig
from trm_train.config.optim import OPTIMIZERS, AdamWConfig, OptimConfig
from trm_train.config.run import InputSpec, RunConfig
from trm_train.errors import CheckpointError
from trm_train.mesh import fingerprints, jit_train_step, make_mesh
from trm_train.model.base import FixedLatent, Network, PuzzleTable, States, table_rows
from trm_train.model.blocks import TRM
from trm_train.model.layers import HaltHead, InputEmbedding, Linear, SwiGLU, rms_norm, truncated_normal
from trm_train.model.networks import NETWORKS
from trm_train.objective import binary_cross_entropy, continue_target
from trm_train.optim import make_optimizer
from trm_train.state import TrainState, abstract_weights, eval_weights, init_state
from trm_train.step.evaluate import make_eval_step
from trm_train.step.train import make_train_step

SPEC = InputSpec(sequence_length=9, vocabulary_size=6, num_identifiers=5)
BATCH = 8
META = CheckpointMeta(step=2, identity="i", content_digest="c", identifiers_digest="d")


@dataclass(frozen=True, kw_only=True)
class OneStateConfig(NetworkConfig):
    architecture: Literal["one_state"] = "one_state"
    cycles: int = 2


class OneState(Network):
    """z = f(z + e), `cycles` times; heads read z."""

    def __init__(self, config: OneStateConfig, spec: InputSpec, *, rngs: nnx.Rngs):
        self.cycles, self.positions = config.cycles, config.puzzle_positions
        self.length = self.positions + spec.sequence_length
        self.continue_loss = self.halts_against_continue = True
        self.embedding = InputEmbedding(
            config, spec.sequence_length, spec.vocabulary_size, learned_positions=False, rngs=rngs
        )
        self.mlp = SwiGLU(config.hidden_size, 4.0, rngs=rngs)
        self.lm_head = Linear(config.hidden_size, spec.vocabulary_size, rngs=rngs)
        self.q_head = HaltHead(config.hidden_size)
        self.start = FixedLatent(truncated_normal(rngs.latents(), (config.hidden_size,), 1.0))
        self.puzzle_table = PuzzleTable(jnp.zeros((table_rows(spec.num_identifiers), config.puzzle_width)))

    def initial_states(self, slots: int) -> States:
        shape = (slots, self.length, self.start[...].shape[0])
        return {"z": jnp.broadcast_to(self.start[...][None, None], shape)}

    def think(self, states, inputs, puzzle_rows) -> States:
        z, e = states["z"], self.embedding(inputs, puzzle_rows)
        for _ in range(self.cycles):
            x = z + e
            z = rms_norm(x + self.mlp(x))
        return {"z": z}

    def logits(self, states):
        return self.lm_head(states["z"][:, self.positions :])

    def q_logits(self, states):
        return self.q_head(states["z"][:, 0])


MODEL = OneStateConfig(hidden_size=16, puzzle_emb_len=1, halt_max_steps=3, forward_dtype="float32")
OPTIM = {"lr": 1e-2, "lr_warmup_steps": 0, "puzzle_emb_lr": 1e-2, "ema_rate": 0.5}
CONFIG = RunConfig(
    data=DataConfig(dataset="made-up", global_batch_size=BATCH),
    model=MODEL,
    optim=AdamWConfig(**OPTIM),
    total_steps=10,
)
SMALL_TRM = ModelConfig(
    hidden_size=16, num_heads=2, num_layers=1, h_cycles=1, l_cycles=1, puzzle_emb_len=1, halt_max_steps=3,
    forward_dtype="float32",
)  # fmt: skip


@pytest.fixture(autouse=True)
def one_state_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS, "one_state", OneState)


def make_batch(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "inputs": rng.integers(1, 6, (BATCH, 9)).astype(np.uint8),
        "labels": rng.integers(2, 6, (BATCH, 9)).astype(np.uint8),
        "puzzle_identifiers": rng.integers(0, 3, BATCH).astype(np.int32),
    }


@functools.cache
def start(config: RunConfig):
    """Return the first state and the compiled step."""
    model, state = init_state(config, SPEC, BATCH)
    return state, jax.jit(make_train_step(config, SPEC, model))


def train(config: RunConfig, steps: int, state: TrainState | None = None, first: int = 0) -> TrainState:
    fresh, step = start(config)
    state = fresh if state is None else state
    for t in range(first, first + steps):
        state, _ = step(state, make_batch(t))
    return state


def names(tree: object) -> set[str]:
    return {
        jax.tree_util.keystr(path, simple=True, separator=".")
        for path, _ in jax.tree_util.tree_leaves_with_path(tree)
    }


def test_every_architecture_and_optimizer_of_the_configuration_exists() -> None:
    assert set(NETWORKS) - {"one_state"} == set(ARCHITECTURES.forms)
    for form in OPTIMIZERS.forms.values():
        config = RunConfig(data=DataConfig(dataset="x"), optim=form(), total_steps=10)
        assert make_optimizer(config).init({"w": jnp.zeros(2)}) is not None


def test_leaves_of_a_trm_with_adam_atan2_keep_their_names() -> None:
    config = dataclasses.replace(CONFIG, model=SMALL_TRM, optim=OptimConfig(**OPTIM))
    tree = state_tree(start(config)[0])
    found, weights = names(tree), names(tree["params"])
    expected = {
        f"{part}.{name}" for part in ("params", "ema", "optimizer.m", "optimizer.v") for name in weights
    }
    expected |= {"optimizer.count", "puzzle_table.rows", "fixed.h_init", "fixed.l_init", "step", "key"}
    expected |= {f"carry.{name}" for name in ("z_h", "z_l", "steps", "halted")}
    expected |= {f"carry.current.{name}" for name in ("inputs", "labels", "puzzle_identifiers")}
    assert found == expected
    assert "level.block_0.token_mlp.gate_up.kernel" in weights


@pytest.mark.integration
@pytest.mark.parametrize(
    ("model", "optim"),
    [(MODEL, AdamWConfig(**OPTIM)), (SMALL_TRM, OptimConfig(**OPTIM))],
    ids=["one_state and adamw", "trm and adam_atan2"],
)
def test_a_state_is_saved_and_goes_on_to_the_same_bits(model, optim, tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, model=model, optim=optim)
    state = train(config, 2)
    with_table = state_tree(state)
    assert ("carry.z" in names(with_table)) == (model is MODEL)
    folder = Folder(LocalStore(tmp_path), "run")
    checkpoints = Checkpoints(folder)
    checkpoints.save(state, META)
    checkpoints.wait()
    restored = checkpoints.restore(start(config)[0]).state
    checkpoints.close()
    assert jax.tree.structure(restored) == jax.tree.structure(state)
    undisturbed = fingerprints(state_tree(train(config, 2, state, first=2)))
    assert fingerprints(state_tree(train(config, 2, restored, first=2))) == undisturbed

    model_definition, shapes = abstract_weights(config, SPEC, make_mesh())
    tree, _ = restore_weights(folder, 2, weights_tree(shapes))
    evaluate = jax.jit(make_eval_step(config, SPEC, model_definition, return_logits=True))
    found = evaluate(choose_weights(tree, "ema"), make_batch(9)).logits
    assert np.array_equal(found, evaluate(eval_weights(state), make_batch(9)).logits)


@pytest.mark.integration
def test_every_leaf_learns_over_a_mesh() -> None:
    mesh = make_mesh()
    model, state = init_state(CONFIG, SPEC, BATCH, mesh)
    before = jax.device_get((state.params, state.carry.states, state.puzzle_table))
    step = jit_train_step(make_train_step(CONFIG, SPEC, model), mesh, state)
    for t in range(2):
        state, _ = step(state, make_batch(t))
    after = jax.device_get((state.params, state.carry.states, state.puzzle_table))
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool(np.any(a != b)), before, after)))


def test_abstract_weights_hold_no_array_and_say_where_they_lie() -> None:
    definition, weights = abstract_weights(CONFIG, SPEC, make_mesh())
    leaves = jax.tree.leaves(weights)
    assert {type(leaf) for leaf in leaves} == {jax.ShapeDtypeStruct}
    assert all(leaf.sharding is not None for leaf in leaves)
    real, state = init_state(CONFIG, SPEC, BATCH)
    assert definition == real
    assert jax.tree.map(jnp.shape, eval_weights(state)) == jax.tree.map(lambda leaf: leaf.shape, weights)


def test_a_state_of_the_network_cannot_take_a_name_of_the_carry() -> None:
    state, _ = start(CONFIG)
    carry = dataclasses.replace(state.carry, states={"steps": state.carry.states["z"]})
    with pytest.raises(CheckpointError, match="has a state steps"):
        state_tree(dataclasses.replace(state, carry=carry))


def test_trees_are_inverses_of_one_another() -> None:
    for ndim in (None, 0):
        model = dataclasses.replace(SMALL_TRM, puzzle_emb_ndim=ndim)
        _, state = init_state(dataclasses.replace(CONFIG, model=model), SPEC, BATCH)
        again = state_from_tree(state_tree(state), state)
        assert jax.tree.structure(again) == jax.tree.structure(state)
        assert all(a is b for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(state), strict=True))


def test_the_continue_target_is_the_better_of_the_next_logits() -> None:
    next_q = jnp.asarray([[1.0, 2.0], [1.0, 2.0], [3.0, 2.0]])
    target = continue_target(next_q, jnp.asarray([False, True, False]))
    assert np.allclose(target, 1 / (1 + np.exp([-2.0, -1.0, -3.0])))


def test_the_continue_loss_by_hand() -> None:
    """Loss and gradient of the first step: unchanged, except the continue logits against those one step later."""
    plain = dataclasses.replace(SMALL_TRM, halt_exploration_prob=0.0)
    q_halt, q_continue = 0.3, 0.1
    found = {}
    for without in (True, False):
        config = dataclasses.replace(CONFIG, model=dataclasses.replace(plain, no_act_continue=without))
        definition, state = init_state(config, SPEC, BATCH)
        head = state.params["q_head"] | {
            "bias": jnp.asarray([q_halt, q_continue])
        }  # its kernel starts at zero
        state = dataclasses.replace(state, params=state.params | {"q_head": head})
        step = jax.jit(make_train_step(config, SPEC, definition, with_detail=True))
        after, _, found[without] = step(state, make_batch(0))
        assert np.all(after.carry.halted)  # 0.3 is above 0 and above 0.1
    wanted = binary_cross_entropy(jnp.full((1,), q_continue), jax.nn.sigmoid(jnp.full((1,), q_halt)))
    added = float(found[False].loss - found[True].loss)
    assert added == pytest.approx(0.5 * BATCH * float(wanted[0]), rel=1e-5)
    slope = 1 / (1 + np.exp(-q_continue)) - 1 / (1 + np.exp(-q_halt))  # no gradient flows through the target
    grads = {without: detail.grads["q_head"]["bias"] for without, detail in found.items()}
    assert np.allclose(grads[False] - grads[True], [0.0, 0.5 * slope], atol=1e-6)


def test_a_slot_halts_against_the_continue_logit_only_with_the_continue_loss() -> None:
    q_logits = jnp.asarray([[0.2, 0.5], [-0.2, -0.5], [0.2, 0.1]])
    for without, sure in ((True, [True, False, True]), (False, [False, True, True])):
        model = dataclasses.replace(SMALL_TRM, no_act_continue=without)
        network = TRM(model, SPEC, rngs=nnx.Rngs(params=0, latents=1))
        assert (network.halt_margin(q_logits) > 0).tolist() == sure
