"""The catalog: its content, its rebuild, and that user SQL can only read."""

from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pytest

from trm_data.building.flow import build_dataset
from trm_data.catalog.query import query_catalog
from trm_data.catalog.schema import TABLES, quote_identifier, quote_literal, schema_sql
from trm_data.errors import QueryError
from trm_data.kinds.sudoku.symmetry import SudokuSymmetry
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout, resolve_root


def test_counts_are_those_of_the_manifest(small_layout: Layout) -> None:
    manifest = read_manifest(small_layout, "small")
    rows = query_catalog(small_layout, "SELECT split, num_groups, num_examples, digest FROM splits").rows
    assert rows == [(s, e.num_groups, e.num_examples, e.digest) for s, e in manifest.splits.items()]
    assert query_catalog(small_layout, "SELECT digest FROM datasets").rows == [(manifest.content_digest,)]
    shards = query_catalog(small_layout, "SELECT sum(num_examples), sum(size_bytes) FROM shards").rows[0]
    assert shards[0] == manifest.num_examples


def test_the_catalog_gives_the_symmetry_of_every_row(small_layout: Layout) -> None:
    """So an evaluation can undo an augmentation by its catalog row."""
    dataset = open_dataset("small", small_layout.machine)
    found = query_catalog(
        small_layout,
        "SELECT element FROM augmentations WHERE split = 'train' ORDER BY group_index, augmentation",
    ).rows
    assert len(found) == len(dataset)
    rows = np.arange(len(dataset))
    inputs, groups = dataset.read(rows)["inputs"], dataset.groups.picks(rows).groups
    for row in range(0, len(dataset), 7):
        symmetry = SudokuSymmetry.from_index(found[row][0], 2, 3)
        original = inputs[dataset.groups.first_rows[groups[row]]]
        assert (symmetry.inverse().apply(inputs[row] - 1) + 1 == original).all()


def test_every_table_and_column_says_what_it_is() -> None:
    with closing(duckdb.connect()) as connection:
        connection.execute(schema_sql())
        tables = dict(connection.execute("SELECT table_name, comment FROM duckdb_tables()").fetchall())
        columns = connection.execute(
            "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"
        ).fetchall()
    assert set(tables) == set(TABLES)
    assert all(tables.values())
    assert [c for c in columns if not c[2]] == []


def test_the_index_is_rebuilt_when_it_is_missing_broken_or_behind(tmp_path: Path, request_small) -> None:
    layout = resolve_root(tmp_path)
    build_dataset(request_small(), layout)
    count = "SELECT count(*) FROM datasets"
    assert query_catalog(layout, count).rows == [(1,)]
    layout.catalog.write_bytes(b"not a database")
    build_dataset(request_small(name="second"), layout)
    assert query_catalog(layout, count).rows == [(2,)]
    import shutil

    shutil.rmtree(layout.dataset("second").here)
    assert query_catalog(layout, count).rows == [(1,)]


def test_an_error_shows_the_query_as_typed(small_layout: Layout) -> None:
    with pytest.raises(QueryError) as caught:
        query_catalog(small_layout, "SELECT difficulty FROM puzzles")
    *_, line, caret = str(caught.value).splitlines()
    assert line == "LINE 1: SELECT difficulty FROM puzzles"
    assert caret.index("^") == line.index("difficulty")


def test_no_datasets_is_said_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="trm-data build"):
        query_catalog(resolve_root(tmp_path), "SELECT 1")


@pytest.mark.parametrize(
    "text", ["plain", "it's", 'double"quote', "back\\slash", "'; DROP TABLE x; --", "ünï", ""]
)
def test_quoting_gives_the_text_back(text: str) -> None:
    with closing(duckdb.connect()) as connection:
        assert connection.execute(f"SELECT {quote_literal(text)}").fetchone() == (text,)
        if text:
            described = connection.execute(f"SELECT 1 AS {quote_identifier(text)}").description
            assert described[0][0] == text
