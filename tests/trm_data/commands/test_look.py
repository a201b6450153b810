"""`trm-data tables`, and where `sql` takes its query from."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

import trm_eval.cli
from tests.conftest import run_here
from trm_data.catalog.schema import TABLES, list_tables
from trm_data.cli import main
from trm_data.storage.root import Layout

QUERY = "SELECT split, num_examples FROM splits ORDER BY 1"
ANSWER = [
    {"split": "test", "num_examples": 12},
    {"split": "train", "num_examples": 240},
    {"split": "validation", "num_examples": 8},
]


def test_every_table_and_column_says_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tables = list_tables()
    assert tuple(tables) == TABLES
    for table in tables.values():
        assert table.says.endswith((".", ")")), table.name
        assert table.columns
    listed = run_here(main, "tables")
    assert (listed.returncode, "One row per base puzzle." in listed.stdout) == (0, True)
    assert "given cells (cells)" in run_here(main, "tables", "puzzles").stdout
    value = json.loads(run_here(main, "tables", "splits", "--json").stdout)
    assert value["columns"][0] == {"name": "dataset", "type": "VARCHAR", "comment": "Dataset name."}
    wrong = run_here(main, "tables", "puzzle")
    assert wrong.returncode == 2
    assert "no table 'puzzle'; did you mean 'puzzles'? (trm-data tables)" in wrong.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("program", [main, trm_eval.cli.main], ids=["trm-data", "trm-eval"])
def test_a_query_comes_from_the_line_a_file_or_standard_input(
    program: object, small_layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        said = run_here(program, "sql", query, *options.split(), "--root", small_layout.place)
        assert (said.returncode, said.stderr) == (0, "")
        assert json.loads(said.stdout) == ANSWER


@pytest.mark.parametrize("program", [main, trm_eval.cli.main], ids=["trm-data", "trm-eval"])
def test_a_file_that_is_not_there_and_nothing_to_read_are_named(
    program: object, small_layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ["--root", small_layout.place]
    gone = run_here(program, "sql", str(tmp_path / "gone.sql"), *place)
    assert gone.returncode == 2
    assert "gone.sql: a file with a query cannot be read" in gone.stderr
    monkeypatch.setattr(sys, "stdin", io.StringIO(" \n"))
    empty = run_here(program, "sql", "-", *place)
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "no query in standard input" in empty.stderr
