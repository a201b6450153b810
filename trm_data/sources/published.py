"""Rows to import: the layout of the published code (npy files), or our own Parquet exports.

Input: a folder. Output: `ImportedRows` for each split, in group order. Every group has complete augmentations with
equal numbers of examples. The files are untrusted: nothing is unpickled, every index is checked, and all errors are
`SourceError`.

The published layout: DIR/train and DIR/test (or validation) with dataset.json and all__inputs.npy, all__labels.npy
[rows, cells], all__puzzle_identifiers.npy [puzzles], all__puzzle_indices.npy [puzzles + 1] (first row of each
puzzle), all__group_indices.npy [groups + 1] (first puzzle of each group); DIR/identifiers.json names the
identifiers, DIR/test_puzzles.json holds test tasks.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import SourceError
from trm_data.records import Rows, SourceFile, group_counts
from trm_data.sources.arrays import load_npy
from trm_data.sources.unpack import check_size, read_parquet
from trm_data.specs import SPLITS, Split, canonical_json
from trm_data.storage.atomic import file_sha256, parse_json

ARRAYS = ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices")
PARQUET_COLUMNS = ("inputs", "labels", "puzzle_identifier", "group", "augmentation", "example")
TEST_PUZZLES = "test_puzzles.json"
IDENTIFIERS = "identifiers.json"
FACTS = "export.json"
"""File of an exported folder that describes the export, with the digests of the other files."""
_PARQUET = re.compile(r"(train|validation|test)-\d{5}-of-\d{5}\.parquet")
MOST_TOKENS = 256
MOST_IDENTIFIERS = 1 << 23
"""Maximum number of identifiers, eight times that of ARC with 1,000 augmentations; each gets a name."""


@dataclass(frozen=True)
class ImportedRows:
    """Content of a folder of rows to import.

    Attributes:
        splits: Rows of each split, in group order.
        vocabulary_size: Number of tokens, PAD included.
        sequence_length: Cells S of a row.
        num_identifiers: Rows of the puzzle-embedding table.
        names: Name of each identifier; empty if the folder has none.
        test_puzzles: Bytes of test_puzzles.json; empty if there is none.
        files: Every file that was read.
        shape: Rows and columns of the grid, if the folder states them.
        kind: Kind of the puzzles and its options as JSON values, if the folder states them.
    """

    splits: dict[Split, Rows]
    vocabulary_size: int
    sequence_length: int
    num_identifiers: int
    names: tuple[str, ...] = ()
    test_puzzles: bytes = b""
    files: list[SourceFile] = field(default_factory=list[SourceFile])
    shape: tuple[int, int] | None = None
    kind: tuple[str, dict[str, Any]] | None = None

    @property
    def sha256(self) -> str:
        """Digest over the files and their names."""
        files = sorted((file.file, file.sha256) for file in self.files)
        return hashlib.sha256(canonical_json(files)).hexdigest()


def read_imported(folder: Path) -> ImportedRows:
    """Return all rows of a folder."""
    if folder.is_file():
        raise SourceError(
            f"{folder}: is a file, not a folder; files are built: trm-data build KIND --source {folder}"
        )
    if not folder.is_dir():
        raise SourceError(f"{folder}: no such folder")
    found: list[Split] = [split for split in SPLITS if (folder / split / "dataset.json").is_file()]
    if found:
        rows = _read_published(folder, found)
        stated = _read_json(folder / FACTS) if (folder / FACTS).is_file() else {}
        shape, cells = (stated.get("grid_rows"), stated.get("grid_columns")), rows.sequence_length
        fits = isinstance(shape[0], int) and isinstance(shape[1], int) and shape[0] * shape[1] == cells
        return replace(rows, shape=shape if fits else None, kind=_kind(stated))
    data = folder / "data" if (folder / "data").is_dir() else folder
    parquet = sorted(path for path in data.iterdir() if _PARQUET.fullmatch(path.name))
    if parquet:
        return _read_parquet(folder, parquet)
    raise SourceError(
        f"{folder}: has neither train/dataset.json (the published layout) nor train-00000-of-00001.parquet (an export)"
    )


def _read_published(folder: Path, found: list[Split]) -> ImportedRows:
    splits: dict[Split, Rows] = {}
    files: list[SourceFile] = []
    facts: dict[str, int] = {}
    for split in found:
        stated = _read_json(folder / split / "dataset.json")
        sets = stated.get("sets")
        if sets != ["all"]:
            raise SourceError(f"{folder / split}/dataset.json: sets {sets!r}: only ['all'] can be read")
        for key in ("seq_len", "vocab_size", "num_puzzle_identifiers"):
            value = stated.get(key)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SourceError(f"{folder / split}/dataset.json: {key} is {value!r}; expected 1 and above")
            if facts.setdefault(key, value) != value:
                raise SourceError(
                    f"{folder / split}/dataset.json: {key} is {value}, another split has {facts[key]}"
                )
        arrays = {name: _load(folder / split / f"all__{name}.npy", name) for name in ARRAYS}
        ignored = stated.get("ignore_label_id")
        if isinstance(ignored, int) and not isinstance(ignored, bool) and ignored != 0:
            arrays["labels"] = np.where(arrays["labels"] == ignored, 0, arrays["labels"])
        splits[split] = _rows(folder / split, arrays, facts)
        names = ["dataset.json", *(f"all__{name}.npy" for name in ARRAYS)]
        files += [
            SourceFile(f"{split}/{name}", file_sha256(folder / split / name), len(splits[split]))
            for name in names
        ]
    _check_bounds(folder, facts)
    names, extra = _read_names(folder, facts["num_puzzle_identifiers"], files)
    return ImportedRows(
        splits, facts["vocab_size"], facts["seq_len"], facts["num_puzzle_identifiers"], names, extra, files
    )


def _check_bounds(folder: Path, facts: dict[str, int]) -> None:
    """Reject sizes that rows cannot have, or that need more memory than any rows explain."""
    if facts["vocab_size"] > MOST_TOKENS:
        raise SourceError(f"{folder}: vocab_size {facts['vocab_size']}: rows of bytes hold {MOST_TOKENS}")
    if facts["num_puzzle_identifiers"] > MOST_IDENTIFIERS:
        raise SourceError(
            f"{folder}: num_puzzle_identifiers {facts['num_puzzle_identifiers']}: expected {MOST_IDENTIFIERS:,}"
        )


def _read_names(folder: Path, num_identifiers: int, files: list[SourceFile]) -> tuple[tuple[str, ...], bytes]:
    """Return the identifier names, and the content of test_puzzles.json."""
    names: tuple[str, ...] = ()
    path = folder / IDENTIFIERS
    if path.is_file():
        value = _read_json(path, list)
        if not all(isinstance(name, str) for name in value) or len(value) != num_identifiers:
            raise SourceError(f"{path}: has {len(value)} entries, expected {num_identifiers} names")
        names = tuple(value)
        files.append(SourceFile(IDENTIFIERS, file_sha256(path), len(names)))
    extra = b""
    path = folder / TEST_PUZZLES
    if path.is_file():
        _read_json(path)
        extra = path.read_bytes()
        files.append(SourceFile(TEST_PUZZLES, file_sha256(path), 0))
    return names, extra


def _read_json(path: Path, expected: type = dict) -> Any:
    try:
        value = parse_json(path.read_bytes())
    except (ValueError, OSError) as error:
        raise SourceError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(value, expected):
        raise SourceError(f"{path}: is a {type(value).__name__}, expected a {expected.__name__}")
    return value


def _load(path: Path, name: str) -> NDArray[Any]:
    """Load an array of integers; objects are never unpickled."""
    array = load_npy(path)
    wanted = 2 if name in ("inputs", "labels") else 1
    if array.ndim != wanted:
        raise SourceError(f"{path}: has shape {array.shape}, expected {wanted} dimensions")
    return array


def _rows(folder: Path, arrays: dict[str, NDArray[Any]], facts: dict[str, int]) -> Rows:
    """Return the rows of a split, after checking all indices."""
    inputs, labels = arrays["inputs"], arrays["labels"]
    cells, tokens = facts["seq_len"], facts["vocab_size"]
    if inputs.shape != labels.shape or inputs.shape[1] != cells:
        raise SourceError(
            f"{folder}: inputs {inputs.shape} and labels {labels.shape}: both must be [rows, {cells}]"
        )
    if not len(inputs):
        raise SourceError(f"{folder}: has no rows")
    for name in ("inputs", "labels"):
        _check_range(f"{folder}/all__{name}.npy", arrays[name], tokens)
    puzzles = _bounds(folder / "all__puzzle_indices.npy", arrays["puzzle_indices"], len(inputs), "rows")
    count = len(puzzles) - 1
    groups = _bounds(folder / "all__group_indices.npy", arrays["group_indices"], count, "puzzles")
    identifiers = np.asarray(arrays["puzzle_identifiers"], np.int64)
    if len(identifiers) != count:
        raise SourceError(f"{folder}: has {len(identifiers)} puzzle identifiers for {count} puzzles")
    _check_range(f"{folder}/all__puzzle_identifiers.npy", identifiers, facts["num_puzzle_identifiers"])
    examples = np.diff(puzzles)
    first = np.repeat(examples[groups[:-1]], np.diff(groups))
    if (examples != first).any():
        puzzle = int((examples != first).argmax())
        group = int(np.searchsorted(groups, puzzle, side="right") - 1)
        raise SourceError(
            f"{folder}: puzzle {puzzle} has {examples[puzzle]} rows, but the first of its group {group} has "
            f"{first[puzzle]}: the augmentations of a group must have equally many"
        )
    group_of_puzzle = np.repeat(np.arange(len(groups) - 1), np.diff(groups))
    position = np.arange(count) - groups[group_of_puzzle]
    return Rows(
        inputs=np.ascontiguousarray(inputs, np.uint8),
        labels=np.ascontiguousarray(labels, np.uint8),
        puzzle_identifiers=np.repeat(identifiers, examples).astype(np.int32),
        groups=np.repeat(group_of_puzzle, examples).astype(np.int32),
        augmentations=np.repeat(position, examples).astype(np.int32),
        examples=(np.arange(len(inputs)) - np.repeat(puzzles[:-1], examples)).astype(np.int32),
    )


def _check_range(where: str, values: NDArray[Any], limit: int) -> None:
    if len(values) and not (values.min() >= 0 and values.max() < limit):
        raise SourceError(f"{where}: has values {values.min()} to {values.max()}; expected 0 to {limit - 1}")


def _bounds(path: Path, array: NDArray[Any], total: int, what: str) -> NDArray[np.int64]:
    """Check that indices rise from 0 to `total`; return them."""
    values = np.asarray(array, np.int64)
    if len(values) < 2 or values[0] != 0 or values[-1] != total:
        shown = f"{values[0]} to {values[-1]}" if len(values) else "nothing"
        raise SourceError(f"{path}: goes from {shown}, expected 0 to {total} (the number of {what})")
    if (np.diff(values) < 1).any():
        place = int((np.diff(values) < 1).argmax())
        raise SourceError(
            f"{path}: entry {place + 1} is {values[place + 1]} after {values[place]}: must rise"
        )
    return values


def _read_parquet(folder: Path, paths: list[Path]) -> ImportedRows:
    """Read the Parquet files of an export, and from its export.json what the columns cannot tell."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    stated = _read_json(folder / FACTS)
    try:
        facts = {
            "seq_len": int(stated["sequence_length"]),
            "vocab_size": int(stated["vocabulary_size"]),
            "num_puzzle_identifiers": int(stated["num_identifiers"]),
        }
        shape = int(stated["grid_rows"]), int(stated["grid_columns"])
    except (KeyError, TypeError, ValueError) as error:
        raise SourceError(f"{folder / FACTS}: lacks {error}") from error
    _check_bounds(folder, facts)
    splits: dict[Split, Rows] = {}
    files = [SourceFile(FACTS, file_sha256(folder / FACTS), 0)]
    for split in SPLITS:
        parts: list[Rows] = []
        for path in (path for path in paths if path.name.startswith(f"{split}-")):
            try:
                check_size(
                    pq.read_metadata(path).num_rows * 2 * facts["seq_len"], path.stat().st_size, str(path)
                )
                parts.append(_parquet_rows(path, read_parquet(path, PARQUET_COLUMNS, str(path)), facts))
            except (pa.ArrowException, UnicodeDecodeError, OSError, KeyError) as error:
                raise SourceError(f"{path}: is not a Parquet file of an export ({error})") from error
            files.append(SourceFile(path.name, file_sha256(path), len(parts[-1])))
        if parts:
            splits[split] = _in_order(folder, split, Rows.concatenate(parts))
    names, extra = _read_names(folder, facts["num_puzzle_identifiers"], files)
    return ImportedRows(
        splits,
        facts["vocab_size"],
        facts["seq_len"],
        facts["num_puzzle_identifiers"],
        names,
        extra,
        files,
        shape,
        _kind(stated),
    )


def _kind(stated: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return kind and options from the specification in export.json; None if they are malformed."""
    spec = stated.get("spec")
    if not isinstance(spec, dict):
        return None
    found = cast(dict[str, Any], spec)
    kind, options = found.get("kind"), found.get("options")
    return (
        (kind, cast(dict[str, Any], options)) if isinstance(kind, str) and isinstance(options, dict) else None
    )


def _parquet_rows(path: Path, table: Any, facts: dict[str, int]) -> Rows:
    import pyarrow as pa

    columns: dict[str, NDArray[Any]] = {}
    for name in PARQUET_COLUMNS[2:]:
        column = table.column(name).combine_chunks()
        if not pa.types.is_integer(column.type) or column.null_count:
            raise SourceError(
                f"{path}: column {name} has type {column.type}; expected integers without nulls"
            )
        columns[name] = column.to_numpy(zero_copy_only=False).astype(np.int32)
    for name in PARQUET_COLUMNS[:2]:
        column = table.column(name).combine_chunks()
        listed = pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)
        if not listed or not pa.types.is_integer(column.type.value_type) or column.null_count:
            raise SourceError(f"{path}: column {name} has type {column.type}; expected lists of integers")
        flat = column.flatten().to_numpy(zero_copy_only=False)
        if len(flat) != table.num_rows * facts["seq_len"]:
            raise SourceError(f"{path}: {name} has {len(flat):,} cells for {table.num_rows:,} rows")
        _check_range(f"{path}: {name}", flat, facts["vocab_size"])
        columns[name] = flat.astype(np.uint8).reshape(table.num_rows, facts["seq_len"])
    identifiers = columns["puzzle_identifier"]
    _check_range(f"{path}: puzzle_identifier", identifiers, facts["num_puzzle_identifiers"])
    return Rows(
        inputs=columns["inputs"],
        labels=columns["labels"],
        puzzle_identifiers=identifiers,
        groups=columns["group"],
        augmentations=columns["augmentation"],
        examples=columns["example"],
    )


def _in_order(folder: Path, split: str, rows: Rows) -> Rows:
    """Check that groups, augmentations and examples count up from 0, with complete augmentations; return the rows."""
    if not len(rows):
        raise SourceError(f"{folder}: {split} has no rows")
    try:
        first_rows, _, _ = group_counts(rows)
        whole = np.array_equal(
            rows.groups, np.searchsorted(first_rows, np.arange(len(rows)), side="right") - 1
        )
    except ValueError:
        whole = False
    if not whole:
        raise SourceError(f"{folder}: the {split} rows are not whole groups in order")
    return rows
