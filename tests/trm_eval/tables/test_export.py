"""The exported DuckDB file: queries give the same result as on the root, without this package."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from tests.conftest import run_here
from tests.trm_eval.conftest import Evaluated
from trm_data.storage.root import resolve_root
from trm_eval.cli import main
from trm_eval.errors import ResultError
from trm_eval.tables.export import OVER_ROWS, write_duckdb
from trm_eval.tables.query import query_results
from trm_eval.tables.views import list_views


@pytest.fixture(scope="module")
def written(evaluated: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "results.duckdb"
    done = write_duckdb(evaluated.layout, path)
    assert done.problems == ()
    assert done.rows["all_predictions"] == 12
    return path


@pytest.mark.integration
def test_every_view_is_there_with_the_same_rows(evaluated: Evaluated, written: Path) -> None:
    with duckdb.connect(str(written), read_only=True) as connection:
        for name in list_views():
            columns = [row[0] for row in connection.execute(f"DESCRIBE {name}").fetchall()]
            expected = query_results(
                evaluated.layout, f"SELECT {', '.join(columns)} FROM {name} ORDER BY ALL"
            )
            assert connection.execute(f"FROM {name} ORDER BY ALL").fetchall() == expected.rows, name
        tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        assert tables == set(list_views()) - set(OVER_ROWS)
        tokens = connection.execute(
            "SELECT table_name FROM duckdb_columns() WHERE column_name IN ('prediction', 'answer', 'grid')"
        ).fetchall()
        assert {name for (name,) in tokens} & tables == {"all_predictions", "all_traces", "all_votes"}
        assert connection.execute(
            "SELECT count(*) FROM predicted_puzzles WHERE rating IS NULL"
        ).fetchone() == (0,)
        assert connection.execute("SELECT round(wilson_low(5, 10), 4)").fetchone() == (0.2366,)


def test_every_column_keeps_its_comment(written: Path) -> None:
    with duckdb.connect(str(written), read_only=True) as connection:
        found = connection.execute(
            "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"
        )
        comments = {(table, column): comment for table, column, comment in found.fetchall()}
        assert comments == {(v.name, c.name): c.comment for v in list_views().values() for c in v.columns}
        said = connection.execute("SELECT comment FROM duckdb_tables() WHERE table_name = 'study'").fetchone()
        assert said == (list_views()["study"].says,)


@pytest.mark.integration
def test_a_file_that_is_there_stays_without_force(evaluated: Evaluated, tmp_path: Path) -> None:
    path = tmp_path / "mine.duckdb"
    path.write_text("mine")
    with pytest.raises(ResultError, match=r"mine.duckdb: already exists; --force replaces it"):
        write_duckdb(evaluated.layout, path)
    assert path.read_text() == "mine"
    with pytest.raises(ResultError, match="already exists; give another name"):
        write_duckdb(evaluated.layout, tmp_path, force=True)
    write_duckdb(evaluated.layout, path, force=True)
    with duckdb.connect(str(path), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    assert [left.name for left in tmp_path.iterdir()] == ["mine.duckdb"]


@pytest.mark.integration
def test_the_command_and_an_empty_root(evaluated: Evaluated, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.duckdb"
    said = run_here(main, "duckdb", str(path), "--root", evaluated.layout.place)
    assert said.returncode == 0, said.stderr
    assert f"{len(list_views()) - 8} tables, 8 views" in said.stdout
    value = json.loads(
        run_here(main, "duckdb", str(path), "--root", evaluated.layout.place, "--force", "--json").stdout
    )
    assert (value["path"], value["rows"]["runs"]) == (str(path), 1)
    again = run_here(main, "duckdb", str(path), "--root", evaluated.layout.place)
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    done = write_duckdb(resolve_root(tmp_path / "empty"), tmp_path / "empty.duckdb")
    assert done.rows["runs"] == done.rows["all_predictions"] == 0
    assert done.rows["experiments"] > 67
