"""Checks finished Sudoku rows without trusting the build that made them.

Every original is solved again (one solution, which is its label); every augmentation is derived again from
its original by its k and compared; within a group no two inputs are equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.canonical.sudoku import canonical_hashes, canonicalize
from trm_data.encode.vocab import SUDOKU_BLANK
from trm_data.kinds.base import CheckedSplit, Kind
from trm_data.records import Groups, Rows, group_ranges
from trm_data.solve.sudoku import solve
from trm_data.specs import DatasetSpec, Split

PROBLEMS_SHOWN = 5


def check_rows(
    kind: Kind,
    spec: DatasetSpec,
    split: Split,
    rows: Rows,
    ks: NDArray[np.int32],
    elements: NDArray[np.int64],
) -> CheckedSplit:
    """Problems of a split's rows, and the canonical hashes of its groups."""
    problems = _check_order(split, rows)
    if not problems:
        problems = _check_tokens(spec, split, rows)
    if problems:
        return CheckedSplit(problems, [])
    originals = np.flatnonzero(rows.augmentations == 0)
    puzzles = (rows.inputs[originals] - SUDOKU_BLANK).astype(np.uint8)
    solutions = (rows.labels[originals] - SUDOKU_BLANK).astype(np.uint8)
    box = spec.options.box
    solved = solve(puzzles, *box, limit=2)
    wrong = (solved.counts != 1) | (solved.solutions != solutions).any(axis=1)
    problems += _named(split, "group", np.flatnonzero(wrong), "its label is not the puzzle's only solution")
    if problems:
        return CheckedSplit(problems, [])
    canonical = canonicalize(puzzles, solutions, *box)
    problems += _check_augmentations(kind, spec, split, rows, ks, elements, puzzles, solutions)
    return CheckedSplit(problems, canonical_hashes(canonical.forms, *box))


def _check_order(split: Split, rows: Rows) -> list[str]:
    """Groups are 0, 1, 2, ...; within each the augmentations are 0, 1, 2, ...; there is one example each."""
    first = np.concatenate([[True], np.diff(rows.groups) != 0])
    expected_groups = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    expected = np.arange(len(rows)) - starts[expected_groups]
    problems = _named(split, "row", np.flatnonzero(rows.groups != expected_groups), "is out of group order")
    problems += _named(
        split, "row", np.flatnonzero(rows.augmentations != expected), "is out of order in its group"
    )
    problems += _named(split, "row", np.flatnonzero(rows.examples != 0), "has an example number other than 0")
    unknown = np.flatnonzero(rows.puzzle_identifiers != 0)
    return problems + _named(split, "row", unknown, "has a puzzle identifier other than 0")


def _check_tokens(spec: DatasetSpec, split: Split, rows: Rows) -> list[str]:
    largest = SUDOKU_BLANK + spec.options.side
    bad_inputs = ((rows.inputs < SUDOKU_BLANK) | (rows.inputs > largest)).any(axis=1)
    bad_labels = ((rows.labels <= SUDOKU_BLANK) | (rows.labels > largest)).any(axis=1)
    problems = _named(split, "row", np.flatnonzero(bad_inputs), "has an input token that is no cell")
    return problems + _named(split, "row", np.flatnonzero(bad_labels), "has a label token that is no digit")


def _check_augmentations(
    kind: Kind,
    spec: DatasetSpec,
    split: Split,
    rows: Rows,
    ks: NDArray[np.int32],
    elements: NDArray[np.int64],
    puzzles: NDArray[np.uint8],
    solutions: NDArray[np.uint8],
) -> list[str]:
    """Derive all rows again, some groups at a time."""
    starts = np.flatnonzero(rows.augmentations == 0)
    stops = np.append(starts[1:], len(rows))
    count = len(starts)
    again = Groups(
        inputs=puzzles,
        solutions=solutions,
        ratings=np.zeros(count, np.float32),
        rating_sources=[],
        source_files=[],
        source_rows=np.zeros(count, np.int64),
        clues=np.zeros(count, np.int32),
        canonical_hashes=[],
        augmentations=[ks[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)],
    )
    different: list[int] = []
    repeated: list[int] = []
    other_elements: list[int] = []
    for first, last in group_ranges(again, 0, count):
        part = slice(int(starts[first]), int(stops[last - 1]))
        derived, derived_elements = kind.make_rows(spec, again, first, last)
        other_elements += (np.flatnonzero(derived_elements != elements[part]) + part.start).tolist()
        unequal = (derived.inputs != rows.inputs[part]) | (derived.labels != rows.labels[part])
        different += (np.flatnonzero(unequal.any(axis=1)) + part.start).tolist()
        for group in range(first, last):
            images = rows.inputs[starts[group] : stops[group]]
            if len({image.tobytes() for image in images}) != len(images):
                repeated.append(group)
    problems = _named(
        split, "row", np.array(different, np.int64), "is not its original under its augmentation"
    )
    wrong = np.array(other_elements, np.int64)
    problems += _named(
        split, "row", wrong, "has another symmetry element in the catalog than the one that made it"
    )
    return problems + _named(split, "group", np.array(repeated, np.int64), "holds the same puzzle twice")


def _named(split: Split, what: str, positions: NDArray[np.int64], problem: str) -> list[str]:
    """A line for each of the first few, and one for how many more there are."""
    lines = [f"{split} {what} {position}: {problem}" for position in positions[:PROBLEMS_SHOWN].tolist()]
    if len(positions) > PROBLEMS_SHOWN:
        lines.append(f"{split}: {len(positions) - PROBLEMS_SHOWN:,} more {what}s: {problem.split(' ', 1)[1]}")
    return lines
