"""Check the rows of one shard: recover the base puzzles, let the kind check them, and derive the rows again.

Input: the rows read, and the catalog of their split. Output: the problems found.
Neighbour: `verify.checker`, which reads the shards and compares whole splits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trm_data.catalog.read import SplitCatalog
from trm_data.kinds.base import BasePuzzles, CheckedPuzzles, Kind, named_problems
from trm_data.manifest import Manifest
from trm_data.records import Groups, Rows, group_ranges, part_examples
from trm_data.specs import Split
from trm_data.symmetry.base import Made, base_rows, make_rows


@dataclass(frozen=True)
class ShardRows:
    """The rows of one shard, and their position in the split.

    Attributes:
        split: The split.
        catalog: Catalog of the whole split.
        rows: N rows, of whole groups.
        first_group: Number of the first group in the split.
        first_row: Number of the first row in the split.
    """

    split: Split
    catalog: SplitCatalog
    rows: Rows
    first_group: int
    first_row: int

    @property
    def offsets(self) -> NDArray[np.uint8] | None:
        """Translation of each row according to the catalog, uint8 [N, 2]; None if the kind does not translate."""
        if self.catalog.offsets is None:
            return None
        return self.catalog.offsets[self.first_row : self.first_row + len(self.rows)]


def check_rows(manifest: Manifest, kind: Kind, shard: ShardRows) -> CheckedPuzzles:
    """Recover the base puzzles of a shard, check them, derive all rows again and compare."""
    split, rows, first_group = shard.split, shard.rows, shard.first_group
    stop_group = first_group + len(np.unique(rows.groups))
    if stop_group > len(shard.catalog.groups):
        return CheckedPuzzles([f"{split}: the rows have more puzzles than the catalog"])
    groups = shard.catalog.groups.slice(first_group, stop_group)
    stored = len(groups.inputs) if manifest.virtual else groups.num_examples
    if stored != len(rows):
        return CheckedPuzzles([f"{split}: the catalog's puzzles are not those of the rows"])
    originals = np.flatnonzero(rows.augmentations == 0)
    moved = None if shard.offsets is None else shard.offsets[originals]
    inputs, labels = kind.recover(manifest.spec, rows.inputs[originals], rows.labels[originals], moved)
    if len(inputs) != len(groups.inputs):
        return CheckedPuzzles([f"{split}: the rows' augmentations are not those of the catalog"])
    facts = {name: column[first_group:stop_group] for name, column in shard.catalog.facts.items()}
    puzzles = BasePuzzles(inputs, labels, groups.first_examples, first_group, facts)
    checked = kind.check_puzzles(manifest.spec, split, puzzles)
    if checked.problems:
        return checked
    problems: list[str] = []
    if checked.canonical_hashes and checked.canonical_hashes != groups.canonical_hashes:
        problems.append(f"{split}: canonical hashes in the catalog are not those of the puzzles")
    problems += _compare_rows(manifest, kind, shard, replace(groups, inputs=inputs, labels=labels))
    return replace(checked, problems=problems)


def _compare_rows(manifest: Manifest, kind: Kind, shard: ShardRows, groups: Groups) -> Iterator[str]:
    """Compare the rows of a shard with those derived from its base puzzles, `groups`."""
    if not kind.derives_rows:
        yield from _check_imported(manifest, shard, groups)
        yield from kind.check_augmentations(manifest.spec, shard.split, shard.rows)
        return
    if manifest.virtual:
        expected = base_rows(groups, 0, len(groups), first_group=shard.first_group)
        wrong = shard.first_row + np.flatnonzero(_misnumbered(shard.rows, expected))
        yield from named_problems(shard.split, "row", wrong, "has wrong group, example or identifier numbers")
    else:
        yield from _check_derived(manifest, kind, shard, groups)
    yield from _check_elements(manifest, kind, shard, groups)


def _check_imported(manifest: Manifest, shard: ShardRows, groups: Groups) -> Iterator[str]:
    """Check imported rows: groups, augmentations and examples count up, tokens are in range."""
    rows, numbers = shard.rows, groups.numbered(0, len(groups))
    misnumbered = (
        (rows.groups != numbers.groups + shard.first_group)
        | (rows.augmentations != numbers.augmentations)
        | (rows.examples != numbers.examples)
        | (rows.puzzle_identifiers < 0)
        | (rows.puzzle_identifiers >= manifest.num_identifiers)
    )
    yield from named_problems(
        shard.split,
        "row",
        shard.first_row + np.flatnonzero(misnumbered),
        "has wrong group, augmentation, example or identifier numbers",
    )
    tokens = manifest.vocabulary_size
    beyond = (rows.inputs >= tokens).any(axis=1) | (rows.labels >= tokens).any(axis=1)
    wrong = shard.first_row + np.flatnonzero(beyond)
    yield from named_problems(shard.split, "row", wrong, "has a token beyond the vocabulary")


def _check_derived(manifest: Manifest, kind: Kind, shard: ShardRows, groups: Groups) -> Iterator[str]:
    """Check that every row is its original under its augmentation, and that no two puzzles of a group are equal."""
    rows, first_group = shard.rows, shard.first_group
    augmenter = kind.augmenter(manifest.spec, shard.split, groups)
    identifier_each = kind.geometry(manifest.spec).identifier_each
    found: dict[str, list[NDArray[np.int64]]] = {}
    repeated: list[int] = []
    begin = 0
    for start, stop in group_ranges(groups.rows_per_group, part_examples(rows.inputs.shape[1])):
        derived, made = make_rows(
            augmenter, groups, start, stop, first_group=first_group, identifier_each=identifier_each
        )
        end = begin + len(derived)
        part = rows.slice(begin, end)
        offsets = None if shard.offsets is None else shard.offsets[begin:end]
        for problem, wrong in _differences(part, offsets, derived, made).items():
            found.setdefault(problem, []).append(np.flatnonzero(wrong) + shard.first_row + begin)
        # Test inputs of a task can be equal although its demonstrations differ; its elements are checked instead.
        if not identifier_each:
            repeated += _repeated_groups(groups, part, start, stop, first_group)
        begin = end
    for problem, positions in found.items():
        yield from named_problems(shard.split, "row", np.concatenate(positions), problem)
    yield from named_problems(
        shard.split, "group", np.array(repeated, np.int64), "holds the same puzzle twice"
    )


def _differences(
    rows: Rows, offsets: NDArray[np.uint8] | None, derived: Rows, made: Made
) -> dict[str, NDArray[np.bool_]]:
    """Return, for each type of error, which of N rows differ from the derived ones, bool [N]."""
    pairs = (derived.inputs, rows.inputs), (derived.labels, rows.labels)
    if all(np.array_equal(*pair) for pair in pairs):  # nearly always
        changed = np.zeros(len(rows), np.bool_)
    else:
        changed = ((derived.inputs != rows.inputs) | (derived.labels != rows.labels)).any(axis=1)
    differences = {
        "is not its original under its augmentation": changed,
        "has wrong group, augmentation, example or identifier numbers": _misnumbered(rows, derived),
    }
    if made.offsets is not None and offsets is not None:
        moved = (made.offsets != offsets).any(axis=1)
        differences["was moved by other offsets than the catalog says"] = moved
    return differences


def _misnumbered(rows: Rows, expected: Rows) -> NDArray[np.bool_]:
    """Return which of N rows have a wrong group, augmentation, example or identifier, bool [N]."""
    wrong = np.zeros(len(rows), np.bool_)
    for name in ("puzzle_identifiers", "groups", "augmentations", "examples"):
        wrong |= getattr(rows, name) != getattr(expected, name)
    return wrong


def _repeated_groups(groups: Groups, rows: Rows, start: int, stop: int, first_group: int) -> list[int]:
    """Return the single-example groups in which two rows have the same input."""
    found: list[int] = []
    begin = 0
    for group in range(start, stop):
        end = begin + int(groups.rows_per_group[group])
        single = groups.examples_per_augmentation[group] == 1 and end - begin > 1
        if single and len({row.tobytes() for row in rows.inputs[begin:end]}) != end - begin:
            found.append(first_group + group)
        begin = end
    return found


def _check_elements(manifest: Manifest, kind: Kind, shard: ShardRows, groups: Groups) -> Iterator[str]:
    """Check that the catalog's symmetry elements match the augmentations, and that those of a group differ."""
    catalog, first_group = shard.catalog, shard.first_group
    # listed in group order, as checked by `catalog.read`
    start, stop = np.searchsorted(catalog.element_groups, [first_group, first_group + len(groups)])
    if start == stop:
        return
    which = catalog.element_groups[start:stop] - first_group
    expected = kind.elements(manifest.spec, groups, which, catalog.element_ks[start:stop])
    wrong = start + np.flatnonzero(expected != catalog.elements[start:stop])
    yield from named_problems(
        shard.split, "augmentation", wrong, "has another symmetry element in the catalog than its k gives"
    )
    order = np.lexsort((expected, which))
    which, expected = which[order], expected[order]
    if ((which[1:] == which[:-1]) & (expected[1:] == expected[:-1])).any():
        yield f"{shard.split}: a group of the catalog has the same symmetry element twice"
