"""Results as polars frames, and SQL over runs without evaluations."""

import shutil
from types import SimpleNamespace

import pytest
from polars.testing import assert_frame_equal

import trm_eval
from tests.recorded import recorded_root
from trm_data.storage.root import Layout
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
