"""Open one split of a built dataset and check it against its manifest; find puzzles that another dataset trains on.

Stored rows stay in memory if they fit a budget. A larger split is decoded once into a file under the root's cache
and memory-mapped, so the processes of a machine share it (`StoredRows`). A virtual dataset stores its base puzzles
and computes its rows (`VirtualRows`); both are in `loader.rows`.

Puzzles of two datasets are compared as a single build compares its splits: by the canonical hash under the symmetries
of the kind; for tasks (ARC) by the hash of each pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, SupportsIndex, cast, overload

import numpy as np
from numpy.typing import NDArray

from trm_data.catalog.read import read_hashes
from trm_data.errors import CorruptDatasetError, SpecError
from trm_data.kinds.base import BasePuzzles
from trm_data.kinds.registry import load_kind
from trm_data.loader.rows import Batch, GroupTable, RowReader
from trm_data.manifest import Manifest, read_manifest
from trm_data.records import Picks
from trm_data.show.drawing import Drawing
from trm_data.specs import SPLITS, Split
from trm_data.storage.root import Layout, Root, resolve_root

RESIDENT_BUDGET_BYTES = 1_000_000_000
READ_AT_ONCE = 1024
"""Number of rows that an iteration reads at a time."""
Row = dict[str, Any]
"""`inputs` uint8 [S], `labels` uint8 [S], `puzzle_identifiers` int32: one row of a `Batch`."""


@dataclass(frozen=True, repr=False)
class Puzzle:
    """One example as drawings.

    Attributes:
        puzzle: The input.
        solution: The label.
    """

    puzzle: Drawing
    solution: Drawing

    def __repr__(self) -> str:
        return self.puzzle.text()

    def _repr_html_(self) -> str:
        """Show puzzle and solution side by side in a notebook."""
        from trm_data.show.picture import svg_row

        return svg_row([("given", self.puzzle), ("solution", self.solution)])


@dataclass(frozen=True)
class Dataset:
    """One opened split of N rows of S cells: `dataset[i]` is a row, `dataset[a:b]` a batch, iteration gives every row.

    Attributes:
        manifest: The manifest of the whole dataset.
        split: The split.
        groups: Row ranges of the groups.
        reader: Reads the rows.
    """

    manifest: Manifest
    split: Split
    groups: GroupTable = field(repr=False)
    reader: RowReader = field(repr=False)

    def __len__(self) -> int:
        return self.manifest.splits[self.split].num_examples

    def __repr__(self) -> str:
        virtual = ", virtual" if self.virtual else ""
        return (
            f"Dataset({self.name!r}, split={self.split!r}, examples={len(self):,}, "
            f"groups={len(self.groups.first_rows):,}, sequence_length={self.sequence_length}{virtual})"
        )

    def _repr_html_(self) -> str:
        """Show the dataset's splits in a notebook."""
        from trm_data.card import summary_html

        return summary_html(self.manifest)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Row: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | NDArray[np.integer]) -> Batch: ...
    def __getitem__(self, index: SupportsIndex | slice | Sequence[int] | NDArray[np.integer]) -> Row | Batch:
        """Return a row by its number, or the batch of a slice or a list of numbers; negative ones count from the end.

        Raises:
            IndexError: There is no such row, or the numbers are not integers.
        """
        if isinstance(index, slice):
            return self.read(np.arange(*index.indices(len(self)), dtype=np.int64))
        if isinstance(index, SupportsIndex) and not isinstance(index, np.ndarray):
            row = index.__index__()
            if not -len(self) <= row < len(self):
                raise IndexError(f"row {row}: {self.name} has {len(self):,} in {self.split}, from 0")
            batch = self.read(np.array([row % len(self)]))
            return {name: column[0] for name, column in batch.items()}
        try:
            rows = np.asarray(index, None if len(index) else np.int64)
        except TypeError as error:
            raise IndexError(
                f"row {index!r}: expected a whole number, a slice or a list of whole numbers"
            ) from error
        # `read` refuses other types; a mask would become rows 0 and 1 here.
        return self.read(np.where(rows < 0, rows + len(self), rows) if rows.dtype.kind in "iu" else rows)

    def __iter__(self) -> Iterator[Row]:
        """Yield every row in order."""
        for begin in range(0, len(self), READ_AT_ONCE):
            batch = self[begin : begin + READ_AT_ONCE]
            for row in range(len(batch["inputs"])):
                yield {name: column[row] for name, column in batch.items()}

    def puzzle(self, row: int) -> Puzzle:
        """Return one row as drawings: text, or a picture in a notebook.

        Raises:
            IndexError: There is no such row.
        """
        example, kind = self[whole_number("row", row)], load_kind(self.manifest.kind)
        spec = self.manifest.spec
        drawings = (kind.draw(example[name].astype(np.uint8), spec) for name in ("inputs", "labels"))
        return Puzzle(*drawings)

    @property
    def name(self) -> str:
        """Name of the dataset."""
        return self.manifest.name

    @property
    def virtual(self) -> bool:
        """Whether augmented rows are computed on demand."""
        return self.manifest.virtual

    @property
    def sequence_length(self) -> int:
        """Cells S of a row."""
        return self.manifest.sequence_length

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens, PAD included."""
        return self.manifest.vocabulary_size

    @property
    def num_identifiers(self) -> int:
        """Rows of the puzzle-embedding table, the blank one included."""
        return self.manifest.num_identifiers

    @property
    def content_digest(self) -> str:
        """Digest of the whole dataset's rows."""
        return self.manifest.content_digest

    @property
    def split_digest(self) -> str:
        """Digest of this split's rows."""
        return self.manifest.splits[self.split].digest

    @property
    def epoch_examples(self) -> int:
        """Examples of one epoch: one augmentation of every group."""
        return self.groups.epoch_examples

    def gather(self, picks: Picks) -> Batch:
        """Return the picked rows as a batch."""
        return self.reader.gather(picks)

    def read(self, rows: NDArray[np.int64]) -> Batch:
        """Return the rows with these numbers as a batch.

        Raises:
            IndexError: There is no such row, or the numbers are not integers.
        """
        given = np.asarray(rows)
        if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
            raise IndexError(f"rows: got {given.dtype} of shape {given.shape}, expected whole numbers [N]")
        rows = given.astype(np.int64)
        if len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < len(self)):
            raise IndexError(f"rows {rows.min()} to {rows.max()}: {self.name} has {len(self):,}, from 0")
        return self.reader.gather(self.groups.picks(rows))


def whole_number(what: str, value: object) -> int:
    """Return an index as an int, from any type with `__index__`.

    Raises:
        IndexError: It is not an integer; `what` names the index in the message.
    """
    if not isinstance(value, SupportsIndex):
        raise IndexError(f"{what} {value!r}: expected a whole number")
    return value.__index__()


def open_dataset(
    name: str,
    root: Root | None = None,
    split: str = "train",
    *,
    budget_bytes: int = RESIDENT_BUDGET_BYTES,
) -> Dataset:
    """Open one split of a dataset.

    Args:
        name: A built dataset (`trm-data list`).
        root: Root folder, `gs://bucket/prefix`, a layout or a store; default: `$TRM_ROOT`, else `./trm`.
        split: `train`, `validation` or `test`.
        budget_bytes: Larger splits are memory-mapped from a file instead of held in memory.

    Raises:
        DatasetNotFoundError: There is no such dataset.
        SpecError: It has no such split.
        CorruptDatasetError: A file is missing or changed; the message says which.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SpecError(f"open_dataset: got {type(name).__name__}; expected the name of a dataset")
    if root in SPLITS and not Path(str(root)).is_dir():
        raise SpecError(
            f"open_dataset({name!r}, {root!r}): the second argument is the root (use split={root!r})"
        )
    layout = resolve_root(root)
    manifest = read_manifest(layout, name)
    if split not in manifest.splits:
        raise SpecError(f"dataset {name} has no split {split!r}: it has {', '.join(manifest.splits)}")
    opened = cast(Split, split)
    if manifest.virtual:
        from trm_data.loader.rows import open_virtual

        groups, reader = open_virtual(layout.dataset(manifest.name), manifest, opened)
    else:
        from trm_data.loader.rows import open_stored

        groups, reader = open_stored(layout.dataset(manifest.name), manifest, opened, budget_bytes)
    return Dataset(manifest, opened, groups, reader)


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
