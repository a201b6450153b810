"""What the catalog says of its tables, and where `trm-eval sql` takes its query from."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.conftest import run_here
from trm_data.catalog.schema import TABLES, list_tables
from trm_data.storage.root import Layout
from trm_eval.cli import main

QUERY = "SELECT split, num_examples FROM splits ORDER BY 1"
ANSWER = [
    {"split": "test", "num_examples": 12},
    {"split": "train", "num_examples": 240},
    {"split": "validation", "num_examples": 8},
]


def test_every_table_and_column_says_what_it_is() -> None:
    tables = list_tables()
    assert tuple(tables) == TABLES
    for table in tables.values():
        assert table.says.endswith((".", ")")), table.name
        assert table.columns


def test_a_query_comes_from_the_line_a_file_or_standard_input(
    small_layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, spaced = tmp_path / "question.sql", tmp_path / "my own" / "question.sql"
    spaced.parent.mkdir()
    for path in (file, spaced):
        path.write_text(f"-- how many\n{QUERY}\n")
    for query, options in (
        (QUERY, "--json"),
        (str(file), "--json"),
        (str(spaced), "--json"),
        ("-", "--format json"),
    ):
        monkeypatch.setattr(sys, "stdin", io.StringIO(QUERY))
        said = run_here(main, "sql", query, *options.split(), "--root", small_layout.place)
        assert (said.returncode, said.stderr) == (0, "")
        assert json.loads(said.stdout) == ANSWER


def test_a_file_that_is_not_there_and_nothing_to_read_are_named(
    small_layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ["--root", small_layout.place]
    gone = run_here(main, "sql", str(tmp_path / "gone.sql"), *place)
    assert gone.returncode == 2
    assert "gone.sql: a file with a query cannot be read" in gone.stderr
    monkeypatch.setattr(sys, "stdin", io.StringIO(" \n"))
    empty = run_here(main, "sql", "-", *place)
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "no query in standard input" in empty.stderr
