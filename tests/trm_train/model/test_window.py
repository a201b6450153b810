"""The mixer `window` equals masked attention, but computes only what the mask keeps."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.conftest import run_here
from tests.support.roots import root_with
from tests.trm_train.test_loop import run
from trm_data.cli import main
from trm_data.storage.root import Layout
from trm_eval.errors import EvalError
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_train.config.model import ModelConfig
from trm_train.config.run import InputSpec, differences
from trm_train.cost import count_network
from trm_train.errors import ConfigError
from trm_train.experiments.registry import find_experiment
from trm_train.experiments.setting import SETTINGS, Setting
from trm_train.metrics import read_metrics
from trm_train.model.attention import Attention
from trm_train.model.blocks import TRM
from trm_train.model.window import WindowAttention

WIDTH, HEADS = 12, 2


def mask_of(grid: tuple[int, int], distance: int, puzzle_positions: int) -> np.ndarray:
    """Return whether a position attends to another, [L, L], cell by cell."""
    rows, columns = grid
    cells = [(row, column) for row in range(rows) for column in range(columns)]
    length = puzzle_positions + len(cells)
    mask = np.zeros((length, length), bool)
    mask[:puzzle_positions] = mask[:, :puzzle_positions] = True
    for i, (row, column) in enumerate(cells, puzzle_positions):
        for j, (other, others) in enumerate(cells, puzzle_positions):
            mask[i, j] = max(abs(row - other), abs(column - others)) <= distance
    return mask


class MaskedAttention(Attention):
    """Full attention whose scores outside a mask are -inf."""

    mask: Any = None

    def mix(self, query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
        scores = jnp.einsum("blhk,bmhk->bhlm", query, key) * self.head_width**-0.5
        weights = jax.nn.softmax(jnp.where(self.mask[None, None], scores, -jnp.inf), axis=-1)
        return jnp.einsum("bhlm,bmhk->blhk", weights, value)


def window(
    grid: tuple[int, int], distance: int, puzzle_positions: int = 3, *, rope: bool = True
) -> WindowAttention:
    return WindowAttention(
        WIDTH,
        HEADS,
        rope=rope,
        puzzle_positions=puzzle_positions,
        grid=grid,
        distance=distance,
        rngs=nnx.Rngs(params=0),
    )


@pytest.mark.integration
@pytest.mark.parametrize("rope", [True, False])
@pytest.mark.parametrize(
    ("grid", "distance", "puzzle_positions"),
    [((4, 5), 1, 3), ((3, 6), 4, 2), ((2, 3), 9, 2)],
)
def test_values_and_gradients_are_those_of_masked_attention(
    grid: tuple[int, int], distance: int, puzzle_positions: int, rope: bool
) -> None:
    near = window(grid, distance, puzzle_positions, rope=rope)
    full = MaskedAttention(WIDTH, HEADS, rope=rope, rngs=nnx.Rngs(params=0))
    full.mask = jnp.asarray(mask_of(grid, distance, puzzle_positions))
    length = puzzle_positions + grid[0] * grid[1]
    x, towards = (jax.random.normal(jax.random.key(k), (2, length, WIDTH)) for k in (1, 2))

    def run(attention: Attention) -> tuple[jax.Array, Any]:
        definition, params, rest = nnx.split(attention, nnx.Param, ...)

        def loss(params: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            y = nnx.merge(definition, params, rest)(x)
            return jnp.sum(y * towards), y

        gradient, y = jax.jit(jax.grad(loss, (0, 1), has_aux=True))(params, x)
        return y, gradient

    for one, other in zip(*(jax.tree.leaves(run(each)) for each in (near, full)), strict=True):
        assert float(jnp.abs(other).max()) > 0.01
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.integration
def test_a_cell_hears_of_near_cells_and_puzzle_positions_only() -> None:
    attention = window((5, 5), 1, 2)
    x = jax.random.normal(jax.random.key(1), (1, 27, WIDTH))
    middle = 2 + 12  # row 2, column 2
    moved = jax.jacobian(lambda x: attention(x)[0, middle])(x)[:, 0]
    heard = np.abs(np.asarray(moved)).max(axis=(0, 2)) > 0
    cells = np.zeros((5, 5), bool)
    cells[1:4, 1:4] = True
    assert heard.tolist() == [True, True, *cells.reshape(-1).tolist()]


def temporary_bytes(side: int) -> int:
    """Return the memory of a step with gradient, besides its inputs and outputs."""
    definition, params = nnx.split(window((side, side), 1, 1), nnx.Param)

    def loss(params: Any, x: jax.Array) -> jax.Array:
        return jnp.sum(nnx.merge(definition, params)(x) ** 2)

    x = jax.ShapeDtypeStruct((1, 1 + side**2, WIDTH), jnp.float32)
    analysis: Any = jax.jit(jax.grad(loss)).lower(params, x).compile().memory_analysis()
    return int(analysis.temp_size_in_bytes)


def test_memory_is_linear_in_the_number_of_cells() -> None:
    small, large = temporary_bytes(12), temporary_bytes(48)
    assert (
        small < large < 16 * small * 1.2
    )  # 16 times as many cells; a matrix of all pairs has 256 times as many


SPEC = InputSpec(sequence_length=20, vocabulary_size=6, num_identifiers=5, grid=(4, 5))
CONFIG = ModelConfig(
    hidden_size=16, num_heads=2, h_cycles=1, l_cycles=1, mixer="window", window=1, puzzle_emb_len=2
)


def test_a_network_has_the_parameters_of_attention_and_fewer_operations() -> None:
    attention = ModelConfig(
        hidden_size=16, num_heads=2, h_cycles=1, l_cycles=1, mixer="attention", puzzle_emb_len=2
    )
    near, full = count_network(CONFIG, SPEC), count_network(attention, SPEC)
    assert near.parameters == full.parameters
    assert near.flops is not None
    assert full.flops is not None
    # 4 operations for each pair and column of the width; 2 updates of 2 blocks
    pairs = 20 * (9 + 2) + 2 * 22
    assert full.flops.think - near.flops.think == 4 * 16 * (22**2 - pairs) * 2 * 2


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"mixer": "window"}, "model.window"),
        ({"mixer": "attention", "window": 2}, "model.window"),
        ({"mixer": "window", "window": 2, "num_heads": 7}, "model.num_heads"),
    ],
)
def test_windows_that_cannot_be_are_refused(change: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        ModelConfig(**change).check()


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_experiments_differ_from_their_control_in_the_window_only(setting: Setting) -> None:
    control = find_experiment("network_attention").make(setting)
    for distance in (1, 2):
        config = find_experiment(f"contrib05_window_{distance}").make(setting)
        assert differences(config, control) == {"model.mixer": "window", "model.window": distance}


@pytest.mark.integration
def test_an_experiment_is_trained_and_tested(small_layout: Layout, tmp_path: Path) -> None:
    layout = root_with("small", tmp_path, small_layout)
    config = find_experiment("contrib05_window_1").make(Setting("tiny", "generated"))
    config = dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, dataset="small", global_batch_size=8),
        model=dataclasses.replace(
            config.model, hidden_size=16, num_layers=1, h_cycles=2, l_cycles=1, halt_max_steps=2
        ),
        optim=dataclasses.replace(config.optim, lr_warmup_steps=1),
        total_steps=3,
    )
    result = run(layout, config)
    assert (result.finished, result.step) == (True, 3)
    losses = [
        row["lm_loss_sum"] for row in read_metrics(result.folder, 3).to_pylist() if row["split"] == "train"
    ]
    assert len(losses) == 3
    assert np.isfinite(losses).all()
    assert evaluate_run(layout, result.folder, EvalRequest()).row["count"] == 12
    # A dataset with the same number of cells and tokens but another grid does not fit the windows.
    vocabulary = result.record.input_spec.vocabulary_size
    rows = np.random.default_rng(0).integers(1, vocabulary, (20, 2, 4, 9))
    np.save(tmp_path / "rows.npy", rows)
    built = run_here(
        main,
        *("build", "table", "--train", str(tmp_path / "rows.npy"), "--vocabulary", str(vocabulary)),
        *("--val-size", "4", "--test-size", "4", "--name", "wide", "--root", layout.place),
    )
    assert built.returncode == 0, built.stderr
    with pytest.raises(EvalError, match="its grid is 4 x 9, the run's windows are of 6 x 6"):
        evaluate_run(layout, result.folder, EvalRequest(dataset="wide"))


def test_rows_that_are_no_grid_have_no_windows() -> None:
    flat = InputSpec(sequence_length=20, vocabulary_size=6, num_identifiers=5)
    with pytest.raises(ConfigError, match=r"model.mixer: .*fixed grid .got window"):
        TRM(CONFIG, flat, rngs=nnx.Rngs(params=0, latents=1))
    with pytest.raises(ConfigError, match=r"no fixed grid .got window"):
        count_network(CONFIG, flat)
