"""Large tables as files that DuckDB reads: odd paths, columns of other versions, and no access to other files."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trm_data.storage.digests import digest_of
from trm_eval.tables.parts import Parts, allow, read_small

SCHEMA = pa.schema(
    [("row", pa.int64()), ("late", pa.bool_()), ("experiment", pa.string()), ("run", pa.string())]
)


def write(path: Path, **columns: list[object]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return str(path)


def test_files_of_other_versions_have_the_columns_of_today(tmp_path: Path) -> None:
    """The folder name looks like a partition and like SQL."""
    place = tmp_path / "run=x'; DROP"
    old = write(place / "old.parquet", row=[1, 2])
    new = write(place / "new.parquet", row=[3], late=[True], newer=["?"])
    parts = Parts(SCHEMA, [(old, "e", "o'r"), (new, "e", "o'r"), (new, "f", "s")])
    with duckdb.connect() as connection:
        allow(connection, [parts])
        parts.register(connection, "things")
        connection.execute("SET enable_external_access = false")
        found = connection.execute("SELECT * FROM things_files ORDER BY ALL").fetchall()
        assert found == [
            (1, None, "e", "o'r"),
            (2, None, "e", "o'r"),
            (3, True, "e", "o'r"),
            (3, True, "f", "s"),
        ]
        assert [column[0] for column in connection.description or []] == SCHEMA.names
        secret = write(tmp_path / "secret.parquet", row=[7])
        for reads in (f"FROM read_parquet('{secret}')", "FROM read_text('/etc/hostname')"):
            with pytest.raises(duckdb.PermissionException):
                connection.execute(reads)


def test_without_files_it_is_empty_and_has_its_columns() -> None:
    parts = Parts(SCHEMA, [])
    with duckdb.connect() as connection:
        allow(connection, [parts])
        parts.register(connection, "things")
        for name in ("things_whole", "things_files"):
            assert connection.execute(f"SELECT * FROM {name}").fetchall() == []
            assert connection.execute(
                f"SELECT typeof(late) FROM (SELECT * FROM {name} RIGHT JOIN (SELECT 1) ON true)"
            ).fetchone() == ("BOOLEAN",)


def test_files_of_one_evaluation_say_which_without_being_read(tmp_path: Path) -> None:
    """A file of an older version, one of the present version, and one shared by two evaluations."""
    schema = pa.schema([("evaluation", pa.string()), *SCHEMA])
    old = write(tmp_path / "a-00000.parquet", evaluation=["a"], row=[1])
    new = write(tmp_path / "b-00000.parquet", evaluation=["b"], row=[2], late=[True])
    shared = write(tmp_path / "merged.parquet", evaluation=["a", "b"], row=[3, 4])
    files = [(path, "e", "r") for path in (old, new, shared)]
    parts = Parts(schema, files, {old: "a", new: "b"})
    with duckdb.connect() as connection:
        parts.register(connection, "things")
        whole = "SELECT evaluation, row, late FROM things_whole ORDER BY ALL"
        assert connection.execute(whole).fetchall() == [("a", 1, None), ("b", 2, True)]
        others = "SELECT evaluation, row, late FROM things_files ORDER BY ALL"
        assert connection.execute(others).fetchall() == [("a", 3, None), ("b", 4, None)]


def test_rows_of_small_files_are_in_their_order_and_a_file_with_a_digest_is_read_once(tmp_path: Path) -> None:
    place = tmp_path / "run=x"
    named = write(place / f"b.{'0' * 16}.parquet", row=[3], late=[True])
    plain = write(place / "a.parquet", row=[1, 2])
    parts = Parts(SCHEMA, [(named, "e", "r"), (plain, "f", "s")])
    wanted = [
        {"row": 3, "late": True, "experiment": "e", "run": "r"},
        {"row": 1, "late": None, "experiment": "f", "run": "s"},
        {"row": 2, "late": None, "experiment": "f", "run": "s"},
    ]
    assert read_small(parts).to_pylist() == wanted
    assert digest_of(Path(named).name) is not None
    write(Path(named), row=[4], late=[False])  # no real writer does this
    write(Path(plain), row=[5])
    assert [row["row"] for row in read_small(parts).to_pylist()] == [3, 5]
    assert [row["row"] for row in read_small(Parts(SCHEMA, parts.files[1:])).to_pylist()] == [5]
    Path(plain).unlink()
    with pytest.raises(FileNotFoundError):
        read_small(parts)
