"""Large tables as files that DuckDB reads: odd paths, columns of other versions, and no access to other files."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trm_data.catalog.query import lock
from trm_data.catalog.schema import quote_literal
from trm_data.storage.root import resolve_root
from trm_eval.tables.parts import open_parts

COLUMNS = "experiment VARCHAR, run VARCHAR, evaluation VARCHAR, parts VARCHAR[], part_digests VARCHAR[]"
EVALS = f"CREATE TABLE all_evals ({COLUMNS})"


def write(root: Path, run: str, name: str, **columns: list[object]) -> Path:
    path = root / "results" / "predictions" / "experiment=e" / f"run={run}" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def test_files_of_other_versions_have_the_columns_of_today_and_only_named_rows(tmp_path: Path) -> None:
    """The folder's name looks like a wildcard and like SQL; other folders fit the wildcard."""
    root = tmp_path / "a[1]*'; DROP"
    write(root, "r", "a-00000", evaluation=["a", "a"], part=["a-00000", "killed"], row=[1, 2])
    write(
        root, "r", "merged", evaluation=["b", "c"], part=["b-00000", "c-00000"], row=[3, 4], newer=["?", "?"]
    )
    write(tmp_path / "a1x'; DROP", "r", "a-00000", evaluation=["a"], part=["a-00000"], row=[7])
    secret = write(tmp_path, "secret", "x", row=[8])
    with duckdb.connect() as connection:
        connection.execute(EVALS)
        connection.execute("INSERT INTO all_evals VALUES ('e', 'r', 'a', ['a-00000'], NULL)")
        connection.execute(
            "INSERT INTO all_evals VALUES ('e', 'r', 'b', ['merged'], NULL), ('e', 'r', 'd', ['d'], NULL)"
        )
        layout = resolve_root(root)
        paths, missing = open_parts(connection, layout, "predictions", None, again=False, damaged=None)
        assert missing == [
            f"{layout.results.where('predictions/experiment=e/run=r/d.parquet')}: is missing, and an evaluation names "
            "it; evaluate again"
        ]
        connection.execute(f"SET allowed_paths = [{', '.join(map(quote_literal, paths))}]")
        lock(connection)
        rows = connection.execute("SELECT evaluation, row, rating FROM predictions_opened").fetchall()
        assert rows == [("a", 1, None)]  # the part `merged` has no rows of its own name
        with pytest.raises(duckdb.PermissionException):
            connection.execute(f"FROM read_parquet('{secret}')")


def test_only_files_of_known_evaluations_are_opened(tmp_path: Path) -> None:
    wanted = write(tmp_path, "r", "a-00000", evaluation=["a"], part=["a-00000"], row=[1])
    write(tmp_path, "r", "b-00000", evaluation=["b"], part=["b-00000"], row=[2])
    with duckdb.connect() as connection:
        connection.execute(EVALS)
        connection.execute("INSERT INTO all_evals VALUES ('e', 'r', 'a', ['a-00000'], NULL)")
        connection.execute("INSERT INTO all_evals VALUES ('e', 'r', 'b', ['b-00000'], NULL)")
        opened = open_parts(
            connection, resolve_root(tmp_path), "predictions", ["a"], again=False, damaged=None
        )
        assert opened == ([str(wanted)], [])
        assert connection.execute("SELECT row FROM predictions_opened").fetchall() == [(1,)]
