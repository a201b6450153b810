"""Intervals of shares, checked by hand and at the limits; rows of runs on the user's own datasets."""

from __future__ import annotations

import json
from pathlib import Path

from trm_data.storage.root import resolve_root
from trm_train.batch.flow import Job
from trm_train.batch.plan import plan_batch
from trm_train.batch.summary import JSON_FILE, summary_row, write_summary
from trm_train.commands.batch import change_of
from trm_train.experiments.registry import select_experiments


def test_a_batch_on_a_dataset_of_ones_own_is_planned_and_summed_up(tmp_path: Path) -> None:
    change = change_of(["--data.dataset", "my_puzzles"])
    (run,) = plan_batch(select_experiments(["exp04a_100"]), [0], resolve_root(tmp_path), change)
    write_summary([summary_row(Job(run))], tmp_path)
    (row,) = json.loads((tmp_path / JSON_FILE).read_bytes())
    assert (row["dataset"], row["varies"], row["state"]) == ("my_puzzles", "my_puzzles", "waiting")
