"""Puzzles that one dataset of a mixture trains on and another one tests.

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
    kinds = [dataset.manifest.kind for dataset in datasets]
    found: list[NDArray[np.bool_]] = []
    for dataset, kind in zip(datasets, kinds, strict=True):
        tested: set[str] = set()
        for other in datasets:
            if other is not dataset and other.manifest.kind == kind:
                for split in {"validation", "test"} & set(other.manifest.splits):
                    tested.update(_classes(open_dataset(other.name, layout, split), layout)[0])
        shared = np.zeros(len(dataset.groups.first_rows), np.bool_)
        if tested:
            hashes, groups = _classes(dataset, layout)
            shared[groups[[hash_ in tested for hash_ in hashes]]] = True
        found.append(shared)
    return found


def _classes(dataset: Dataset, layout: Layout) -> tuple[list[str], NDArray[np.int64]]:
    """Return the hashes that no other split may have, and the group of each, int64 [N]."""
    manifest, split, table = dataset.manifest, dataset.split, dataset.groups
    kind, count = load_kind(manifest.kind), len(table.first_rows)
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
