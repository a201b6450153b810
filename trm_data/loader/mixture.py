"""Several datasets as one, for multi-task training: one token space, one sequence length, exact proportions.

Input: opened datasets and weights. Output: batches with a column `tasks`, through the same `make_loader`.

Tokens: PAD is 0 for all. Every kind has its own range after it (datasets of one kind and vocabulary share a range),
so a token has the same meaning in every batch. Rows are padded with PAD to the longest sequence. Identifiers: every
dataset has its own range, its blank identifier included. Tasks: the position of the dataset in the mixture.

Order: the first half of the datasets fills its share of n slots, rounded, and the second half fills the rest. Each
half is divided the same way, down to single datasets. So the number of slots of a dataset never falls as n grows. Any
window of slots holds its share within ceil(log2 D) slots of D datasets (one slot for two), whatever its length. A keyed
shuffle chooses the slots within a batch. Each dataset's stream equals that of training on it alone. So a batch is a
pure function of (datasets, weights, seed, batch size, step), for any number of hosts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import SpecError
from trm_data.loader.component import (
    Component,
    SharedPuzzles,
    component_of,
    identifiers_of,
    place,
    vocabulary_of,
)
from trm_data.loader.dataset import (
    RESIDENT_BUDGET_BYTES,
    Dataset,
    groups_tested_elsewhere,
    open_dataset,
    shared_puzzles_error,
)
from trm_data.loader.plan import BatchPlan
from trm_data.loader.rows import Batch, GroupTable
from trm_data.seeds.draws import Purpose
from trm_data.seeds.kernels import shuffled
from trm_data.storage.root import Root, resolve_root

_FINEST_WEIGHT = 1_000_000


@dataclass(frozen=True)
class Mixture:
    """Several opened datasets with weights.

    Attributes:
        datasets: The datasets; their position is the task id.
        weights: Share of the slots of each dataset; they add up to 1.
        components: Token and identifier ranges of each dataset.
        sequence_length: Cells S of a row: those of the longest sequence.
        dropped: Groups of each dataset that are left out of the batches, bool [G] each; () leaves out none.
    """

    datasets: tuple[Dataset, ...]
    weights: tuple[Fraction, ...]
    components: tuple[Component, ...] = field(repr=False)
    sequence_length: int
    dropped: tuple[NDArray[np.bool_], ...] = field(default=(), repr=False)

    def kept(self, task: int) -> tuple[GroupTable, NDArray[np.int64]]:
        """Return the groups of a dataset that the batches hold, and their numbers in the dataset, int64 [G]."""
        table = self.datasets[task].groups
        if not self.dropped:
            return table, np.arange(len(table.first_rows))
        numbers = np.flatnonzero(~self.dropped[task])
        return table.take(numbers), numbers

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens of all datasets, PAD included."""
        return vocabulary_of(self.components)

    @property
    def num_identifiers(self) -> int:
        """Rows of the puzzle-embedding table for all datasets."""
        return identifiers_of(self.components)

    @property
    def epoch_examples(self) -> int:
        """Number of slots after which every dataset has completed at least one epoch."""
        return max(
            math.ceil(self.kept(task)[0].epoch_examples / weight) for task, weight in enumerate(self.weights)
        )

    def filled(self, slots: int) -> NDArray[np.int64]:
        """Return the number of the first `slots` slots of the stream that each dataset fills, int64 [D]."""
        return np.array(_divided(slots, self.weights), np.int64)


def _divided(slots: int, weights: tuple[Fraction, ...]) -> list[int]:
    """Divide `slots` in proportion, half by half; no part falls as `slots` grows."""
    if len(weights) == 1:
        return [slots]
    middle = len(weights) // 2
    share = sum(weights[:middle], Fraction(0)) / sum(weights, Fraction(0))
    left = math.floor(slots * share + Fraction(1, 2))
    return [*_divided(left, weights[:middle]), *_divided(slots - left, weights[middle:])]


def make_mixture(pairs: Sequence[tuple[Dataset, float]]) -> Mixture:
    """Return a mixture of opened datasets.

    Args:
        pairs: Datasets and their weights, any positive numbers.

    Raises:
        SpecError: No dataset is given, a weight is not positive, or there are more than 256 tokens.
    """
    if not pairs:
        raise SpecError("a mixture needs at least one dataset")
    for dataset, weight in pairs:
        is_number = isinstance(weight, int | float | Fraction)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_number or not 0 < weight < math.inf:
            raise SpecError(f"weight {weight} of {dataset.name}: expected a positive number")
    exact = [Fraction(weight).limit_denominator(_FINEST_WEIGHT) for _, weight in pairs]
    if not all(exact):
        raise SpecError(f"weights {[weight for _, weight in pairs]}: the smallest is below 1e-6")
    total = sum(exact, Fraction(0))
    return Mixture(
        tuple(dataset for dataset, _ in pairs),
        tuple(weight / total for weight in exact),
        place([component_of(dataset.manifest) for dataset, _ in pairs]),
        max(dataset.sequence_length for dataset, _ in pairs),
    )


def open_mixture(
    weights: Mapping[str, float],
    root: Root | None = None,
    split: str = "train",
    *,
    shared_puzzles: SharedPuzzles = "refuse",
) -> Mixture:
    """Open datasets by name and mix them.

    A training mixture must not train on what it is tested on: puzzles of a dataset that are in the validation or test
    split of another one, up to symmetry, are refused or left out. (ARC-1's test tasks: 376 of 400 are in ARC-2's
    training set.)

    Args:
        weights: Names of built datasets and their weights.
        root: Root folder, `gs://bucket/prefix`, a layout or a store; default: `$TRM_ROOT`, else `./trm`.
        split: `train`, `validation` or `test`.
        shared_puzzles: `refuse` raises SpecError for training puzzles that another dataset tests; `drop` leaves them
            out of the batches.

    Raises:
        DatasetNotFoundError: There is no such dataset.
        SpecError: A weight is not positive, a dataset does not have the split, or puzzles are shared across splits.
        CorruptDatasetError: A file is missing or changed.
    """
    if not isinstance(weights, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SpecError(
            f"a mixture: names and their weights, such as {{'mine': 3, 'others': 1}}, got {weights!r}"
        )
    if shared_puzzles not in get_args(SharedPuzzles):
        raise SpecError(f"shared_puzzles: expected refuse or drop (got {shared_puzzles!r})")
    share, layout = RESIDENT_BUDGET_BYTES // max(1, len(weights)), resolve_root(root)
    mixture = make_mixture(
        [(open_dataset(name, layout, split, budget_bytes=share), weight) for name, weight in weights.items()]
    )
    if split != "train":
        return mixture
    shared = groups_tested_elsewhere(mixture.datasets, layout)
    if not any(groups.any() for groups in shared):
        return mixture
    if shared_puzzles == "refuse":
        raise shared_puzzles_error(mixture.datasets, shared)
    if emptied := [
        dataset.name for dataset, groups in zip(mixture.datasets, shared, strict=True) if groups.all()
    ]:
        raise SpecError(
            f"{emptied[0]}: other datasets of the mixture test all of its training puzzles. Leave it out"
        )
    return replace(mixture, dropped=tuple(shared))


@dataclass(frozen=True)
class EncodedSplit:
    """A split of one dataset, whose rows are read as rows of the mixture.

    Attributes:
        dataset: The split.
        component: Its token and identifier ranges in the mixture.
        sequence_length: Cells of the mixture's rows.
    """

    dataset: Dataset
    component: Component
    sequence_length: int

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, rows: NDArray[np.int64]) -> Batch:
        """Return the rows with these numbers as a batch."""
        return self.component.encode(self.dataset.read(rows), self.sequence_length)


@dataclass
class MixturePlan:
    """Batches of a mixture, computed slot by slot.

    Args:
        mixture: The mixture.
        seed: Any number from 0 to 2^63 - 1.
        global_batch_size: Slots of a batch, over all hosts.
    """

    mixture: Mixture
    seed: int
    global_batch_size: int

    def __post_init__(self) -> None:
        kept = [self.mixture.kept(task) for task in range(len(self.mixture.datasets))]
        self._plans = [BatchPlan(table, self.seed, self.global_batch_size) for table, _ in kept]
        self._numbers = [numbers for _, numbers in kept]

    def batch(self, step: int, start: int, stop: int) -> Batch:
        """Return the slots `start` to `stop` of the global batch at `step`."""
        mixture = self.mixture
        size = self.global_batch_size
        before, after = mixture.filled(step * size), mixture.filled((step + 1) * size)
        counts = after - before
        # Slot order[j] holds the j-th example, counted through the datasets one after another.
        order = shuffled(self.seed, Purpose.MIXTURE, step, 0, size)
        place = np.empty(size, np.int64)
        place[order] = np.arange(size)
        wanted = place[start:stop]
        bounds = np.concatenate([[0], np.cumsum(counts)])
        tasks = (np.searchsorted(bounds, wanted, side="right") - 1).astype(np.int32)
        shape = (stop - start, mixture.sequence_length)
        inputs, labels = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        identifiers = np.empty(stop - start, np.int32)
        for task, dataset in enumerate(mixture.datasets):
            slots = np.flatnonzero(tasks == task)
            if not len(slots):
                continue
            picks = self._plans[task].stream(int(before[task]), int(counts[task]))
            own = picks.take(wanted[slots] - bounds[task])
            own = dataset.gather(replace(own, groups=self._numbers[task][own.groups]))
            batch = mixture.components[task].encode(own, mixture.sequence_length)
            inputs[slots], labels[slots] = batch["inputs"], batch["labels"]
            identifiers[slots] = batch["puzzle_identifiers"]
        return {"inputs": inputs, "labels": labels, "puzzle_identifiers": identifiers, "tasks": tasks}
