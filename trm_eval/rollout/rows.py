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
from trm_train.step.answers import Answers

Identifiers = Literal["own", "blank", "random"]


def choose_rows(count: int, limit: int, seed: int | None) -> NDArray[np.int64]:
    """Rows of a split of `count`, in order: all, the first `limit` of them, or as many drawn by a seed.

    A larger draw of the same seed holds the smaller one.
    """
    if not limit or limit >= count:
        return np.arange(count, dtype=np.int64)
    if seed is None:
        return np.arange(limit, dtype=np.int64)
    return np.sort(np.random.default_rng(seed).permutation(count)[:limit]).astype(np.int64)


@dataclass(frozen=True)
class RowReader:
    """A split whose batches say which row is which (`row`, int32 [n]), under its own puzzle identifiers or others.

    Batches are in the encoding of the network: where it learned a mixture, padded and moved to the dataset's place.

    Attributes:
        dataset: The split.
        identifiers: `own`; `blank`, identifier 0 everywhere; or `random`, one of the others for each row.
        num_identifiers: Identifiers that the rows may have, the blank one included.
        component: Where the dataset is in the mixture that the network learned; None where it learned one dataset.
        sequence_length: Cells of the mixture's rows.
    """

    dataset: Dataset
    identifiers: Identifiers
    num_identifiers: int
    component: Component | None = None
    sequence_length: int = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, rows: NDArray[np.int64]) -> Batch:
        """Rows of these numbers as a batch."""
        batch = {**self.dataset.read(rows), "row": rows.astype(np.int32)}
        if self.identifiers == "blank":
            batch["puzzle_identifiers"] = np.zeros(len(rows), np.int32)
        elif self.identifiers == "random" and self.num_identifiers > 1:
            batch["puzzle_identifiers"] = self._random[rows]
        return batch if self.component is None else self.component.encode(batch, self.sequence_length)

    def decode(self, tokens: NDArray[np.integer]) -> NDArray[np.uint8]:
        """What the network says in its cells [..., S] as tokens of the dataset's own cells."""
        return tokens.astype(np.uint8) if self.component is None else self.component.decode(tokens)

    @cached_property
    def _random(self) -> NDArray[np.int32]:
        """An identifier for every row, always the same."""
        return np.random.default_rng(0).integers(1, self.num_identifiers, len(self.dataset), np.int32)

    def shapes(self, size: int, placed: jax.sharding.Sharding) -> dict[str, jax.ShapeDtypeStruct]:
        """Shapes, types and layout of a batch of this many rows, with its `weight`."""
        some = {**self.read(np.zeros(1, np.int64)), "weight": np.ones(1, bool)}
        return {
            name: jax.ShapeDtypeStruct((size, *values.shape[1:]), values.dtype, sharding=placed)
            for name, values in some.items()
        }


@dataclass(frozen=True)
class Sampled:
    """What several samples a row add, of K samples and n rows.

    Attributes:
        chosen: Number of the sample that answers, from 0, int32 [n].
        oracle: Whether any sample is exact, bool [n].
        exact_by_samples: Rows whose answer, chosen among the first 1, 2, ... K samples, is exact, int64 [K].
        oracle_by_samples: Rows of which one of the first 1, 2, ... K samples is exact, int64 [K].
        scaling: The last two after each of D numbers of steps, int64 [D, K] each; None where not asked for.
        course: Right answers (of rows and samples) after every step, those that were right at some step so far, and
            those of them that are no longer, int64 [steps] each; None where not asked for.
    """

    chosen: NDArray[np.int32]
    oracle: NDArray[np.bool_]
    exact_by_samples: NDArray[np.int64]
    oracle_by_samples: NDArray[np.int64]
    scaling: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    course: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None = None


def retention(right: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of answers that are right after each step, bool [steps, ...]: right now, right so far, right before and not now.

    Each is int64 [steps].
    """
    ever = np.maximum.accumulate(right, axis=0)
    others = tuple(range(1, right.ndim))
    return right.sum(axis=others), ever.sum(axis=others), (ever & ~right).sum(axis=others)


@dataclass(frozen=True)
class Inferred:
    """Predictions for some rows of a split, n of S cells.

    Attributes:
        rows: Of the split, in order, int64 [n].
        predictions: Tokens, uint8 [n, S].
        q_halt_logits: After the last supervision step, float32 [n].
        halt_steps: First supervision step with a halting logit above 0, int32 [n]; 0 where there is none.
        steps: Supervision steps spent on the answer, int32 [n].
        wrong_by_step: Labelled cells that are wrong after every supervision step, int32 [steps, n]; None where rows
            are not all given the same steps, or are answered several times.
        metrics: Sums over the rows, as `trm_train.metrics.sums` defines them.
        seconds: Wall-clock time they took.
        spent: Supervision steps that the rows were thought about in all, samples included.
        sampled: What samples add; None without.
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
    """Sums over the rows of answers, those with labels."""
    labelled, right = answers.labelled_cells > 0, answers.wrong_cells == 0
    return {
        "count": int(labelled.sum()),
        "exact_accuracy": int((right & labelled).sum()),
        "q_halt_accuracy": int((((answers.q_halt_logits >= 0) == right) & labelled).sum()),
        "lm_loss": float(answers.lm_loss[labelled].sum(dtype=np.float64)),
    }
