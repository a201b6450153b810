"""Results as polars frames, and SQL over runs without evaluations."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from polars.testing import assert_frame_equal

import trm_data
import trm_eval
from tests.conftest import small_request
from tests.recorded import recorded_root
from tests.support.roots import root_with
from tests.trm_train.test_loop import run
from trm_data.building.flow import build_dataset
from trm_data.errors import LabError
from trm_data.storage.root import Layout, resolve_root
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_eval.tables.query import query_results
from trm_train.metrics import metrics_frame, read_metrics
from trm_train.runs.record import list_runs, read_record


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A root with a trained run and no results."""
    layout = recorded_root(tmp_path_factory.mktemp("frames"), "evaluated")
    shutil.rmtree(layout.results.uri())
    return layout


@pytest.fixture(scope="module")
def trained(layout: Layout) -> SimpleNamespace:
    (folder,) = list_runs(layout)
    return SimpleNamespace(folder=folder, record=read_record(folder))


def test_a_run_is_in_the_tables_before_any_evaluation(layout: Layout, trained: SimpleNamespace) -> None:
    name = trained.record.run
    frame = trm_eval.sql("SELECT run, state, step, total_steps, dataset FROM runs", layout)
    assert frame.rows() == [(name, "finished", 12, 12, "small")]
    steps = trm_eval.sql("SELECT step FROM train_metrics WHERE split = 'train' ORDER BY step", layout)
    assert steps["step"].to_list() == list(range(1, 13))


@pytest.mark.integration
def test_a_run_whose_record_is_damaged_is_named(
    layout: Layout, trained: SimpleNamespace, tmp_path: Path
) -> None:
    other = resolve_root(tmp_path)
    folder = other.runs.within("testing/tiny/tiny-00000000-s0")
    folder.write("config.json", b"{")
    found = query_results(other, "SELECT count(*) FROM runs")
    assert found.rows == [(0,)]
    assert "tiny-00000000-s0/config.json: is not a record of a run" in found.problems[0]
    command = [Path(sys.executable).parent / "trm-eval", "sql", "SELECT 1", "--root", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert "left out: " in done.stderr


def test_names_are_found_and_completed() -> None:
    assert {"sql", "evaluate", "plot"} <= set(dir(trm_eval))
    assert {"sql", "open_dataset", "make_loader"} <= set(dir(trm_data))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        trm_eval.nothing  # noqa: B018


def test_a_frame_of_metrics_has_the_columns_and_values_of_the_sql_table(
    layout: Layout, trained: SimpleNamespace
) -> None:
    """The sums are kept, and the rates are added."""
    metrics = read_metrics(trained.folder)
    frame = metrics_frame(metrics, experiment="tiny", run=trained.record.run).sort("step", "split")
    table = trm_eval.sql("SELECT * FROM train_metrics ORDER BY step, split", layout)
    assert set(frame.columns) == set(table.columns)
    assert {"experiment", "run", "exact_count", "exact_accuracy", "lm_loss", "mfu"} <= set(frame.columns)
    assert set(frame["run"]) == {trained.record.run}
    assert_frame_equal(
        frame, table, check_column_order=False, check_dtypes=False, rel_tol=1e-12, check_row_order=True
    )


@pytest.mark.integration
def test_answers_of_several_datasets_can_be_told_apart(small_layout: Layout, tmp_path: Path) -> None:
    """Two datasets with the same puzzle numbers: a join by dataset, split and number gives each answer once."""
    layout = root_with("small", tmp_path, small_layout)
    build_dataset(small_request(name="other", seed=4), layout)
    trained = run(layout)
    evaluate_run(layout, trained.folder, EvalRequest(traces=2))
    evaluate_run(layout, trained.folder, EvalRequest(dataset="other"))
    frame = trm_eval.sql("FROM predictions", layout)
    assert frame.group_by("run", "dataset", "split").len().sort("dataset").rows() == [
        (trained.record.run, "other", "test", 12),
        (trained.record.run, "small", "test", 12),
    ]
    assert set(trm_eval.sql("FROM traces", layout)["dataset"]) == {"small"}
    joined = "SELECT count(*) FROM predictions JOIN puzzles USING (dataset, split, group_index)"
    assert query_results(layout, joined).rows == [(24,)]


@pytest.mark.parametrize("ask", [trm_eval.sql, trm_data.sql])
def test_a_root_that_is_not_there_is_named(tmp_path: Path, ask) -> None:
    with pytest.raises(LabError, match=f"{tmp_path}/nothing"):
        ask("SELECT 1 AS one", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
