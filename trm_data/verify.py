"""Checks a dataset against its manifest, and its puzzles against the rules, and says all that is wrong.

Nothing is trusted but the manifest's own digest: files are hashed, rows decoded and counted, the content digest
computed again, every base puzzle checked by its kind, every augmented row derived again and compared, the splits
compared for shared symmetry classes, and the catalog files compared with the rows. Works shard by shard, so
memory holds one shard at a time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trm_data.catalog.read import SplitCatalog, read_split_catalog
from trm_data.errors import CorruptDatasetError
from trm_data.kinds.base import BasePuzzles, Kind, load_kind, named_problems
from trm_data.kinds.rows import make_rows
from trm_data.layout import Layout
from trm_data.manifest import Manifest, ShardEntry, read_manifest
from trm_data.progress import NoProgress, Progress
from trm_data.records import Groups, Rows, group_ranges, part_examples
from trm_data.shards.digest import content_digest, group_digests, split_digest
from trm_data.shards.reader import read_blocks
from trm_data.specs import SPLITS, Split
from trm_data.store import open_file


@dataclass(frozen=True)
class Verification:
    """What `verify_dataset` found.

    Attributes:
        name: The dataset.
        problems: One line for each thing that is wrong; none if the dataset is whole.
        notes: What is known and no failure, such as duplicates in published sets.
        counts: How much was checked, by what.
        seconds: How long it took.
    """

    name: str
    problems: list[str]
    notes: list[str] = field(default_factory=list[str])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify_dataset(layout: Layout, name: str, progress: Progress | None = None) -> Verification:
    """Check everything about one dataset.

    Raises:
        DatasetNotFoundError: There is no such dataset.
    """
    begun = time.perf_counter()
    progress = progress or NoProgress()
    try:
        manifest = read_manifest(layout, name)
    except CorruptDatasetError as error:
        return Verification(name, [str(error)])
    checker = _Checker(layout, manifest, progress)
    problems = list(checker.check_files())
    if not problems:
        problems = list(checker.check_content())
    return Verification(name, problems, checker.notes, checker.counts, time.perf_counter() - begun)


class _Checker:
    """The checks of one dataset, and what they counted."""

    def __init__(self, layout: Layout, manifest: Manifest, progress: Progress) -> None:
        self.notes: list[str] = []
        self.counts = {"files": 0, "examples": 0, "puzzles checked": 0}
        self._layout = layout
        self._manifest = manifest
        self._progress = progress
        self._kind = load_kind(manifest.kind)

    def check_files(self) -> Iterator[str]:
        """Every file the manifest names is there, with the bytes it had."""
        manifest = self._manifest
        files = manifest.files
        self._progress.start("check files", len(files), "files")
        for file in files:
            try:
                open_file(self._layout, manifest.name, file, fresh=True)
            except CorruptDatasetError as error:
                yield str(error)
            self.counts["files"] += 1
            self._progress.advance(1)

    def check_content(self) -> Iterator[str]:
        """Rows, digests, puzzles, splits and catalog agree with each other and with the rules."""
        manifest = self._manifest
        digests: dict[str, str] = {}
        classes: dict[Split, list[tuple[str, str]]] = {}
        stored = sum(shard.num_examples for split in manifest.splits.values() for shard in split.shards)
        self._progress.start("check rows", stored, "examples")
        for split in SPLITS:
            if split not in manifest.splits:
                continue
            check = _SplitCheck(self._layout, manifest, self._kind, split)
            yield from check.run(self.counts, self._progress)
            if check.digest:
                digests[split] = check.digest
            classes[split] = check.classes
        comparison = self._kind.compare_splits(manifest.spec, classes)
        yield from comparison.problems
        self.notes += comparison.notes
        if set(digests) == set(manifest.splits) and content_digest(digests) != manifest.content_digest:
            yield "the content digest is not the manifest's"


class _SplitCheck:
    """The checks of one split.

    Attributes:
        digest: Digest of its rows; empty if they cannot be read.
        classes: Where each symmetry class is, and its hash.
    """

    def __init__(self, layout: Layout, manifest: Manifest, kind: Kind, split: Split) -> None:
        self.digest = ""
        self.classes: list[tuple[str, str]] = []
        self._layout, self._manifest, self._kind = layout, manifest, kind
        self._split: Split = split
        self._entry = manifest.splits[split]
        self._augmented = self._entry.num_puzzles > self._entry.num_groups

    def run(self, counts: dict[str, int], progress: Progress) -> Iterator[str]:
        """All checks, shard by shard."""
        split, entry, manifest = self._split, self._entry, self._manifest
        try:
            catalog = read_split_catalog(self._layout, manifest, split)
        except CorruptDatasetError as error:
            yield str(error)
            return
        if len(catalog.groups) != entry.num_groups:
            yield f"{split}: the catalog's puzzles are not the {entry.num_groups:,} of the manifest"
            return
        digests: list[bytes] = []
        group = example = 0
        for shard in entry.shards:
            try:
                rows = self._read_shard(shard)
            except CorruptDatasetError as error:
                yield str(error)
                return
            digests.append(group_digests(rows))
            yield from self._check_shard(rows, catalog, group, example, counts)
            group += shard.num_groups
            example += len(rows)
            counts["examples"] += len(rows)
            counts["puzzles checked"] += shard.num_groups
            progress.advance(len(rows))
        if group != entry.num_groups:
            yield f"{split}: has {group:,} groups, the manifest says {entry.num_groups:,}"
        expected = len(catalog.groups.inputs) if manifest.virtual else catalog.groups.num_examples
        if example != expected or entry.num_examples != catalog.groups.num_examples:
            yield f"{split}: has {example:,} examples, the catalog says {expected:,}"
        virtual = manifest.spec_digest if manifest.virtual and self._augmented else ""
        self.digest = split_digest(manifest.sequence_length, digests, virtual=virtual)
        if self.digest != entry.digest:
            yield f"{split}: the rows' digest is {self.digest[:12]}, the manifest says {entry.digest[:12]}"

    def _read_shard(self, shard: ShardEntry) -> Rows:
        return Rows.concatenate(
            read_blocks(
                open_file(self._layout, self._manifest.name, shard),
                sequence_length=self._manifest.sequence_length,
                num_records=shard.num_records,
                num_examples=shard.num_examples,
            )
        )

    def _check_shard(
        self, rows: Rows, catalog: SplitCatalog, first_group: int, first_row: int, counts: dict[str, int]
    ) -> Iterator[str]:
        """Recover the base puzzles of a shard, check them, derive all rows again and compare."""
        split, spec = self._split, self._manifest.spec
        count = len(np.unique(rows.groups))
        facts = {name: column[first_group : first_group + count] for name, column in catalog.facts.items()}
        groups = catalog.groups.slice(first_group, first_group + count)
        stored = len(groups.inputs) if self._manifest.virtual else groups.num_examples
        if stored != len(rows) or len(groups) != count:
            yield f"{split}: the catalog's puzzles are not those of the rows"
            return
        offsets = None
        if catalog.offsets is not None:
            offsets = catalog.offsets[first_row : first_row + len(rows)]
        originals = np.flatnonzero(rows.augmentations == 0)
        inputs, labels = self._kind.recover(
            spec,
            rows.inputs[originals],
            rows.labels[originals],
            None if offsets is None else offsets[originals],
        )
        if len(inputs) != len(groups.inputs):
            yield f"{split}: the rows' augmentations are not those of the catalog"
            return
        checked = self._kind.check_puzzles(
            spec, split, BasePuzzles(inputs, labels, groups.first_examples, first_group, facts)
        )
        for what, number in checked.counts.items():
            counts[what] = counts.get(what, 0) + number
        yield from checked.problems
        if checked.problems:
            return
        if checked.canonical_hashes and checked.canonical_hashes != groups.canonical_hashes:
            yield f"{split}: canonical hashes in the catalog are not those of the puzzles"
        self.classes += checked.classes
        recovered = Groups(
            inputs=inputs,
            labels=labels,
            first_examples=groups.first_examples,
            augmentations=groups.augmentations,
            keys=groups.keys,
            first_identifiers=groups.first_identifiers,
            canonical_hashes=[],
            source_files=[],
            source_rows=groups.source_rows,
        )
        if not self._kind.derives_rows:
            yield from self._check_order(rows, recovered, first_group)
            return
        if self._manifest.virtual:
            yield from self._check_base(rows, recovered, first_group)
        else:
            yield from self._check_rows(rows, recovered, offsets, first_group, first_row)
        yield from self._check_elements(recovered, catalog, first_group)

    def _check_base(self, rows: Rows, groups: Groups, first_group: int) -> Iterator[str]:
        """The stored rows of a virtual dataset are its base puzzles, in order."""
        per_group = groups.examples_per_augmentation
        expected = np.repeat(np.arange(len(groups), dtype=np.int64), per_group)
        examples = np.arange(len(rows)) - groups.first_examples[expected]
        wrong = (
            (rows.groups != expected + first_group)
            | (rows.augmentations != 0)
            | (rows.examples != examples)
            | (rows.puzzle_identifiers != groups.first_identifiers[expected])
        )
        yield from named_problems(
            self._split, "row", np.flatnonzero(wrong), "has wrong group, example or identifier numbers"
        )

    def _check_order(self, rows: Rows, groups: Groups, first_group: int) -> Iterator[str]:
        """Rows that were made elsewhere: groups, augmentations and examples count up, tokens are in range."""
        counts = groups.augmentations.counts.astype(np.int64)
        per_puzzle = np.repeat(groups.examples_per_augmentation, counts)
        puzzle_groups = np.repeat(np.arange(len(groups)), counts)
        positions = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        examples = np.arange(len(rows)) - np.repeat(np.cumsum(per_puzzle) - per_puzzle, per_puzzle)
        wrong = (rows.groups != np.repeat(puzzle_groups, per_puzzle) + first_group) | (
            rows.examples != examples
        )
        wrong |= rows.augmentations != np.repeat(positions, per_puzzle)
        wrong |= (rows.puzzle_identifiers < 0) | (rows.puzzle_identifiers >= self._manifest.num_identifiers)
        yield from named_problems(
            self._split,
            "row",
            np.flatnonzero(wrong),
            "has wrong group, augmentation, example or identifier numbers",
        )
        tokens = self._manifest.vocabulary_size
        beyond = (rows.inputs >= tokens).any(axis=1) | (rows.labels >= tokens).any(axis=1)
        yield from named_problems(
            self._split, "row", np.flatnonzero(beyond), "has a token beyond the vocabulary"
        )

    def _check_rows(
        self,
        rows: Rows,
        groups: Groups,
        offsets: NDArray[np.uint8] | None,
        first_group: int,
        first_row: int,
    ) -> Iterator[str]:
        """Every row is its original under its augmentation; no two puzzles of a group are the same."""
        spec, split = self._manifest.spec, self._split
        augmenter = self._kind.augmenter(spec, split, groups)
        identifier_each = self._kind.geometry(spec).identifier_each
        found: dict[str, list[int]] = {
            "is not its original under its augmentation": [],
            "has wrong group, augmentation, example or identifier numbers": [],
            "was moved by other offsets than the catalog says": [],
        }
        different, misnumbered, moved = found.values()
        repeated: list[int] = []
        begin = 0
        for start, stop in group_ranges(groups.rows_per_group, part_examples(rows.inputs.shape[1])):
            derived, made = make_rows(
                augmenter, groups, start, stop, first_group=first_group, identifier_each=identifier_each
            )
            part = rows.slice(begin, begin + len(derived))
            unequal = (derived.inputs != part.inputs) | (derived.labels != part.labels)
            different += (np.flatnonzero(unequal.any(axis=1)) + first_row + begin).tolist()
            numbers = np.zeros(len(derived), np.bool_)
            for name in ("puzzle_identifiers", "groups", "augmentations", "examples"):
                numbers |= getattr(derived, name) != getattr(part, name)
            misnumbered += (np.flatnonzero(numbers) + first_row + begin).tolist()
            if made.offsets is not None and offsets is not None:
                other = (made.offsets != offsets[begin : begin + len(derived)]).any(axis=1)
                moved += (np.flatnonzero(other) + first_row + begin).tolist()
            # Test inputs of a task can be equal where its demonstrations are not; its elements are checked instead.
            if not identifier_each:
                repeated += _repeated_groups(groups, part, start, stop, first_group)
            begin += len(derived)
        for problem, positions in found.items():
            yield from named_problems(split, "row", np.array(positions, np.int64), problem)
        yield from named_problems(split, "group", np.array(repeated, np.int64), "holds the same puzzle twice")

    def _check_elements(self, groups: Groups, catalog: SplitCatalog, first_group: int) -> Iterator[str]:
        """The catalog's symmetry elements are those of the augmentations, and no two of a group are the same."""
        listed = (catalog.element_groups >= first_group) & (
            catalog.element_groups < first_group + len(groups)
        )
        if not listed.any():
            return
        which = catalog.element_groups[listed] - first_group
        expected = self._kind.elements(self._manifest.spec, groups, which, catalog.element_ks[listed])
        wrong = expected != catalog.elements[listed]
        rows = np.flatnonzero(listed)[wrong]
        yield from named_problems(
            self._split, "augmentation", rows, "has another symmetry element in the catalog than its k gives"
        )
        pairs = np.stack([which, expected], axis=1)
        if len(np.unique(pairs, axis=0)) != len(pairs):
            yield f"{self._split}: a group of the catalog has the same symmetry element twice"


def _repeated_groups(groups: Groups, rows: Rows, start: int, stop: int, first_group: int) -> list[int]:
    """Groups of one example in which two rows have the same input."""
    found: list[int] = []
    begin = 0
    for group in range(start, stop):
        end = begin + int(groups.rows_per_group[group])
        single = groups.examples_per_augmentation[group] == 1 and end - begin > 1
        if single and len({row.tobytes() for row in rows.inputs[begin:end]}) != end - begin:
            found.append(first_group + group)
        begin = end
    return found
