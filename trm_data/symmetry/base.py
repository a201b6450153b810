"""The interface of augmenters, the symmetry of the k-th augmentation of a puzzle, and rows in stored order.

Stored datasets use augmenters at build time, virtual ones in the loader. `make_rows` gives the rows of groups: each
original, then its augmentations, each with all its examples.

Neighbours: `kinds.sudoku.symmetry`, `symmetry.dihedral` and `kinds.arc.symmetry` have one each; `kinds` select that of
a dataset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import kernel
from trm_data.records import Groups, Rows
from trm_data.seeds.draws import Purpose
from trm_data.seeds.kernels import U1, feistel, feistel_keys


@dataclass(frozen=True)
class Made:
    """How rows were made. N rows.

    Attributes:
        elements: Index of the symmetry element of each row, int64 [N].
        offsets: Row and column offset of each grid, uint8 [N, 2]; None if the kind does not translate.
    """

    elements: NDArray[np.int64]
    offsets: NDArray[np.uint8] | None = None


Indices: TypeAlias = NDArray[np.int64]
"""A number for each row, [N]."""
Tokens: TypeAlias = NDArray[np.uint8]
"""Tokens of each row, [N, S]."""


class Augmenter(Protocol):
    """Makes rows of one split from its base puzzles, in any order. Pure and thread-safe."""

    def fill(self, groups: Indices, ks: Indices, examples: Indices, inputs: Tokens, labels: Tokens) -> Made:
        """Write the rows `examples` of the `ks`-th augmentations of `groups` into `inputs` and `labels`.

        Args:
            groups: Group of each row, int64 [N].
            ks: Augmentation of each row, as k of the keyed permutation, int64 [N].
            examples: Example of each row within the puzzle, int64 [N].
            inputs: Is overwritten with tokens, contiguous uint8 [N, S].
            labels: Is overwritten with tokens, contiguous uint8 [N, S].
        """
        ...


class Unchanged:
    """The augmenter of puzzles without augmentations: copies rows.

    Args:
        inputs: Tokens of all base examples, uint8 [E, S].
        labels: Tokens of all base examples, uint8 [E, S].
        first_examples: First example of each group, and E, int64 [G + 1].
    """

    def __init__(
        self, inputs: NDArray[np.uint8], labels: NDArray[np.uint8], first_examples: NDArray[np.int64]
    ) -> None:
        self._inputs, self._labels, self._first = inputs, labels, first_examples

    def fill(self, groups: Indices, ks: Indices, examples: Indices, inputs: Tokens, labels: Tokens) -> Made:
        """Write one row for each slot: its example, unchanged; every k is 0."""
        rows = self._first[groups] + examples
        np.take(self._inputs, rows, axis=0, out=inputs)
        np.take(self._labels, rows, axis=0, out=labels)
        return Made(np.zeros(len(rows), np.int64))


@kernel
def _fill_elements(
    keys: NDArray[np.uint64],
    groups: NDArray[np.int64],
    ks: NDArray[np.int64],
    others: np.uint64,
    elements: NDArray[np.int64],
) -> None:
    for n in range(groups.shape[0]):
        elements[n] = 0
        if ks[n] > 0:
            elements[n] = np.int64(U1 + feistel(keys[groups[n]], np.uint64(ks[n] - 1), others))


def keyed_elements(
    seed: int, names: NDArray[np.int64], groups: NDArray[np.int64], ks: NDArray[np.int64], order: int
) -> NDArray[np.int64]:
    """Return the index of the `ks[n]`-th augmentation of the puzzle named `names[groups[n]]`, int64 [N].

    Args:
        seed: Seed of the dataset.
        names: Numbers of the puzzles in keyed draws, int64 [G].
        groups: Puzzle of each augmentation, int64 [N].
        ks: Number of each augmentation, from 0 to order - 1, int64 [N].
        order: Number of elements with an index, the identity (0) included.
    """
    elements = np.empty(len(groups), np.int64)
    keys = feistel_keys(seed, Purpose.AUGMENT, names)
    _fill_elements(
        keys,
        np.ascontiguousarray(groups, np.int64),
        np.ascontiguousarray(ks, np.int64),
        np.uint64(order - 1),
        elements,
    )
    return elements


@dataclass(frozen=True)
class MadeRows:
    """How the rows of a shard were made: N rows of P augmented puzzles.

    Attributes:
        elements: Index of the symmetry of each augmented puzzle, int64 [P].
        offsets: Translation of each row, uint8 [N, 2]; None if the kind does not translate.
    """

    elements: NDArray[np.int64]
    offsets: NDArray[np.uint8] | None


def make_rows(
    augmenter: Augmenter, groups: Groups, start: int, stop: int, *, first_group: int, identifier_each: bool
) -> tuple[Rows, Made]:
    """Return all rows of the groups `start` to `stop`.

    Args:
        augmenter: The augmenter of `groups`.
        groups: Base puzzles.
        start: First group, within `groups`.
        stop: Group after the last.
        first_group: Number of the first of `groups` in its split.
        identifier_each: Whether every augmentation has its own identifier.
    """
    numbers = groups.numbered(start, stop)
    ks = groups.augmentations.ks(numbers.groups, numbers.augmentations)
    shape = (len(numbers), groups.inputs.shape[1])
    inputs, labels = np.empty(shape, np.uint8), np.empty(shape, np.uint8)
    made = augmenter.fill(numbers.groups, ks, numbers.examples, inputs, labels)
    identifiers = groups.first_identifiers[numbers.groups]
    if identifier_each:
        identifiers = identifiers + numbers.augmentations.astype(np.int32)
    rows = Rows(
        inputs=inputs,
        labels=labels,
        puzzle_identifiers=identifiers.astype(np.int32),
        groups=(numbers.groups + first_group).astype(np.int32),
        augmentations=numbers.augmentations.astype(np.int32),
        examples=numbers.examples.astype(np.int32),
    )
    return rows, made


def base_rows(groups: Groups, start: int, stop: int, *, first_group: int) -> Rows:
    """Return the base examples themselves, as a virtual dataset stores them."""
    first, last = int(groups.first_examples[start]), int(groups.first_examples[stop])
    examples = groups.examples_per_augmentation[start:stop]
    row_groups = np.repeat(np.arange(start, stop, dtype=np.int64), examples)
    return Rows(
        inputs=groups.inputs[first:last],
        labels=groups.labels[first:last],
        puzzle_identifiers=groups.first_identifiers[row_groups],
        groups=(row_groups + first_group).astype(np.int32),
        augmentations=np.zeros(last - first, np.int32),
        examples=(np.arange(first, last) - groups.first_examples[row_groups]).astype(np.int32),
    )
