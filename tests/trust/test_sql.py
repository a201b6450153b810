"""SQL of users reads, and does nothing else: on both command lines, from Python, and whatever is tried."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trm_data
import trm_eval
from tests.conftest import run_here
from tests.harness.figures import record
from tests.harness.roots import root_with
from tests.trust.attacks import attacks
from trm_data.catalog.query import query_catalog
from trm_data.cli import main as trm_data_main
from trm_data.errors import QueryError
from trm_data.storage.root import Layout
from trm_eval.cli import main as trm_eval_main
from trm_eval.tables.query import query_results

BIN = Path(sys.executable).parent


@pytest.fixture
def layout(small_layout: Layout, tmp_path: Path) -> Layout:
    layout = root_with("small", tmp_path / "root", small_layout)
    assert query_catalog(layout, "SELECT 1").rows == [(1,)]
    return layout


@pytest.fixture(scope="module")
def untouched(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """As `layout`, for queries that only read."""
    return root_with("small", tmp_path_factory.mktemp("sql"), small_layout)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, beside the root, with what a query must neither read nor write."""
    folder = tmp_path / "outside"
    for inner in (".tmp", "catalog.duckdb.tmp"):
        (folder / inner).mkdir(parents=True)
    (folder / "secret.csv").write_text("a\nSECRET\n")
    monkeypatch.chdir(folder)
    return folder


def seen(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder, with size and time."""
    paths = [path for path in folder.rglob("*") if path.name != "whole.json"]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths if path.is_file()} | {
        str(path): (0, 0) for path in paths if path.is_dir() and not path.name.startswith(".tmp-sql-")
    }


@pytest.mark.parametrize("ask", [query_catalog, query_results], ids=["trm-data", "trm-eval"])
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_no_attack_changes_or_reads_anything(
    layout: Layout, outside: Path, tmp_path: Path, ask: Callable[[Layout, str], Any], every: int
) -> None:
    """Every attack in the long form, some of every kind in the short one."""
    ask(layout, "SELECT 1")
    before, believed = seen(tmp_path), []
    tried = list(attacks(Path(layout.place), outside))
    assert len(tried) >= 200
    for statement in tried[::every]:
        try:
            believed.append((statement, ask(layout, statement).rows))
        except QueryError:
            continue
        finally:
            assert seen(tmp_path) == before, statement
    assert believed == []
    if every > 1:
        return
    record(
        "sql", {"statements": len(tried), "on_each_of_the_command_lines": 2, "changed_or_read_anything": 0}
    )


@pytest.mark.parametrize("program", ["trm-data", "trm-eval"])
@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO 'mine.csv'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'mine.csv'",
        "SELECT \udcff",  # a byte of the command line that is no UTF-8, and of standard error then
        "SELECT * FROM read_csv('secret.csv')",
    ],
)
def test_the_commands_say_so_in_one_line(layout: Layout, outside: Path, program: str, statement: str) -> None:
    arguments = ("sql", statement, "--root", layout.place)
    if statement.isascii():
        done = run_here({"trm-data": trm_data_main, "trm-eval": trm_eval_main}[program], *arguments)
    else:
        command = [BIN / program, *map(os.fsencode, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"{program}: ")
    assert "Traceback" not in done.stderr
    assert "SECRET" not in done.stderr
    assert sorted(path.name for path in outside.iterdir()) == [".tmp", "catalog.duckdb.tmp", "secret.csv"]


@pytest.mark.parametrize("ask", [trm_data.sql, trm_eval.sql])
def test_from_python_too(layout: Layout, outside: Path, ask: Callable[..., Any]) -> None:
    with pytest.raises(QueryError, match="COPY statements are not run: only queries are"):
        ask(f"COPY (SELECT 1) TO '{outside}/mine.csv'", layout)
    with pytest.raises(QueryError, match="is no UTF-8 text"):
        ask("SELECT '\udcff'", layout)


@pytest.mark.parametrize("ask", [query_catalog, query_results], ids=["trm-data", "trm-eval"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM puzzles",
        "  select 1",
        "-- a comment\nSELECT 1",
        "FROM splits",
        "TABLE splits",
        "VALUES (1), (2)",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "DESCRIBE puzzles",
        "SHOW TABLES",
        "SUMMARIZE splits",
        "EXPLAIN SELECT * FROM puzzles",
        "EXPLAIN ANALYZE SELECT * FROM puzzles",
        "PIVOT (SELECT split, num_groups FROM splits) ON split USING sum(num_groups)",
        "SELECT * FROM duckdb_columns() WHERE comment IS NOT NULL",
        "SELECT 'it''s', chr(255), 'ÿ'",
        "SELECT 1;",
    ],
)
def test_queries_of_every_form_are_answered(
    untouched: Layout, query: str, ask: Callable[[Layout, str], Any]
) -> None:
    assert ask(untouched, query).rows
