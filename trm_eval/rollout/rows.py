"""Rows and identifiers of an evaluation, and their results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import jax
import numpy as np
from numpy.typing import NDArray

from trm_data.loader.component import Component
from trm_data.loader.dataset import Dataset
from trm_data.loader.rows import Batch
from trm_train.step.sample import Answers

Identifiers = Literal["own", "blank", "random"]


def choose_rows(count: int, limit: int, seed: int | None) -> NDArray[np.int64]:
    """Return row numbers of a split, in order: all, the first `limit`, or `limit` rows drawn by a seed.

    A larger draw with the same seed contains the smaller one.
    """
    if not limit or limit >= count:
        return np.arange(count, dtype=np.int64)
    if seed is None:
        return np.arange(limit, dtype=np.int64)
    return np.sort(np.random.default_rng(seed).permutation(count)[:limit]).astype(np.int64)


@dataclass(frozen=True)
class RowReader:
    """Reader of a split whose batches include row numbers (`row`, int32 [n]), with its own or other identifiers.

    Batches are in the encoding of the network; for a mixture, they are padded and shifted by the dataset's offsets.

    Attributes:
        dataset: Split to read.
        identifiers: `own`; `blank`, identifier 0 for all; or `random`, a random identifier for each row.
        num_identifiers: Number of possible identifiers, the blank one included.
        component: The dataset's component in the mixture that the network learned; None if it learned one dataset.
        sequence_length: Number of cells in the mixture's rows.
    """

    dataset: Dataset
    identifiers: Identifiers
    num_identifiers: int
    component: Component | None = None
    sequence_length: int = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, rows: NDArray[np.int64]) -> Batch:
        """Read the rows with these numbers as a batch."""
        batch = {**self.dataset.read(rows), "row": rows.astype(np.int32)}
        if self.identifiers == "blank":
            batch["puzzle_identifiers"] = np.zeros(len(rows), np.int32)
        elif self.identifiers == "random" and self.num_identifiers > 1:
            batch["puzzle_identifiers"] = self._random[rows]
        return batch if self.component is None else self.component.encode(batch, self.sequence_length)

    def decode(self, tokens: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Convert the network's tokens [..., S] to the dataset's own tokens and cells."""
        return tokens.astype(np.uint8) if self.component is None else self.component.decode(tokens)

    @cached_property
    def _random(self) -> NDArray[np.int32]:
        """A random identifier for every row, always the same."""
        return np.random.default_rng(0).integers(1, self.num_identifiers, len(self.dataset), np.int32)

    def shapes(self, size: int, placed: jax.sharding.Sharding) -> dict[str, jax.ShapeDtypeStruct]:
        """Return shapes, types and shardings of a batch of this size, with its `weight`."""
        some = {**self.read(np.zeros(1, np.int64)), "weight": np.ones(1, bool)}
        return {
            name: jax.ShapeDtypeStruct((size, *values.shape[1:]), values.dtype, sharding=placed)
            for name, values in some.items()
        }


@dataclass(frozen=True)
class Sampled:
    """Additional results of sampling, for K samples and n rows.

    Attributes:
        chosen: Number of the chosen sample, from 0, int32 [n].
        oracle: Whether any sample is exact, bool [n].
        exact_by_samples: Number of rows whose answer, chosen among the first 1, 2, ... K samples, is exact, int64 [K].
        oracle_by_samples: Number of rows with an exact answer among the first 1, 2, ... K samples, int64 [K].
        scaling: The previous two after each of D numbers of steps, int64 [D, K] each; None if not requested.
        course: Counts of answers (of rows and samples) after every step: correct now, correct at some step so far, and
            lost again; int64 [steps] each. None if not requested.
    """

    chosen: NDArray[np.int32]
    oracle: NDArray[np.bool_]
    exact_by_samples: NDArray[np.int64]
    oracle_by_samples: NDArray[np.int64]
    scaling: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    course: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None = None


def retention(right: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return counts for answers that are correct after each step, bool [steps, ...]: now, so far, and lost again.

    Each is int64 [steps].
    """
    ever = np.maximum.accumulate(right, axis=0)
    others = tuple(range(1, right.ndim))
    return right.sum(axis=others), ever.sum(axis=others), (ever & ~right).sum(axis=others)


@dataclass(frozen=True)
class Inferred:
    """Predictions for n rows of a split, with S cells.

    Attributes:
        rows: Row numbers in the split, in order, int64 [n].
        predictions: Tokens, uint8 [n, S].
        q_halt_logits: Halting logits after the last supervision step, float32 [n].
        halt_steps: First supervision step with a halting logit above 0, int32 [n]; 0 if none.
        steps: Number of supervision steps spent on the answer, int32 [n].
        wrong_by_step: Number of wrong labelled cells after every supervision step, int32 [steps, n]; None if rows have
            different numbers of steps or several samples.
        metrics: Sums over the rows, as `trm_train.metrics.sums` defines them.
        seconds: Wall-clock time for these rows (s).
        spent: Total number of supervision steps for these rows, samples included.
        sampled: Additional results of sampling; None without sampling.
    """

    rows: NDArray[np.int64]
    predictions: NDArray[np.uint8]
    q_halt_logits: NDArray[np.float32]
    halt_steps: NDArray[np.int32]
    steps: NDArray[np.int32]
    wrong_by_step: NDArray[np.int32] | None
    metrics: dict[str, float]
    seconds: float
    spent: int
    sampled: Sampled | None = None


def metrics_of(answers: Answers) -> dict[str, float]:
    """Return metric sums over the rows with labels."""
    labelled, right = answers.labelled_cells > 0, answers.wrong_cells == 0
    return {
        "count": int(labelled.sum()),
        "exact_accuracy": int((right & labelled).sum()),
        "q_halt_accuracy": int((((answers.q_halt_logits >= 0) == right) & labelled).sum()),
        "lm_loss": float(answers.lm_loss[labelled].sum(dtype=np.float64)),
    }
