"""What determines a dataset's content, as frozen dataclasses with a canonical form.

A `DatasetSpec` and the builder's version decide every row; its digest names that content. Nothing about how
or where a dataset is built (workers, shard size, root, paths) is in it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from trm_data.errors import SpecError

BUILDER_VERSION = 1
"""Raised whenever the same specification would give other rows."""

BLOCK_EXAMPLES = 256
"""Examples in one ArrayRecord record, at most."""

NAME_PATTERN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")

KindName = Literal["sudoku"]
OnBadRow = Literal["stop", "skip"]
Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def check_name(name: str) -> str:
    """A dataset name, or an error that says which form is allowed.

    Raises:
        SpecError: The name could be a path, or holds characters other than letters, digits, `.`, `_`, `-`.
    """
    if not NAME_PATTERN.fullmatch(name) or ".." in name:
        raise SpecError(
            f"dataset name {name!r}: allowed are 1 to 100 letters, digits, '.', '_' and '-', beginning and "
            "ending with a letter or digit, without '..'"
        )
    return name


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """Where puzzles come from, by content: the file's own name and digest, never its folder."""

    kind: Literal["generated", "csv", "txt"]
    name: str = ""
    """Name of the file, or `repository/file@revision`; empty for `generated`."""
    sha256: str = ""
    """Digest of the file's bytes as stored; empty for `generated`."""


@dataclass(frozen=True, kw_only=True)
class SudokuOptions:
    """What only Sudoku has."""

    box_rows: int = 3
    box_columns: int = 3
    min_rating: float | None = None
    max_rating: float | None = None

    @property
    def box(self) -> tuple[int, int]:
        """Rows and columns of a box."""
        return self.box_rows, self.box_columns

    @property
    def side(self) -> int:
        """Cells in a row of the grid, n = box rows * box columns."""
        return self.box_rows * self.box_columns


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """Everything that determines the rows of a dataset."""

    kind: KindName
    source: SourceSpec
    test_source: SourceSpec | None = None
    size: int
    """Base puzzles (groups) of the training split."""
    aug: int = 0
    """Augmentations of each training puzzle besides the original."""
    val_size: int = 0
    test_size: int = 0
    seed: int = 0
    on_bad_row: OnBadRow = "stop"
    options: SudokuOptions

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, readable back by `spec_from_json`."""
        return dataclasses.asdict(self)

    def digest(self) -> str:
        """sha256 over the canonical JSON of this specification and the builder's version."""
        content = {"spec": self.to_json(), "builder_version": BUILDER_VERSION}
        return hashlib.sha256(canonical_json(content)).hexdigest()


def canonical_json(value: object) -> bytes:
    """The one byte string that stands for a JSON value: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def spec_from_json(value: dict[str, Any]) -> DatasetSpec:
    """Inverse of `DatasetSpec.to_json`.

    Raises:
        SpecError: Keys that this version does not know, or keys that are missing.
    """
    try:
        fields = dict(value)
        fields["source"] = SourceSpec(**fields["source"])
        test_source = fields.get("test_source")
        fields["test_source"] = None if test_source is None else SourceSpec(**test_source)
        fields["options"] = SudokuOptions(**fields["options"])
        return DatasetSpec(**fields)
    except (TypeError, KeyError) as error:
        raise SpecError(f"not a dataset specification that this version knows: {error}") from error
