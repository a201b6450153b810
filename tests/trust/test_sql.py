"""User SQL is read-only: on both command lines, from Python, and under attack."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import trm_data
import trm_eval
from tests.conftest import run_here
from tests.harness.figures import record
from tests.support.roots import root_with
from tests.trm_eval.conftest import Evaluated
from tests.trust.attacks import attacks, writes
from trm_data.catalog.query import READING, operators_of, query_catalog
from trm_data.errors import QueryError
from trm_data.storage.atomic import file_sha256
from trm_data.storage.root import Layout, resolve_root
from trm_eval.cli import main as trm_eval_main
from trm_eval.report.ask import ask
from trm_eval.tables.named import load_query, named_queries
from trm_eval.tables.query import open_results, query_results
from trm_eval.tables.views import list_views

BIN = Path(sys.executable).parent


@pytest.fixture
def layout(small_layout: Layout, tmp_path: Path) -> Layout:
    layout = root_with("small", tmp_path / "root", small_layout)
    assert query_catalog(layout, "SELECT 1").rows == [(1,)]
    return layout


@pytest.fixture(scope="module")
def untouched(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Like `layout`, for queries that only read."""
    return root_with("small", tmp_path_factory.mktemp("sql"), small_layout)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, next to the root, with files that a query must neither read nor write."""
    folder = tmp_path / "outside"
    for inner in (".tmp", "catalog.duckdb.tmp"):
        (folder / inner).mkdir(parents=True)
    (folder / "secret.csv").write_text("a\nSECRET\n")
    monkeypatch.chdir(folder)
    return folder


def seen(folder: Path) -> dict[str, tuple[int, int]]:
    """Return every file and folder, with size and time."""
    paths = [path for path in folder.rglob("*") if path.name != "whole.json"]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths if path.is_file()} | {
        str(path): (0, 0) for path in paths if path.is_dir()
    }


@pytest.mark.parametrize("ask", [query_catalog, query_results], ids=["trm-data", "trm-eval"])
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_no_attack_changes_or_reads_anything(
    layout: Layout, outside: Path, tmp_path: Path, ask: Callable[[Layout, str], Any], every: int
) -> None:
    """Run every attack in the long form, some of every kind in the short one."""
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


def by_reports(layout: Layout, sql: str) -> Any:
    return ask(layout, "what", sql, [], []).rows


@pytest.mark.parametrize(
    ("asks", "some"),
    [
        (lambda layout, sql: query_results(layout, sql).rows, ""),
        (lambda layout, sql: trm_eval.sql(sql, layout).rows(), "42"),
        (by_reports, "42"),
    ],
    ids=["trm-eval", "Python", "reports"],
)
def test_no_query_overwrites_the_predictions_that_it_may_read(
    evaluated: Evaluated, tmp_path: Path, asks: Callable[[Layout, str], Any], some: str
) -> None:
    """DuckDB could write every file that it may read."""
    shutil.copytree(evaluated.layout.place, tmp_path / "root")
    layout = resolve_root(tmp_path / "root")
    (path,) = Path(layout.place).glob("results/predictions/**/*.parquet")
    digest, believed = file_sha256(path), []
    for query in (f"{each} -- predictions" for each in writes(path) if some in each):
        for _ in range(3 if "random()" in query else 1):
            with suppress(QueryError):
                believed.append((query, asks(layout, query)))
            assert file_sha256(path) == digest, query
    assert believed == []
    with pytest.raises(QueryError, match="COPY_TO_FILE"):
        asks(layout, f"WITH x AS (COPY (SELECT 1) TO '{path}' (USE_TMP_FILE false)) FROM x, predictions")
    with pytest.raises(QueryError, match="file system operations are disabled"):
        asks(layout, f"SELECT count(*) FROM read_parquet('{path}'), predictions")


@pytest.mark.parametrize("ask", [query_catalog, query_results], ids=["trm-data", "trm-eval"])
def test_what_a_query_may_not_do_is_named(untouched: Layout, ask: Callable[[Layout, str], Any]) -> None:
    for query, named in (
        ("WITH x AS (COPY (SELECT 1) TO 'a.csv') FROM x", "a.csv"),
        ("FROM checkpoint()", "CHECKPOINT"),
        ("FROM query('SELECT 1')", "query()"),
        ("PIVOT splits ON split USING count(*)", "IN ("),
        ("SELECT * FROM splits, (PIVOT splits ON split USING count(*))", "IN ("),
        ("EXPLAIN ANALYZE SELECT 1", "EXPLAIN statements are refused"),
        ("UPDATE EXTENSIONS", "UPDATE EXTENSIONS statements are refused"),
    ):
        with pytest.raises(QueryError) as refused:
            ask(untouched, query)
        assert named in str(refused.value), query


@pytest.mark.parametrize("ask", [query_catalog, query_results], ids=["trm-data", "trm-eval"])
@pytest.mark.parametrize(
    "query",
    [
        "FROM query_table({})",
        'SELECT count(*) FROM main."query_table"({}) AS predicted',
        "SELECT (SELECT count(*) FROM query_table({})) -- show",
        "DESCRIBE (FROM query_table({}))",
    ],
)
def test_no_query_hides_the_name_of_a_table(
    untouched: Layout, query: str, ask: Callable[[Layout, str], Any]
) -> None:
    """Only the tables that the text names are opened: others would have no rows."""
    for name in ("'predic' || 'tions'", "'puzz' || 'les'"):
        with pytest.raises(QueryError, match=r"query_table\(\) is refused"):
            ask(untouched, query.format(name))


def test_every_operator_of_the_shipped_queries_and_views_reads(evaluated: Evaluated) -> None:
    queries = [load_query(name) for name in named_queries()]
    queries += [f"SELECT * FROM {view}" for view in list_views()]
    with open_results(evaluated.layout) as (connection, _):
        found = set[str]()
        for query in queries:
            (explained,) = connection.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()
            found |= operators_of(explained[1])
    assert {"READ_PARQUET", "PYTHON_ARROW_SCAN", "HASH_JOIN", "WINDOW"} <= found <= READING


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO 'mine.csv'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'mine.csv'",
        "SELECT \udcff",  # a byte of the command line, and then of stderr, that is not UTF-8
        "SELECT * FROM read_csv('secret.csv')",
    ],
)
def test_the_commands_say_so_in_one_line(layout: Layout, outside: Path, statement: str) -> None:
    arguments = ("sql", statement, "--root", layout.place)
    if statement.isascii():
        done = run_here(trm_eval_main, *arguments)
    else:
        command = [BIN / "trm-eval", *map(os.fsencode, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("trm-eval: ")
    assert "Traceback" not in done.stderr
    assert "SECRET" not in done.stderr
    assert sorted(path.name for path in outside.iterdir()) == [".tmp", "catalog.duckdb.tmp", "secret.csv"]


@pytest.mark.parametrize("ask", [trm_data.sql, trm_eval.sql])
def test_from_python_too(layout: Layout, outside: Path, ask: Callable[..., Any]) -> None:
    with pytest.raises(QueryError, match="COPY statements are refused"):
        ask(f"COPY (SELECT 1) TO '{outside}/mine.csv'", layout)
    with pytest.raises(QueryError, match="is not UTF-8 text"):
        ask("SELECT '\udcff'", layout)


@pytest.mark.parametrize("ask", [query_catalog, query_results], ids=["trm-data", "trm-eval"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM puzzles",
        "-- a comment\nSELECT 1",
        "VALUES (1), (2)",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "DESCRIBE puzzles",
        "SHOW TABLES",
        "SUMMARIZE splits",
        "PIVOT (SELECT split, num_groups FROM splits) ON split IN ('train', 'test') USING sum(num_groups)",
        "SELECT split, (SELECT count(*) FROM puzzles AS p WHERE p.split = s.split) FROM splits AS s",
        "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 3) FROM r",
        "SELECT DISTINCT ON (split) * FROM puzzles USING SAMPLE 10",
        "FROM puzzles, range(3) QUALIFY row_number() OVER (PARTITION BY split) = 1",
        "FROM puzzles AS p JOIN splits AS s ON p.group_index < s.num_groups ORDER BY ALL LIMIT 3",
        "SELECT * FROM information_schema.columns",
        "SHOW ALL TABLES",
        "SELECT * FROM duckdb_columns() WHERE comment IS NOT NULL",
        "SELECT 'it''s', chr(255), 'ÿ'",
    ],
)
def test_queries_of_every_form_are_answered(
    untouched: Layout, query: str, ask: Callable[[Layout, str], Any]
) -> None:
    assert ask(untouched, query).rows
