"""Rows of groups in stored order: each original, then its augmentations, each with all its examples.

Input: base puzzles and their augmenter. Output: `Rows` for the shard writer, or for `verify` to compare.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trm_data.records import Groups, Rows
from trm_data.symmetry.base import Augmenter, Made


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
