"""A user's own puzzles from a table: Parquet, CSV, npz or npy with `inputs` and `labels`.

Input: a file of N puzzles. Output: `TableRows`, tokens uint8 [N, S], and a `Reject` for each invalid row.
Tokens: 0 is PAD and is ignored as a label; the user defines all others up to 255.

- npz: arrays `inputs` and `labels` of integers, [N, R, C] or [N, S].
- npy: one array of both, [N, 2, R, C] or [N, 2, S].
- Parquet: columns `inputs` and `labels`, lists of integers, or lists of lists (the rows of a grid).
- CSV: columns `inputs` and `labels`, numbers separated by spaces, or JSON lists as in Parquet; the separator of
  columns is a comma, a semicolon, a tab or a bar.

The source names arrays and columns with other names (`columns`, as `inputs=question,labels=answer`).
Nothing is unpickled: arrays of objects are rejected.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import SourceError
from trm_data.records import Reject
from trm_data.sources.arrays import load_npy, load_npz
from trm_data.sources.base import LocalSource
from trm_data.sources.columns import is_json, json_cells, no_column, parse_columns, separator_of
from trm_data.sources.rows import SourceRows
from trm_data.sources.unpack import read_parquet

COLUMNS = ("inputs", "labels")
LARGEST_TOKEN = 255
MAX_CELLS = 65_536


@dataclass(frozen=True)
class TableRows(SourceRows):
    """Rows of a table, N of S cells.

    Attributes:
        inputs: Tokens, uint8 [N, S].
        labels: Tokens, uint8 [N, S].
        shape: Rows and columns of the grid if the file states them, else None.
    """

    inputs: NDArray[np.uint8]
    labels: NDArray[np.uint8]
    shape: tuple[int, int] | None


def read_table(source: LocalSource) -> tuple[TableRows, list[Reject]]:
    """Read all rows of a table."""
    assert source.path is not None
    name = source.spec.name.lower().removesuffix(".gz")
    if name.endswith(".npz"):
        return _read_npz(source)
    if name.endswith(".npy"):
        return _read_npy(source)
    if name.endswith((".parquet", ".pq")):
        return _read_parquet(source)
    if name.endswith(".csv"):
        return _read_csv(source)
    raise SourceError(f"{source.shown}: unknown table format (expected .parquet, .csv, .npz or .npy)")


def names_of(source: LocalSource) -> tuple[str, str]:
    """Return the file's names of the inputs and the labels."""
    named = parse_columns(source.spec.columns, COLUMNS)
    inputs, labels = (named.get(column, column) for column in COLUMNS)
    return inputs, labels


def _read_npz(source: LocalSource) -> tuple[TableRows, list[Reject]]:
    assert source.path is not None
    names = names_of(source)
    arrays = load_npz(source.path, names, source.shown)
    return _from_arrays(
        source.shown, {column: arrays[name] for column, name in zip(COLUMNS, names, strict=True)}
    )


def _read_npy(source: LocalSource) -> tuple[TableRows, list[Reject]]:
    assert source.path is not None
    if source.spec.columns:
        raise SourceError(f"{source.shown}: --columns {source.spec.columns}: an .npy file has no names")
    array = load_npy(source.path, source.shown)
    if array.ndim not in (3, 4) or array.shape[1] != len(COLUMNS):
        raise SourceError(
            f"{source.shown}: has shape {array.shape}; expected [N, 2, R, C] or [N, 2, S], inputs and then labels: "
            "np.stack([inputs, labels], axis=1)"
        )
    return _from_arrays(source.shown, {name: array[:, place] for place, name in enumerate(COLUMNS)})


def _from_arrays(shown: str, arrays: dict[str, NDArray[Any]]) -> tuple[TableRows, list[Reject]]:
    for name, array in arrays.items():
        if array.ndim not in (2, 3) or array.shape != arrays["inputs"].shape or not array.size:
            raise SourceError(
                f"{shown}: {name} has shape {array.shape}; expected [N, R, C] or [N, S], the same for both"
            )
    shape = arrays["inputs"].shape[1:]
    grid = (int(shape[0]), int(shape[1])) if len(shape) == 2 else None
    count = len(arrays["inputs"])
    flat = [arrays[name].reshape(count, -1) for name in COLUMNS]
    return _checked(shown, flat[0], flat[1], np.arange(1, count + 1), grid)


def _read_parquet(source: LocalSource) -> tuple[TableRows, list[Reject]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert source.path is not None
    inputs, labels = wanted = names_of(source)
    try:
        _check_columns(source.shown, wanted, pq.read_schema(source.path).names)
        columns = read_parquet(source.path, list(dict.fromkeys(wanted)), source.shown).to_pydict()
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        raise SourceError(f"{source.shown}: is not a Parquet file ({error})") from error
    return _from_lists(source.shown, columns[inputs], columns[labels], None)


def _read_csv(source: LocalSource) -> tuple[TableRows, list[Reject]]:
    inputs: list[Any] = []
    labels: list[Any] = []
    lines: list[int] = []
    rejects: list[Reject] = []
    wanted = names_of(source)
    with source.open_text() as text:
        try:
            first = next(text, "")
            between = separator_of(first, wanted)
            reader = csv.DictReader(itertools.chain([first], text), delimiter=between)
            _check_columns(f"{source.shown}:1", wanted, reader.fieldnames or ())
            for row in reader:
                if more := len(row.get(None, ())):  # pyright: ignore[reportArgumentType, reportCallIssue]
                    known = len(reader.fieldnames or ())
                    said = f"has {known + more} fields, its header {known}; a cell with {between!r} in it needs quotes"
                    rejects.append(Reject(source.shown, reader.line_num, said))
                    continue
                try:
                    cells = [_cells(name, (row[name] or "").strip()) for name in wanted]
                except ValueError as error:
                    rejects.append(Reject(source.shown, reader.line_num, str(error)))
                    continue
                inputs.append(cells[0])
                labels.append(cells[1])
                lines.append(reader.line_num)
        except (UnicodeDecodeError, csv.Error) as error:
            raise SourceError(f"{source.shown}: is not CSV text ({error})") from error
    if not inputs and rejects:
        raise SourceError(f"{source.shown}:{rejects[0].line}: {rejects[0].reason}")
    rows, others = _from_lists(source.shown, inputs, labels, lines)
    return rows, [*rejects, *others]


def _check_columns(shown: str, wanted: Sequence[str], found: Sequence[str]) -> None:
    for name in wanted:
        if name not in found:
            named = "" if name not in COLUMNS else "; --columns inputs=NAME,labels=NAME names others"
            raise SourceError(f"{shown}: {no_column(name, found)}{named}")


def _cells(column: str, text: str) -> list[Any]:
    """Parse the cells of a text column."""
    try:
        return json_cells(text) if is_json(text) else [int(cell) for cell in text.split()]
    except ValueError as error:
        raise ValueError(f"{column}: a cell is not a number ({error})") from error


def _from_lists(
    shown: str, inputs: list[Any], labels: list[Any], lines: list[int] | None
) -> tuple[TableRows, list[Reject]]:
    """Return rows from lists; all must have the shape of the first."""
    if not inputs:
        raise SourceError(f"{shown}: has no rows")
    lines = lines or list(range(1, len(inputs) + 1))
    rejects: list[Reject] = []
    found_rows: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    kept_lines: list[int] = []
    shape: tuple[int, ...] | None = None
    for line, *cells in zip(lines, inputs, labels, strict=True):
        arrays: list[NDArray[np.int64]] = []
        for name, value in zip(COLUMNS, cells, strict=True):
            try:
                array = np.asarray(value)
            except ValueError:
                rejects.append(Reject(shown, line, f"{name}: the rows of the grid differ in length"))
                break
            if array.ndim not in (1, 2) or not array.size or not np.issubdtype(array.dtype, np.integer):
                rejects.append(Reject(shown, line, f"{name}: is no list of integers"))
                break
            shape = shape or array.shape
            if array.shape != shape:
                rejects.append(Reject(shown, line, f"{name}: has shape {array.shape}, the first row {shape}"))
                break
            arrays.append(array.astype(np.int64).reshape(-1))
        else:
            found_rows.append((arrays[0], arrays[1]))
            kept_lines.append(line)
    if not found_rows:
        first = rejects[0]
        raise SourceError(f"{shown}:{first.line}: {first.reason}")
    assert shape is not None
    grid = (shape[0], shape[1]) if len(shape) == 2 else None
    stacked = [np.stack(column) for column in zip(*found_rows, strict=True)]
    rows, others = _checked(shown, stacked[0], stacked[1], np.array(kept_lines), grid)
    return rows, [*rejects, *others]


def _checked(
    shown: str,
    inputs: NDArray[Any],
    labels: NDArray[Any],
    lines: NDArray[np.int64],
    grid: tuple[int, int] | None,
) -> tuple[TableRows, list[Reject]]:
    """Return the rows with values in range and without repeated inputs, and the rejected rows."""
    if inputs.shape[1] > MAX_CELLS:
        raise SourceError(f"{shown}: rows have {inputs.shape[1]:,} cells; expected {MAX_CELLS:,}")
    rejects: list[Reject] = []
    seen: dict[bytes, int] = {}
    good: list[int] = []
    wrong = [((values < 0) | (values > LARGEST_TOKEN)) for values in (inputs, labels)]
    bad = np.logical_or(wrong[0], wrong[1]).any(axis=1)
    for row, (line, is_bad) in enumerate(zip(lines.tolist(), np.asarray(bad).tolist(), strict=True)):
        if is_bad:
            which = 0 if wrong[0][row].any() else 1
            cell = int(wrong[which][row].argmax())
            value = (inputs, labels)[which][row, cell]
            reason = f"{COLUMNS[which]}: value {value} at cell {cell + 1}; expected 0 to {LARGEST_TOKEN}"
            rejects.append(Reject(shown, line, reason))
            continue
        if not labels[row].any():
            rejects.append(Reject(shown, line, "labels: has only PAD (0), so there is nothing to learn"))
            continue
        first = seen.setdefault(inputs[row].astype(np.uint8).tobytes(), line)
        if first != line:
            rejects.append(Reject(shown, line, f"the same input as row {first}"))
            continue
        good.append(row)
    rows = TableRows(
        lines[good],
        np.ascontiguousarray(inputs[good], np.uint8),
        np.ascontiguousarray(labels[good], np.uint8),
        grid,
    )
    return rows, rejects
