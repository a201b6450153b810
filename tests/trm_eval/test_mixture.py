"""A run on a mixture is tested on each dataset in its own tokens, although the network knows those of all."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import trm_eval
from tests.conftest import error_of, run_here
from tests.harness.mixtures import MIXED, build_both, run
from trm_data.loader.dataset import open_dataset
from trm_data.storage.root import resolve_root
from trm_eval.cli import main
from trm_eval.errors import EvalError
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest, Sampling
from trm_eval.infer import LoadedNetwork, restore
from trm_eval.tables.query import query_results
from trm_train.step.evaluate import make_eval_step

DATASETS = ("small", "mazes")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    layout = resolve_root(tmp_path_factory.mktemp("mixed"))
    build_both(layout)
    result = run(layout)
    done = run_here(main, "run", result.record.run, "--json", "--traces", "2", "--root", layout.place)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(
        layout=layout, folder=result.folder, run=result.record.run, rows=json.loads(done.stdout)
    )


def network(mixed: SimpleNamespace) -> LoadedNetwork:
    return restore(mixed.folder, run_record(mixed), step=12, weights="ema")


def run_record(mixed: SimpleNamespace):
    from trm_train.runs.record import read_record

    return read_record(mixed.folder)


def by_hand(mixed: SimpleNamespace, dataset: str) -> np.ndarray:
    """Compute the answers to the test split of a dataset, with its offsets applied and removed by hand."""
    restored, own = network(mixed), open_dataset(dataset, mixed.layout, "test")[:]
    offset, identifier, cells = {"small": (0, 0, 36), "mazes": (7, 1, 25)}[dataset]
    count = len(own["inputs"])
    rows = np.zeros((count, 36), np.int32)
    rows[:, :cells] = own["inputs"].astype(np.int32) + offset
    labels = np.zeros((count, 36), np.int32)
    labels[:, :cells] = own["labels"].astype(np.int32) + offset
    batch = {
        "inputs": rows,
        "labels": labels,
        "puzzle_identifiers": np.full(count, identifier, np.int32),
        "weight": np.ones(count, bool),
    }
    step = make_eval_step(MIXED, restored.record.input_spec, restored.model)
    tokens = np.asarray(jax.jit(step)(restored.weights, batch).predictions)[:, :cells].astype(int)
    last = {"small": 7, "mazes": 5}[dataset]
    return np.where((tokens > offset) & (tokens <= offset + last), tokens - offset, 0)


def written(mixed: SimpleNamespace, evaluation: str) -> np.ndarray:
    sql = "SELECT prediction FROM predictions WHERE evaluation = ? ORDER BY row"
    return np.array([row[0] for row in query_results(mixed.layout, sql, [evaluation]).rows])


def test_every_dataset_is_tested_and_has_a_row(mixed: SimpleNamespace) -> None:
    assert [(row["dataset"], row["split"], row["count"]) for row in mixed.rows] == [
        ("small", "test", 12),
        ("mazes", "test", 4),
    ]
    assert mixed.rows[0]["evaluation"] != mixed.rows[1]["evaluation"]
    assert [row["cells"] for row in mixed.rows] == [12 * 36, 4 * 25]


@pytest.mark.parametrize("position", [0, 1])
def test_answers_are_those_of_the_network_with_offsets_made_by_hand(
    mixed: SimpleNamespace, position: int
) -> None:
    row = mixed.rows[position]
    expected = by_hand(mixed, row["dataset"])
    found = written(mixed, row["evaluation"])
    np.testing.assert_array_equal(found, expected)
    labels = open_dataset(row["dataset"], mixed.layout, "test")[:]["labels"]
    assert row["wrong_cells"] == int((found != labels).sum())
    assert row["exact_count"] == int((found == labels).all(axis=1).sum())
    traced = "SELECT answer FROM traces WHERE evaluation = ? ORDER BY row, supervision_step, cycle"
    traces = np.array([each[0] for each in query_results(mixed.layout, traced, [row["evaluation"]]).rows])
    np.testing.assert_array_equal(traces[2::3], expected[:2])


@pytest.mark.parametrize(
    "request_",
    [
        EvalRequest(dataset="mazes", mode="halting"),
        EvalRequest(dataset="mazes", sampling=Sampling(samples=2, noise=1e-6, selection="mode")),
        EvalRequest(dataset="mazes", identifiers="blank"),
    ],
)
def test_other_ways_to_answer_are_in_the_datasets_own_tokens(
    mixed: SimpleNamespace, request_: EvalRequest
) -> None:
    row = evaluate_run(mixed.layout, mixed.folder, request_).row
    found = written(mixed, row["evaluation"])
    assert found.shape == (4, 25)
    if request_.mode == "max_steps":  # mazes only have the blank identifier
        np.testing.assert_array_equal(found, by_hand(mixed, "mazes"))


def test_the_solver_and_predict_answer_like_the_test(mixed: SimpleNamespace) -> None:
    expected = by_hand(mixed, "mazes")
    solver = trm_eval.load(mixed.run, mixed.layout, dataset="mazes")
    own = open_dataset("mazes", mixed.layout, "test")[:]
    answers = [solution.answer for solution in solver.solve_all(list(own["inputs"]))]
    np.testing.assert_array_equal(np.array(answers), expected)
    arguments = ("--dataset", "mazes", "--row", "1", "--json", "--root", mixed.layout.place)
    done = run_here(main, "predict", mixed.run, *arguments)
    (said,) = json.loads(done.stdout)
    assert said["answer"] == expected[1].tolist()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ("predict", "RUN", "--row", "0"),
            "learns a mixture (small, mazes). Name one of its datasets: --dataset",
        ),
        (("show", "RUN"), "learns a mixture (small, mazes). Name one of its datasets: --dataset NAME"),
        (
            ("run", "RUN", "--dataset", "other"),
            "--dataset other: not a dataset of the mixture",
        ),
    ],
)
def test_what_has_to_be_named(mixed: SimpleNamespace, command: tuple[str, ...], message: str) -> None:
    words = [mixed.run if word == "RUN" else word for word in command]
    code, said = error_of(main, *words, "--root", mixed.layout.place)
    assert code != 0
    assert message in said


def test_a_dataset_of_other_rows_is_not_tested(mixed: SimpleNamespace, monkeypatch) -> None:
    record = run_record(mixed)
    other = dataclasses.replace(record.mixture[1], content_digest="0" * 64)
    changed = dataclasses.replace(record, mixture=(record.mixture[0], other))
    monkeypatch.setattr("trm_eval.evaluation.prepare.read_record", lambda _: changed)
    with pytest.raises(EvalError, match="dataset mazes has digest"):
        evaluate_run(mixed.layout, mixed.folder, EvalRequest(dataset="mazes"))


def test_sql_has_rates_by_dataset_beside_the_total(mixed: SimpleNamespace) -> None:
    sql = """
        SELECT dataset, count(*), sum(global_batch_size), avg(lm_loss)
        FROM train_metrics WHERE split = 'train' GROUP BY dataset ORDER BY dataset NULLS FIRST"""
    rows = query_results(mixed.layout, sql).rows
    assert [row[:3] for row in rows] == [
        (None, 12, 96),
        ("mazes", 12, rows[1][2]),
        ("small", 12, 96 - rows[1][2]),
    ]
    assert len(trm_eval.sql("FROM train_metrics WHERE dataset IS NULL", mixed.layout)) == 14
    assert len(trm_eval.sql("FROM train_metrics", mixed.layout)) == 42
