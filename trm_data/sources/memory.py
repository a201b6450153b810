"""Puzzles from memory, written as a file of the same rows, so that they are read and checked like a file.

Input: a frame (polars, pandas), an Arrow table, a dict of columns, a list of texts or of objects, or an array [N, S] or
[N, R, C]; for ARC, a dict of tasks. Output: a JSON Lines file, whose bytes depend on the rows alone, and the value of
`--source` that reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from trm_data.errors import SourceError
from trm_data.sources.columns import find_columns, no_column, parse_columns
from trm_data.sources.forms import value_inside

NAME = "memory"
"""Name of the file, and of the only subset of ARC tasks."""
ENDS = ("start", "goal")
"""Columns with the row and the column of both ends of a maze, whose cells are 0 (free) and 1 (wall)."""


def write_source(value: Any, folder: Path, kind: str, columns: str = "") -> str:
    """Write puzzles into a folder; return the value of `--source`.

    Args:
        value: The puzzles.
        folder: An empty folder.
        kind: Kind of the puzzles.
        columns: Names of columns that differ from the default, as `question=NAME,answer=NAME`.

    Raises:
        SourceError: The value has no supported form; names the row and the column.
    """
    path = folder / f"{NAME}.jsonl"
    rows = _tasks(value) if kind == "arc" else _rows(value, columns)
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n")
    return f"repo:{folder}" if kind == "arc" else f"txt:{path}"


def grid_of(value: Any, columns: str = "") -> str:
    """Return rows and columns of puzzles that are arrays [R, C], as `9x9`; empty for other forms."""
    table, named = _table(value), parse_columns(columns)
    names = list(table)
    shape = np.shape(table[names[find_columns(names, named, "source")["question"]]][0])
    return "x".join(map(str, shape)) if len(shape) == 2 else ""


def _tasks(value: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(value, Mapping):
        raise SourceError(f"source: got {type(value).__name__}; expected a dict of tasks by name")
    for name, task in cast(Mapping[str, Any], value).items():
        if not isinstance(task, Mapping):
            raise SourceError(
                f"source: task {name}: got {type(task).__name__}; expected a dict with train and test"
            )
        yield {**_plain(task), "task_id": str(name)}


def _rows(value: Any, columns: str) -> Iterator[dict[str, Any]]:
    table, named = _table(value), parse_columns(columns)
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        table |= {name: [value_inside(row, name) for row in value] for name in named.values()}
    names = list(table)
    at = {column: names[place] for column, place in find_columns(names, named, "source").items()}
    for column in {"question", *named} - at.keys():
        raise SourceError(f"source: {no_column(named.get(column, column), names)}")
    ends = [name for name in ENDS if name in names]
    lengths = {name: len(table[name]) for name in [*at.values(), *ends]}
    if len(set(lengths.values())) > 1:
        stated = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise SourceError(f"source: columns of different lengths ({stated})")
    if not lengths[at["question"]]:
        raise SourceError("source: has no rows")
    for number in range(lengths[at["question"]]):
        row = {
            column: _cell(table[name][number], f"row {number + 1}, column {name}")
            for column, name in at.items()
        }
        if row["question"] is None:
            name = at["question"]
            raise SourceError(
                f"source: row {number + 1}, column {name}: got {table[name][number]}; expected a puzzle. Drop it."
            )
        if len(ends) == len(ENDS):
            row["question"] = _maze(row["question"], [table[name][number] for name in ENDS], number + 1)
        yield {column: cell for column, cell in row.items() if cell is not None}


def _table(value: Any) -> dict[str, Any]:
    """Return the columns of a value by name; an array or a list of texts is the column `question`."""
    if isinstance(value, Mapping):
        table = dict(cast(Mapping[str, Any], value))
    elif hasattr(value, "to_pydict"):  # Arrow
        table = value.to_pydict()
    elif hasattr(value, "get_columns"):  # polars
        table = value.to_dict(as_series=False)
    elif hasattr(value, "iloc") and hasattr(value, "columns"):  # pandas
        table = value.to_dict(orient="list")
    elif hasattr(value, "column_names"):  # Hugging Face datasets
        table = value.to_dict()
    elif isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        rows = cast(Sequence[Mapping[str, Any]], value)
        table = {name: [row.get(name) for row in rows] for name in rows[0]}
    elif isinstance(value, list | tuple | np.ndarray):
        if isinstance(value, np.ndarray) and value.ndim not in (1, 2, 3):
            raise SourceError(f"source: array of shape {value.shape}; expected [N], [N, S] or [N, R, C]")
        table = {"question": value}
    else:
        raise SourceError(
            f"source: got {type(value).__name__}; expected a frame, an Arrow table, a dict of columns, a list of "
            "texts or objects, or an array [N, S] or [N, R, C]"
        )
    for name, column in table.items():
        if isinstance(column, str) or not hasattr(column, "__len__"):
            raise SourceError(
                f"source: column {name}: got {type(column).__name__}; expected a list or an array"
            )
    return table


def _cell(value: Any, where: str) -> Any:
    """Return a text, a number, or rows of whole numbers as JSON values; None for a missing value."""
    value = _plain(value)
    if value is None or value != value:  # NaN
        return None
    cells = value if isinstance(value, list) else []
    for place, cell in enumerate(
        (cell for row in cells for cell in (row if isinstance(row, list) else [row])), 1
    ):
        if isinstance(cell, float):
            raise SourceError(f"source: {where}: got {cell} at position {place}; expected whole numbers")
    return value


def _plain(value: Any) -> Any:
    """Return arrays in a value as lists."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast(Sequence[Any], value)]
    return value.tolist() if hasattr(value, "tolist") else value


def _maze(walls: Any, ends: Sequence[Any], number: int) -> str:
    """Return a maze as text, from its walls [R, C] and the positions of both ends."""
    cells = np.array(walls) if isinstance(walls, list) else np.array([])
    if cells.ndim != 2 or not np.isin(cells, (0, 1)).all():
        raise SourceError(
            f"source: row {number}: a maze with {' and '.join(ENDS)} has rows of 0 (free) and 1 (wall)"
        )
    marks = np.where(cells == 1, "#", " ")
    for name, mark, end in zip(ENDS, "SG", ends, strict=True):
        place = (
            tuple(_plain(end)) if not isinstance(end, int | np.integer) else divmod(int(end), cells.shape[1])
        )
        inside = len(place) == 2 and all(0 <= at < size for at, size in zip(place, cells.shape, strict=True))
        if not inside or marks[place] != " ":
            raise SourceError(f"source: row {number}: {name} {place}: expected row and column of a free cell")
        marks[place] = mark
    return "".join(marks.reshape(-1).tolist())
