"""Every view has a description, and every column a unit; no root is needed."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from tests.conftest import run_here
from tests.trm_eval.conftest import Evaluated
from trm_data.catalog.schema import TABLES as CATALOG_TABLES
from trm_eval.cli import main
from trm_eval.tables.query import query_results
from trm_eval.tables.views import list_views


def test_every_view_and_column_says_what_it_is() -> None:
    text = files("catalogs").joinpath("results.sql").read_text("utf-8")
    views = list_views()
    assert set(views) == {*re.findall(r"^CREATE VIEW (\w+)", text, re.MULTILINE), *CATALOG_TABLES}
    for view in views.values():
        assert view.says.endswith((".", ")")), view.name
        assert not [column.name for column in view.columns if not column.comment], view.name


def test_a_view_takes_comments_over_from_what_it_reads() -> None:
    said = {
        (view.name, column.name): column.comment for view in list_views().values() for column in view.columns
    }
    assert said["predicted_cells", "split"] == "train, validation or test"
    assert said["predicted_cells", "step"] == said["evals", "step"] != said["train_metrics", "step"]
    assert said["compared_runs", "evaluation_b"] == said["evals", "evaluation"]
    assert said["named_runs", "global_batch_size"] == said["runs", "global_batch_size"]
    assert said["study", "total_steps"] == said["experiments", "total_steps"] != said["runs", "total_steps"]
    assert said["samples", "samples"] != said["evals", "samples"]


@pytest.mark.integration
def test_columns_are_those_that_a_query_gives(evaluated: Evaluated) -> None:
    for view in list_views().values():
        found = query_results(evaluated.layout, f"DESCRIBE {view.name}").rows
        assert [(name, kind) for name, kind, *_ in found] == [(c.name, c.type) for c in view.columns]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    listed = run_here(main, "tables")
    assert (listed.returncode, "predicted_puzzles" in listed.stdout) == (0, True)
    value = json.loads(run_here(main, "tables", "study", "--json").stdout)
    assert value["name"] == "study"
    assert {"name": "exact_low", "type": "DOUBLE"}.items() <= value["columns"][22].items()
    assert [view["name"] for view in json.loads(run_here(main, "tables", "--json").stdout)] == list(
        list_views()
    )
    wrong = run_here(main, "tables", "studies")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no table 'studies'; did you mean 'study'? (trm-eval tables)" in wrong.stderr
    assert not list(tmp_path.iterdir())
