"""One file of a table: complete, with its schema, replacing the previous one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trm_data.storage.atomic import file_sha256
from trm_data.storage.root import resolve_root
from trm_eval.errors import ResultError
from trm_eval.tables.schema import TABLES
from trm_eval.tables.writer import replace_table, table_folder, write_table


def test_rows_that_do_not_fit_the_schema_are_refused(tmp_path: Path) -> None:
    layout = resolve_root(tmp_path)
    with pytest.raises(ResultError, match="could not be written"):
        write_table(layout, "runs", "e", "r", "run", [{"seed": "not a number"}])
    with pytest.raises(ResultError):
        write_table(layout, "runs", "e", "r", "run", pa.table({"seed": [1]}))
    assert not list(tmp_path.rglob("*.parquet"))


def test_writing_again_replaces(tmp_path: Path) -> None:
    layout = resolve_root(tmp_path)
    for seed in (1, 2):
        replace_table(layout, "runs", "e", "r", "run", [{"seed": seed}])
    (path,) = tmp_path.rglob("*.parquet")
    assert pq.read_table(path, partitioning=None)["seed"].to_pylist() == [2]
    assert path.name == f"run.{file_sha256(path)[:16]}.parquet"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("in the way")
    with pytest.raises(
        ResultError, match=r"results/runs/experiment=e/run=r/run\.parquet: could not be written"
    ):
        write_table(resolve_root(tmp_path), "runs", "e", "r", "run", [{"seed": 1}])


@pytest.mark.parametrize("table", list(TABLES))
def test_a_file_has_the_columns_and_comments_of_its_schema(tmp_path: Path, table: str) -> None:
    layout = resolve_root(tmp_path)
    path = table_folder(layout, table, "e", "r").uri(write_table(layout, table, "e", "r", "file", []))
    found = pq.read_schema(path)
    assert found.names == TABLES[table].names
    for stored, wanted in zip(found, TABLES[table], strict=True):
        assert stored.type.equals(wanted.type)
        assert stored.metadata == wanted.metadata
