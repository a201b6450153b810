"""The commands build a dataset, train a network for 20 steps, evaluate it, and query the result in SQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import trm_eval
from tests.conftest import run_here
from trm_data.cli import main as trm_data
from trm_eval.cli import main as trm_eval_main
from trm_train.cli import main as trm_train

SMALL = (
    "--data.dataset mine --data.global-batch-size 8 --model.hidden-size 16 --model.num-heads 2 --model.num-layers 1 "
    "--total-steps 20 --optim.lr-warmup-steps 2 --execution.checkpoint-every 10 --execution.validate-every 10"
)


@pytest.mark.integration
def test_a_number_in_sql_comes_from_rows_that_were_built_trained_and_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRM_ROOT", str(tmp_path / "root"))

    def typed(main: Callable[[list[str]], None], line: str) -> str:
        done = run_here(main, *line.split())
        assert done.returncode == 0, done.stderr
        return done.stdout

    built = json.loads(
        typed(
            trm_data, "build sudoku --box 2x2 --size 20 --aug 3 --test-size 8 --val-size 8 --name mine --json"
        )
    )
    typed(trm_data, "verify mine")
    trained = json.loads(typed(trm_train, f"run quickstart {SMALL} --tracking none --json"))
    assert trained["step"] == 20
    row = json.loads(typed(trm_eval_main, "run quickstart --json"))
    assert row["count"] == 8
    assert trm_eval.sql("SELECT content_digest FROM runs", tmp_path / "root").rows() == [
        (built["content_digest"],)
    ]
    query = (
        "SELECT count(*) AS puzzles, count_if(exact) AS right FROM predictions JOIN evals USING (evaluation)"
    )
    assert trm_eval.sql(query, tmp_path / "root").rows() == [(8, row["exact_count"])]
    steps = run_here(trm_eval_main, "sql", "SELECT max(step) AS steps FROM train_metrics", "--json")
    assert json.loads(steps.stdout) == [{"steps": 20}]
