"""Adaptation to a dataset's training split before an evaluation: `trm-eval run --adapt`.

Adaptation lets a run answer tasks that it has never seen: ARC has their demonstration pairs in the training split. A
task's own puzzle embedding tells the network which task it is. The training step is the normal one; only the embeddings
learn, unless the request asks for the weights too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trm_data.loader.component import Component
from trm_data.loader.dataset import Dataset
from trm_data.loader.mixture import Mixture
from trm_data.loader.pipeline import make_loader
from trm_data.show.progress import Progress
from trm_eval.errors import EvalError
from trm_eval.identity import Adaptation
from trm_eval.infer import LoadedNetwork
from trm_train.config.data import DataConfig
from trm_train.config.run import InputSpec, RunConfig
from trm_train.mesh import batch_sharding, jit_train_step, put_batch, state_shardings
from trm_train.model.act import KEY_IMPLEMENTATION
from trm_train.model.base import table_rows
from trm_train.runs.record import input_spec
from trm_train.state import TrainState, Weights, abstract_weights, start_state
from trm_train.step.train import make_train_step
from trm_train.training.prepare import check_batch

FOREVER = 1 << 30
"""Number of training steps that is never reached, because time ends the training."""


@dataclass(frozen=True)
class Adapted:
    """Result of an adaptation.

    Attributes:
        restored: Weights after the adaptation, for the dataset's puzzle identifiers.
        steps: Number of training steps taken.
        seconds: Wall-clock time, compilation included (s).
    """

    restored: LoadedNetwork
    steps: int
    seconds: float


def adapt(
    restored: LoadedNetwork,
    train: Dataset,
    adaptation: Adaptation,
    progress: Progress,
    component: Component | None = None,
) -> Adapted:
    """Train on a training split within the requested limits.

    Args:
        restored: Weights to start from. They keep their puzzle embeddings if the dataset has the same identifiers;
            otherwise the embeddings start at zero, as in training.
        train: The training split.
        adaptation: Limits, and what learns.
        progress: Progress display: of the time, or of the steps if these are limited.
        component: The dataset's component in the mixture that the run learned; None if it learned one dataset.
    """
    begun = time.perf_counter()
    config = _config(restored, train, adaptation)
    spec = input_spec(train.manifest) if component is None else restored.record.input_spec
    rows = (
        train if component is None else Mixture((train,), (Fraction(1),), (component,), spec.sequence_length)
    )
    check_batch(config, restored.mesh)
    own = restored.record.identifiers_digest if component is None else component.identifiers_digest
    model, state = _start(restored, config, spec, same=train.manifest.identifiers_digest == own)
    step: Any = jit_train_step(make_train_step(config, spec, model, mesh=restored.mesh), restored.mesh, state)
    placed, taken, loss, longest, told = batch_sharding(restored.mesh), 0, 0.0, 0.0, 0
    progress.start(
        "adapt",
        adaptation.steps or round(60 * (adaptation.minutes or 0)),
        "steps" if adaptation.steps else "s",
    )
    with make_loader(rows, global_batch_size=config.data.global_batch_size, seed=config.seed) as batches:
        batch = put_batch(next(batches), placed)
        step = step.lower(state, batch).compile()  # compile now, so that all steps take about the same time
        seconds = time.perf_counter() - begun
        while not _is_over(adaptation, taken, seconds + longest):
            state, metrics = step(state, batch)
            loss = float(jax.device_get(metrics["lm_loss"]))
            if not np.isfinite(loss):
                hint = (
                    "leave out --adapt-weights"
                    if adaptation.weights
                    else "the run's rates do not fit these tasks"
                )
                raise EvalError(f"--adapt: the loss is {loss} at step {taken + 1}; {hint}")
            before, seconds = seconds, time.perf_counter() - begun
            taken += 1
            longest = max(longest, seconds - before)
            batch = put_batch(next(batches), placed)
            done = taken if adaptation.steps else int(seconds)
            progress.advance(done - told)
            told = done
    if not taken:
        raise EvalError(
            f"--adapt {adaptation.minutes:g}: too short: compilation took {seconds / 60:.2g} minutes. Use more minutes"
        )
    weights = Weights(params=state.params, fixed=state.fixed, puzzle_table=state.puzzle_table)
    record = replace(restored.record, input_spec=spec)
    return Adapted(LoadedNetwork(record, restored.mesh, model, weights), taken, seconds)


def _config(restored: LoadedNetwork, train: Dataset, adaptation: Adaptation) -> RunConfig:
    """Return the run's configuration with constant rates (no warm-up or decay) and no fixed number of steps."""
    config = restored.record.config
    return replace(
        config,
        data=DataConfig(dataset=train.name, global_batch_size=config.data.global_batch_size),
        optim=replace(
            config.optim,
            freeze_weights=not adaptation.weights,
            lr_warmup_steps=0,
            lr_min_ratio=1.0,
            lr_schedule="cosine",
        ),
        total_steps=FOREVER,
    )


def _start(
    restored: LoadedNetwork, config: RunConfig, spec: InputSpec, *, same: bool
) -> tuple[Any, TrainState]:
    """Return the network, and the state before the first step, on the mesh.

    The embeddings are kept if the identifiers are the same.
    """
    model, _ = abstract_weights(config, spec)
    weights, table = restored.weights, restored.weights.puzzle_table
    if table is not None and not same:
        table = jnp.zeros((table_rows(spec.num_identifiers), table.shape[1]), table.dtype)

    def start(params: Any, fixed: Any, table: Any) -> TrainState:
        key = jax.random.key_data(jax.random.key(config.seed, impl=KEY_IMPLEMENTATION))
        return start_state(config, spec, config.data.global_batch_size, params, fixed, table, key)

    begins = jax.eval_shape(start, weights.params, weights.fixed, table)
    shardings = state_shardings(restored.mesh, begins)
    return model, jax.jit(start, out_shardings=shardings)(weights.params, weights.fixed, table)


def _is_over(adaptation: Adaptation, taken: int, seconds: float) -> bool:
    """Return whether another step, which would end at `seconds`, exceeds a limit."""
    if adaptation.steps is not None and taken >= adaptation.steps:
        return True
    return adaptation.minutes is not None and seconds > 60 * adaptation.minutes
