"""Golden predictions of a fixed checkpoint for fixed rows. If they change, EVALUATION_VERSION must change too.

The checkpoint is in the fixture of the first format; its dataset is built here.
"""

import hashlib
import tarfile
from pathlib import Path

import numpy as np
import pytest

import trm_eval
from trm_data.building.flow import build_dataset
from trm_data.kinds.registry import make_fields
from trm_data.storage.root import Layout, resolve_root
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EVALUATION_VERSION, EvalRequest
from trm_eval.tables.query import query_results
from trm_train.runs.record import find_run

FIXTURE = Path(__file__).parents[1] / "fixtures" / "format_1_root.tar.xz"
GOLDEN = {1: ("0932676916ac2553", [11, 8, 14, 8, 12, 14])}
"""By evaluation version: digest of the predicted tokens, and number of wrong cells in each of the six test puzzles."""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    with tarfile.open(FIXTURE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        archive.extractall(tmp_path)
    layout = resolve_root(tmp_path)
    options = {"box": "2x2", "size": 12, "aug": 7, "val_size": 4, "test_size": 6, "name": "format-1"}
    build_dataset(make_fields("sudoku", options).request(), layout)
    return layout


def test_predictions_are_golden_under_this_version(layout: Layout) -> None:
    """If this fails because predictions changed on purpose, raise EVALUATION_VERSION and add the new values."""
    run = find_run(layout, "quickstart")
    row = evaluate_run(layout, run, EvalRequest(checkpoint="12")).row
    query = "SELECT wrong_cells, prediction FROM predictions WHERE evaluation = ? ORDER BY row"
    found = query_results(layout, query, [row["evaluation"]]).rows
    tokens = np.array([prediction for _, prediction in found], np.uint8)
    digest = hashlib.sha256(tokens.tobytes()).hexdigest()[:16]
    assert (digest, [wrong for wrong, _ in found]) == GOLDEN[EVALUATION_VERSION]


def test_the_newest_evaluation_of_a_request_shows_and_older_ones_stay_addressable(layout: Layout) -> None:
    """The fixture has evaluations of the first version, whose ids hashed every source file."""
    run = find_run(layout, "quickstart")
    count = "SELECT count(*) FROM {} WHERE step = 12"
    assert query_results(layout, count.format("evals")).rows == [(1,)]
    row = evaluate_run(layout, run, EvalRequest(checkpoint="12")).row
    assert query_results(layout, count.format("all_evals")).rows == [(2,)]
    newest = query_results(layout, "SELECT evaluation, exact_accuracy FROM evals WHERE step = 12").rows
    assert newest == [(row["evaluation"], row["exact_count"] / 6)]
    both = (
        "SELECT count(*), count(DISTINCT evaluation) FROM all_predictions "
        "WHERE evaluation IN (SELECT evaluation FROM all_evals WHERE step = 12)"
    )
    assert query_results(layout, both).rows == [(12, 2)]
    assert query_results(layout, "SELECT count(*) FROM predictions").rows == [(11,)]
    legal = (
        "SELECT step, given_kept_count IS NULL, valid_share IS NULL, optimal_count FROM evals ORDER BY step"
    )
    assert query_results(layout, legal).rows == [(6, True, True, None), (12, False, False, None)]
    frame = trm_eval.sql("FROM predictions", layout)
    assert frame["valid"].is_null().sum() == 5  # written before the column existed
    assert frame["valid"].sum() == row["valid_count"]


def test_rates_are_those_of_the_sums_in_both_formats(layout: Layout) -> None:
    """Metrics files of the first format name sums after their rates; the views do not."""
    query = "SELECT lm_loss, lm_loss_sum, global_batch_size, exact_accuracy, count FROM train_metrics"
    rows = query_results(layout, query).rows
    assert len(rows) == 14
    for loss, total, slots, exact, count in rows:
        assert loss == pytest.approx(total / slots)
        assert exact is None if count == 0 else 0 <= exact <= 1
    curve = query_results(layout, "@training_curve").rows
    assert len(curve) == 3
