"""What the catalog says of its tables, and where `trm-eval sql` takes its query from."""

from __future__ import annotations

import io
import json
import sys

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


def test_a_query_comes_from_the_line_or_standard_input(
    small_layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in ([QUERY, "--json"], ["--format", "json"]):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"-- how many\n{QUERY}\n"))
        said = run_here(main, "sql", *words, "--root", small_layout.place)
        assert (said.returncode, said.stderr) == (0, "")
        assert json.loads(said.stdout) == ANSWER
