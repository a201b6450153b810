"""Named queries of the package."""

from __future__ import annotations

from importlib.resources import files

from trm_data.errors import QueryError, no_such


def query_text(query: str) -> str:
    """Return the SQL of a query given by the user: SQL itself, or `@name`."""
    return load_query(query[1:]) if query.startswith("@") else query


def named_queries() -> dict[str, str]:
    """Return the names of the queries that ship with the package, with their descriptions (first comment)."""
    found: dict[str, str] = {}
    for file in files("catalogs").joinpath("queries").iterdir():
        if file.name.endswith(".sql"):
            first = file.read_text("utf-8").partition("\n")[0]
            found[file.name.removesuffix(".sql")] = first.removeprefix("--").strip()
    return dict(sorted(found.items()))


def why_empty(query: str) -> str | None:
    """Return a line that says what a named query without rows is about; None for other queries."""
    if not query.startswith("@"):
        return None
    return (
        f"{query} has no rows: {named_queries()[query[1:]]} trm-data build adds datasets, trm-train run adds runs, "
        "trm-eval run adds evaluations, and trm-train batch (with --sweep OPTION=VALUE,... also of other options) adds "
        "tested runs of studies"
    )


def load_query(name: str) -> str:
    """Return the SQL of a named query."""
    queries = named_queries()
    if name not in queries:
        known = [f"@{each}" for each in queries]
        raise QueryError(no_such(f"no query @{name}", f"@{name}", known, "trm-eval queries"))
    return files("catalogs").joinpath(f"queries/{name}.sql").read_text("utf-8")
