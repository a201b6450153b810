"""Limits on the numbers in every kind's specification."""

from __future__ import annotations

from trm_data.errors import SpecError
from trm_data.specs import DatasetSpec

MOST_PUZZLES = 5_000_000
"""Maximum number of base puzzles of a dataset: choosing them takes 4.4 GB of memory (9x9, measured; docs/scale.md)."""
BRIEF_ROWS = 50_000
"""Number of rows that are made in about the time that workers take to start."""


def is_brief(spec: DatasetSpec, left: int | None) -> bool:
    """Return whether a dataset is so small that no worker is started for it.

    Args:
        spec: A specification.
        left: Maximum number of puzzles of its source; None if it has no end.
    """
    counts = [left if count is None else count for count in (spec.size, spec.val_size, spec.test_size)]
    each = 1 if spec.augment == "virtual" else spec.aug + 1
    train, *held_out = (BRIEF_ROWS + 1 if count is None else count for count in counts)
    return train * each + sum(held_out) <= BRIEF_ROWS


def puzzles_asked(spec: DatasetSpec) -> int:
    """Return the requested base puzzles of all splits; a split that takes all puzzles counts as 0."""
    return (spec.size or 0) + (spec.val_size or 0) + (spec.test_size or 0)


def check_total(count: int) -> None:
    """Raise SpecError for more base puzzles than a build holds in memory.

    Args:
        count: Number of base puzzles of all splits.
    """
    if count > MOST_PUZZLES:
        raise SpecError(
            f"--size, --val-size, --test-size: {count:,} base puzzles; at most {MOST_PUZZLES:,}, for which choosing "
            "takes 4.4 GB of memory. Build several datasets with different --seed and mix them (docs/scale.md)"
        )


def check_sizes(spec: DatasetSpec, most_augmentations: int, what: str) -> None:
    """Raise SpecError for invalid sizes, augmentations and seeds.

    Args:
        spec: A specification.
        most_augmentations: Number of augmentations of a puzzle besides the original.
        what: Description of these puzzles, for the message.
    """
    if spec.size is not None and spec.size < 1:
        raise SpecError(f"--size {spec.size}: expected at least 1")
    for option, value in (("aug", spec.aug), ("val-size", spec.val_size), ("test-size", spec.test_size)):
        if value is not None and value < 0:
            raise SpecError(f"--{option} {value}: at least 0")
    check_total(puzzles_asked(spec))
    if spec.aug > most_augmentations:
        raise SpecError(f"--aug {spec.aug}: {what} has {most_augmentations:,} besides the original")
    if not 0 <= spec.seed < 2**63:
        raise SpecError(f"--seed {spec.seed}: expected 0 to 2^63 - 1")
