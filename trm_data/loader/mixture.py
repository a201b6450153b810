"""Several datasets as one, for multi-task training: one token space, one sequence length, exact proportions.

Input: opened datasets and weights. Output: batches with a column `tasks`, through the same `make_loader`.

Tokens: PAD is 0 for all; behind it every kind has a range of its own (datasets of one kind and vocabulary share it),
so a token means the same in every batch. Rows are padded with PAD to the longest sequence. Identifiers: every dataset
has a range of its own, its blank identifier included. Tasks: the position of the dataset in the mixture.

Order: of n slots the first half of the datasets fills its share, rounded, and the second half the others; each half is
divided likewise, down to single datasets. So what a dataset has filled never falls as n grows, and any window of slots
holds its share within ceil(log2 D) slots of D datasets (one slot for two), whatever the window's length. Which slots
of a batch those are is a keyed shuffle. Each dataset's own stream is that of training on it alone. So a batch is a pure
function of (datasets, weights, seed, batch size, step), for any number of hosts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import SpecError
from trm_data.loader.component import Component, component_of, identifiers_of, place, vocabulary_of
from trm_data.loader.dataset import RESIDENT_BUDGET_BYTES, Dataset, open_dataset
from trm_data.loader.plan import BatchPlan
from trm_data.loader.rows import Batch
from trm_data.seeds.draws import Purpose
from trm_data.seeds.kernels import shuffled
from trm_data.storage.root import Root

_FINEST_WEIGHT = 1_000_000


@dataclass(frozen=True)
class Mixture:
    """Several opened datasets with weights.

    Attributes:
        datasets: The datasets; their position is the task id.
        weights: Share of the slots of each, adding up to 1.
        components: Where the rows of each are among those of all.
        sequence_length: Cells S of a row: those of the longest.
    """

    datasets: tuple[Dataset, ...]
    weights: tuple[Fraction, ...]
    components: tuple[Component, ...] = field(repr=False)
    sequence_length: int

    @property
    def token_offsets(self) -> tuple[int, ...]:
        """What is added to the tokens of each dataset, PAD aside."""
        return tuple(each.token_offset for each in self.components)

    @property
    def identifier_offsets(self) -> tuple[int, ...]:
        """What is added to the puzzle identifiers of each."""
        return tuple(each.identifier_offset for each in self.components)

    @property
    def vocabulary_size(self) -> int:
        """Tokens of all, PAD included."""
        return vocabulary_of(self.components)

    @property
    def num_identifiers(self) -> int:
        """Rows of the puzzle-embedding table of all."""
        return identifiers_of(self.components)

    @property
    def epoch_examples(self) -> int:
        """Slots in which every dataset has gone through at least one epoch of its own."""
        pairs = zip(self.datasets, self.weights, strict=True)
        return max(math.ceil(dataset.epoch_examples / weight) for dataset, weight in pairs)

    def filled(self, slots: int) -> NDArray[np.int64]:
        """How many of the first `slots` slots of the stream each dataset fills, int64 [D]."""
        return np.array(_divided(slots, self.weights), np.int64)


def _divided(slots: int, weights: tuple[Fraction, ...]) -> list[int]:
    """`slots` divided in proportion, half by half; no part falls as `slots` grows."""
    if len(weights) == 1:
        return [slots]
    middle = len(weights) // 2
    share = sum(weights[:middle], Fraction(0)) / sum(weights, Fraction(0))
    left = math.floor(slots * share + Fraction(1, 2))
    return [*_divided(left, weights[:middle]), *_divided(slots - left, weights[middle:])]


def make_mixture(datasets: Mapping[Dataset, float] | list[tuple[Dataset, float]]) -> Mixture:
    """A mixture of opened datasets.

    Args:
        datasets: Datasets and their weights, any positive numbers.

    Raises:
        SpecError: No dataset, a weight that is not positive, or more than 256 tokens.
    """
    pairs = list(datasets.items()) if isinstance(datasets, Mapping) else list(datasets)
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
    budget_bytes: int = RESIDENT_BUDGET_BYTES,
) -> Mixture:
    """Open datasets by name and mix them.

    Args:
        weights: Names of built datasets and their weights.
        root: Folder of everything, `gs://bucket/prefix`, a layout or a store; else `$TRM_ROOT`, else `./trm`.
        split: `train`, `validation` or `test`.
        budget_bytes: Memory for decoded rows of all of them together.

    Raises:
        DatasetNotFoundError: There is no such dataset.
        SpecError: A weight that is not positive, or a split that a dataset does not have.
        CorruptDatasetError: A file is missing or changed.
    """
    if not isinstance(weights, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SpecError(
            f"a mixture: names and their weights, such as {{'mine': 3, 'others': 1}}, got {weights!r}"
        )
    share = budget_bytes // max(1, len(weights))
    return make_mixture(
        [(open_dataset(name, root, split, budget_bytes=share), weight) for name, weight in weights.items()]
    )


@dataclass(frozen=True)
class EncodedSplit:
    """A split of one dataset of a mixture, whose rows are read as rows of the mixture.

    Attributes:
        dataset: The split.
        component: Where its rows are in the mixture.
        sequence_length: Cells of the mixture's rows.
    """

    dataset: Dataset
    component: Component
    sequence_length: int

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, rows: NDArray[np.int64]) -> Batch:
        """The rows of these numbers as a batch."""
        return self.component.encode(self.dataset.read(rows), self.sequence_length)


@dataclass
class MixturePlan:
    """The batches of a mixture, slot by slot.

    Args:
        mixture: What is mixed.
        seed: Any number from 0 to 2^63 - 1.
        global_batch_size: Slots of a batch, over all hosts.
    """

    mixture: Mixture
    seed: int
    global_batch_size: int

    def __post_init__(self) -> None:
        self._plans = [
            BatchPlan(dataset.groups, self.seed, self.global_batch_size) for dataset in self.mixture.datasets
        ]

    def batch(self, step: int, start: int, stop: int) -> Batch:
        """The slots `start` to `stop` of the global batch at `step`."""
        mixture = self.mixture
        size = self.global_batch_size
        before, after = mixture.filled(step * size), mixture.filled((step + 1) * size)
        counts = after - before
        # Slot order[j] holds the j-th example, counted through the datasets one after the other.
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
            own = dataset.gather(picks.take(wanted[slots] - bounds[task]))
            batch = mixture.components[task].encode(own, mixture.sequence_length)
            inputs[slots], labels[slots] = batch["inputs"], batch["labels"]
            identifiers[slots] = batch["puzzle_identifiers"]
        return {"inputs": inputs, "labels": labels, "puzzle_identifiers": identifiers, "tasks": tasks}
