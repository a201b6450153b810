"""A small network whose rows halt at different supervision steps, with real rows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.trm_eval.conftest import Evaluated
from trm_data.loader.dataset import open_dataset
from trm_eval.infer import LoadedNetwork, restore
from trm_eval.rollout import RowReader

STEPS = 6
"""Maximum number of supervision steps in these tests."""


@dataclass(frozen=True)
class Restless:
    """A network that halts at different steps, and the rows of the training split."""

    restored: LoadedNetwork
    reader: RowReader

    @property
    def rows(self) -> np.ndarray:
        """All row numbers."""
        return np.arange(len(self.reader), dtype=np.int64)


@pytest.fixture(scope="session")
def restless(evaluated: Evaluated) -> Restless:
    restored = restore(evaluated.folder, evaluated.record, step=12, weights="ema")
    weights = restored.weights
    head = weights.params["q_head"]
    leaves, tree = jax.tree_util.tree_flatten(head)
    rng = np.random.default_rng(0)
    loud = [
        jnp.asarray(rng.normal(0, 1, leaf.shape) if leaf.ndim > 1 else np.full(leaf.shape, -0.2), leaf.dtype)
        for leaf in leaves
    ]
    params = {**weights.params, "q_head": jax.tree_util.tree_unflatten(tree, loud)}
    restored = dataclasses.replace(restored, weights=dataclasses.replace(weights, params=params))
    train = open_dataset("small", evaluated.layout, "train")
    return Restless(restored, RowReader(train, "own", evaluated.record.input_spec.num_identifiers))
