"""Intervals of shares, by hand and at their ends; and rows of runs on datasets of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import binomtest

from trm_data.storage.root import resolve_root
from trm_train.batch.flow import Job
from trm_train.batch.plan import plan_batch
from trm_train.batch.summary import read_summary, summary_row, wilson, write_summary
from trm_train.commands.batch import override
from trm_train.experiments.registry import select_experiments


@pytest.mark.parametrize(("right", "count"), [(0, 50), (1, 3), (820, 1000), (1000, 1000)])
def test_the_interval_is_that_of_wilson(right: int, count: int) -> None:
    wanted = binomtest(right, count).proportion_ci(0.95, method="wilson")
    assert wilson(right, count) == pytest.approx((wanted.low, wanted.high), abs=1e-6)


def test_a_batch_on_a_dataset_of_ones_own_is_planned_and_summed_up(tmp_path: Path) -> None:
    change = override(["--data.dataset", "my_puzzles"])
    (run,) = plan_batch(select_experiments(["exp04a_100"]), [0], resolve_root(tmp_path), change)
    write_summary([summary_row(Job(run))], tmp_path)
    (row,) = read_summary(tmp_path)
    assert (row["dataset"], row["varies"], row["state"]) == ("my_puzzles", "my_puzzles", "waiting")
