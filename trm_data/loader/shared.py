"""Puzzles that a run trains on in one dataset and tests in another one.

Puzzles are compared as a single build compares its splits: by the canonical hash under the symmetries of the kind; for
tasks (ARC) by the hash of each pair.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trm_data.catalog.read import read_hashes
from trm_data.errors import CorruptDatasetError, SpecError
from trm_data.kinds.base import BasePuzzles
from trm_data.kinds.registry import load_kind
from trm_data.loader.dataset import Dataset, open_dataset
from trm_data.loader.rows import Picks
from trm_data.storage.root import Layout


def groups_tested_elsewhere(datasets: Sequence[Dataset], layout: Layout) -> list[NDArray[np.bool_]]:
    """Return for each training split which groups are in the validation or test split of another dataset, bool [G]."""
    found: list[NDArray[np.bool_]] = []
    for dataset in datasets:
        shared = np.zeros(len(dataset.groups.first_rows), np.bool_)
        for other in (other for other in datasets if other is not dataset):
            for split in {"validation", "test"} & set(other.manifest.splits):
                shared |= groups_in(dataset, open_dataset(other.name, layout, split), layout)
        found.append(shared)
    return found


def groups_in(dataset: Dataset, other: Dataset, layout: Layout) -> NDArray[np.bool_]:
    """Return which groups of a split are in another split, up to symmetry, bool [G]; none of another kind are."""
    shared = np.zeros(len(dataset.groups.first_rows), np.bool_)
    if _kind_of(dataset) == _kind_of(other):
        held = set(_classes(other, layout)[0])
        hashes, groups = _classes(dataset, layout)
        shared[groups[[hash_ in held for hash_ in hashes]]] = True
    return shared


def _kind_of(dataset: Dataset) -> str:
    """Return the kind whose rules the rows have; that of imported rows may be another one, or none."""
    return getattr(dataset.manifest.spec.options, "of", "") or dataset.manifest.kind


def _classes(dataset: Dataset, layout: Layout) -> tuple[list[str], NDArray[np.int64]]:
    """Return the hashes that no other split may have, and the group of each, int64 [N]."""
    manifest, split, table = dataset.manifest, dataset.split, dataset.groups
    kind, count = load_kind(_kind_of(dataset)), len(table.first_rows)
    if not kind.voted:
        return read_hashes(layout.dataset(manifest.name), manifest, split), np.arange(count)
    groups = np.repeat(np.arange(count), table.num_examples)
    first_examples = np.concatenate([[0], np.cumsum(table.num_examples)])
    examples = np.arange(len(groups)) - first_examples[groups]
    rows = dataset.read(table.rows(Picks(groups, np.zeros_like(groups), examples)))
    inputs, labels = kind.undo_unrecorded_translation(
        rows["inputs"].astype(np.uint8), rows["labels"].astype(np.uint8)
    )
    puzzles = BasePuzzles(inputs, labels, first_examples, 0, {"task": [""] * count})
    checked = kind.check_puzzles(manifest.spec, split, puzzles)
    if len(checked.classes) != len(groups):
        raise CorruptDatasetError(f"{manifest.name}: {', '.join(checked.problems)}")
    return [hash_ for _, hash_ in checked.classes], groups


def shared_puzzles_error(datasets: Sequence[Dataset], shared: Sequence[NDArray[np.bool_]]) -> SpecError:
    """Return the error for a mixture that trains on puzzles of its own validation or test splits."""
    counts = ", ".join(
        f"{int(groups.sum()):,} of {len(groups):,} of {dataset.name} (the first: group {int(groups.argmax())})"
        for dataset, groups in zip(datasets, shared, strict=True)
        if groups.any()
    )
    return SpecError(
        "mixture: training puzzles are in the validation or test split of another of its datasets, up to symmetry "
        f"({counts}). Leave them out of the training rows: --data.shared-puzzles drop, or "
        'open_mixture(..., shared_puzzles="drop")'
    )
