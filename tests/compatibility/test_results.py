"""Results that earlier versions wrote are read and queried: the recorded folders of `record.py`, by what
came with them, oldest first:

    results_digests   files carry digests (after format 1, which `test_format_1.py` has)
    results_depth     evaluations say what is right after every supervision step
    results_votes     votes, scores, modes and samples
    results_traces    traces, learning before answering
    results_compacted the same, whose files `trm-eval compact` of version 0.1 has merged
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

import trm_eval
from trm_data.storage.root import Layout, resolve_root
from trm_eval.tables.named import load_query, named_queries
from trm_eval.tables.query import open_results, query_results
from trm_eval.tables.views import list_views
from trm_train.runs.record import list_runs

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDED = ("results_digests", "results_depth", "results_votes", "results_traces", "results_compacted")
VIEW_OF = {"evals": "all_evals", "predictions": "all_predictions", "votes": "all_votes", "runs": "runs"}
VIEW_OF["traces"] = "all_traces"


@pytest.fixture(params=RECORDED)
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> Layout:
    with tarfile.open(FIXTURES / f"{request.param}.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        archive.extractall(tmp_path)
    return resolve_root(tmp_path)


def expected(layout: Layout) -> dict[str, int]:
    return json.loads((Path(layout.place) / "expected.json").read_text())


def test_every_row_is_there(layout: Layout) -> None:
    for table, count in expected(layout).items():
        found = query_results(layout, f"SELECT count(*) FROM {VIEW_OF.get(table, table)}", verify=True)
        assert (found.rows, found.problems) == ([(count,)], ()), table
    (right,) = query_results(
        layout, "SELECT sum(exact_count), sum(wrong_cells), sum(cells) FROM all_evals"
    ).rows
    assert (
        right
        == query_results(
            layout, "SELECT count_if(exact), sum(wrong_cells), sum(cells) FROM all_predictions"
        ).rows[0]
    )
    evaluated = {run for (run,) in query_results(layout, "SELECT run FROM all_evals").rows}
    assert evaluated
    for folder in list_runs(layout):
        if folder.name in evaluated:  # votes came when tasks without solutions could be evaluated
            assert len(trm_eval.sql(f"FROM predictions WHERE run = '{folder.name}'", layout)) > 0
        assert len(trm_eval.sql(f"FROM train_metrics WHERE run = '{folder.name}'", layout)) == 8


def test_every_view_and_named_query_answers(layout: Layout) -> None:
    with open_results(layout) as (connection, problems):
        assert problems == []
        for view in list_views():
            assert connection.execute(f"SELECT * FROM {view}").fetchall() is not None, view
        for name in named_queries():
            assert connection.execute(load_query(name)).fetchall() is not None, name
