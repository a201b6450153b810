"""SQL over results: named queries, one statement, one evaluation, and reports of what is left out."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.trm_eval.conftest import Evaluated
from trm_data.storage.root import resolve_root
from trm_eval.evaluation import flow
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_eval.tables import query
from trm_eval.tables.index import results_index
from trm_eval.tables.named import load_query, named_queries, query_text
from trm_eval.tables.query import WHICH_EVALUATION, _tables_read, query_evaluation, query_results
from trm_train.runs.record import find_run


def test_every_named_query_says_what_it_answers() -> None:
    assert set(named_queries()) >= {"accuracy_by_rating", "evals", "training_curve", "wrong_cells", "halting"}
    for name, answers in named_queries().items():
        assert answers.endswith((".", "answers are.")) or ":" in answers, name
        assert load_query(name).rstrip().endswith(";")


OF_ANY_RUN = str.split(
    "accuracy_by_clues accuracy_by_rating datasets depth evals halting speed throughput"
    " time_to training_curve wrong_cells"
)
"""Queries that have rows for the run of these tests; test_queries.py has a run for all queries."""


@pytest.mark.parametrize("name", list(named_queries()))
def test_every_named_query_runs_on_results_and_on_an_empty_root(
    evaluated: Evaluated, name: str, tmp_path: object
) -> None:
    found = query_results(evaluated.layout, f"@{name}")
    assert found.rows or name not in OF_ANY_RUN, name
    assert {"evaluation", "dataset"} & set(found.columns) != {"evaluation"}, name  # which puzzles
    assert query_results(resolve_root(str(tmp_path)), f"@{name}").columns == found.columns


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT 1", set()),
        ("SELECT 'predictions' -- puzzles", set()),
        ("@time_to", {"train_metrics", "runs", "experiments"}),
        ("@accuracy_by_rating", {"predictions", "evals", "puzzles", "splits"}),
        (
            'SELECT (SELECT count(*) FROM "disagreements") WHERE false',
            {"predictions", "evals", "puzzles", "splits"},
        ),
        ("FROM pooled_votes(['a'])", {"votes", "evals"}),
        ("SUMMARIZE puzzle_tokens", {"puzzle_tokens"}),
    ],
)
def test_what_a_query_reads_follows_from_its_plan(evaluated: Evaluated, sql: str, tables: set[str]) -> None:
    assert _tables_read(results_index(evaluated.layout), query_text(sql), ()) == tables


def test_ratings_are_those_of_the_catalog_also_for_older_evaluations(
    evaluated: Evaluated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The predictions lack ratings; what they do contain remains when the dataset is gone."""
    root = tmp_path / "root"
    shutil.copytree(evaluated.layout.place, root)
    shutil.rmtree(root / "results")
    layout = resolve_root(root)
    run = find_run(layout, evaluated.record.run)
    evaluate_run(layout, run, EvalRequest())
    with monkeypatch.context() as older:
        row_of = flow.evals_row
        older.setattr(flow, "evals_row", lambda *given: {**row_of(*given), "rated_count": None})
        older.setattr(flow, "read_ratings", lambda *given: np.full(12, np.nan, np.float32))
        evaluate_run(layout, run, EvalRequest(weights="raw"))
    by_weights = "SELECT weights, row, rating FROM {} ORDER BY ALL"
    puzzles = query_results(
        layout, "SELECT group_index, rating FROM puzzles WHERE split = 'test' ORDER BY 1"
    ).rows
    assert all(rating is not None for _, rating in puzzles)
    both = [(weights, *puzzle) for weights in ("ema", "raw") for puzzle in puzzles]
    assert query_results(layout, by_weights.format("rated_predictions")).rows == both
    assert query_results(layout, by_weights.format("predicted_puzzles")).rows == both
    shutil.rmtree(layout.dataset("small").here)
    lasting = [(weights, row, rating if weights == "ema" else None) for weights, row, rating in both]
    assert query_results(layout, by_weights.format("rated_predictions")).rows == lasting


def test_a_query_that_means_no_dataset_does_not_wait_for_their_catalog(
    evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attach(*_: object) -> None:
        raise AssertionError("the catalog was opened")

    monkeypatch.setattr(query, "attach_catalog", attach)
    assert query_results(evaluated.layout, "SELECT count(*) FROM predictions").rows
    with pytest.raises(AssertionError, match="was opened"):
        query_results(evaluated.layout, "SELECT count(*) FROM puzzles")


def test_a_named_query_of_one_evaluation_says_nothing_of_which(evaluated: Evaluated) -> None:
    found = query_evaluation(evaluated.layout, "wrong_cells", evaluated.row["evaluation"])
    assert not set(found.columns) & set(WHICH_EVALUATION)
    assert query_evaluation(evaluated.layout, "wrong_cells", "another").rows == []


def test_a_query_of_known_evaluations_opens_no_other_files(evaluated: Evaluated) -> None:
    def count(evaluations: list[str] | None) -> int:
        return query_results(
            evaluated.layout, "SELECT count(*) FROM predictions", evaluations=evaluations
        ).rows[0][0]

    assert count([evaluated.row["evaluation"]]) == count(None) > 0
    assert count([]) == 0
