"""Named queries of the package."""

from __future__ import annotations

import re
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


STUDY = {"study", "compared_runs", "pareto"}
ABOUT_STUDY = (
    "tests of all rows, with averaged weights, of experiments, own studies (--experiments FILE) and sweeps. trm-train "
    "batch trains and tests them; with --sweep OPTION=VALUE,... it takes runs with other options, also finished ones."
)
ABOUT = {
    "runs": "runs. trm-train run EXPERIMENT adds one.",
    "train_metrics": "runs. trm-train run EXPERIMENT adds one.",
    "time_to": "runs with validations. trm-train run EXPERIMENT adds one.",
    "splits": "datasets. trm-data build adds one.",
}
"""Runs that queries of a table are about; of other tables they are about evaluations."""
COMMENT, TABLE = re.compile(r"--.*"), re.compile(r"\b(?:FROM|JOIN) (\w+)")


def why_empty(query: str) -> str | None:
    """Return a line that says which runs a named query without rows is about; None for other queries."""
    if not query.startswith("@"):
        return None
    tables = TABLE.findall(COMMENT.sub("", load_query(query[1:])))
    first = "splits" if "splits" in tables else tables[0]
    about = ABOUT.get(first, "evaluations. trm-eval run RUN adds one.")
    return f"{query} has no rows. It is about {ABOUT_STUDY if STUDY & set(tables) else about}"


def load_query(name: str) -> str:
    """Return the SQL of a named query."""
    queries = named_queries()
    if name not in queries:
        known = [f"@{each}" for each in queries]
        raise QueryError(no_such(f"no query @{name}", f"@{name}", known, "trm-eval queries"))
    return files("catalogs").joinpath(f"queries/{name}.sql").read_text("utf-8")
