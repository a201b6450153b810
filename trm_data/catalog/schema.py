"""The catalog's tables, as `catalogs/schema.sql` defines them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

TABLES = (
    "datasets",
    "sources",
    "splits",
    "shards",
    "puzzles",
    "augmentations",
    "examples",
    "identifiers",
    "rejects",
)


@cache
def schema_sql() -> str:
    """The statements that create all tables, with their comments."""
    return files("catalogs").joinpath("schema.sql").read_text("utf-8")


def quote_identifier(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """A text as an SQL literal, for statements that take no `?`, such as COPY."""
    return "'" + text.replace("'", "''") + "'"
