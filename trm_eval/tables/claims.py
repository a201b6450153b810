"""Published results with their protocols: `catalogs/claims.csv` as a table.

What others report of a work is `second-hand`. A source is an arXiv number, a repository, or a page of arcprize.org or
huggingface.
"""

from __future__ import annotations

import csv
import io
import re
from functools import cache
from importlib.resources import files
from typing import Any

import pyarrow as pa

from trm_data.errors import QueryError
from trm_eval.tables.schema import CLAIMS

SOURCE = re.compile(
    r"arXiv:\d{4}\.\d{5}|github:[\w.-]+/[\w.-]+|huggingface:[\w.-]+/[\w.-]+|arcprize\.org(/[\w./-]+)?"
)
SOURCES = "arXiv:NUMBER, github:OWNER/NAME, huggingface:OWNER/NAME, or a page of arcprize.org"
STATED = ("primary", "second-hand")


@cache
def claims_table() -> pa.Table:
    """The claims that ship with the package."""
    return read_claims(files("catalogs").joinpath("claims.csv").read_text("utf-8"), "catalogs/claims.csv")


def read_claims(text: str, where: str) -> pa.Table:
    """Claims from CSV.

    Args:
        text: With a header.
        where: The file's name, for messages.

    Raises:
        QueryError: A column is missing, or a row has another form; says which line and what is allowed.
    """
    reader = csv.DictReader(io.StringIO(text))
    names = set(reader.fieldnames or ())
    if missing := [name for name in CLAIMS.names if name not in names]:
        raise QueryError(
            f"{where}:1: columns are missing (got {sorted(names)}; missing: {', '.join(missing)})"
        )
    rows = [_row(row, f"{where}:{reader.line_num}") for row in reader]
    return pa.Table.from_pylist(rows, schema=CLAIMS)


def _row(row: dict[str, str], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for column in CLAIMS:
        text = (row[column.name] or "").strip()
        try:
            found[column.name] = _value(text, column.type)
        except ValueError as error:
            raise QueryError(f"{where}: {column.name} is {text!r}; expected {column.type}") from error
    if not SOURCE.fullmatch(found["source"] or ""):
        raise QueryError(f"{where}: source is {found['source'] or ''!r}; expected {SOURCES}")
    if found["stated"] not in STATED:
        raise QueryError(f"{where}: stated is {found['stated']!r}; expected {' or '.join(STATED)}")
    if not (found["work"] and found["dataset"] and found["metric"]) or not 0 <= found["value"] <= 100:
        raise QueryError(
            f"{where}: expected work, dataset, metric and a value of 0 to 100 percent (got {row})"
        )
    return found


def _value(text: str, kind: pa.DataType) -> str | float | int | None:
    if not text:
        return None
    if pa.types.is_string(kind):
        return text
    return float(text) if pa.types.is_floating(kind) else int(text)
