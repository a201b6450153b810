"""Validations of puzzles with several correct answers: the share of correct answers besides that of exact ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trm_data.building.flow import build_dataset
from trm_data.kinds.maze.options import MazeOptions
from trm_data.loader.dataset import open_dataset
from trm_data.sources.base import SourceRef
from trm_data.specs import BuildRequest
from trm_data.storage.root import Layout, resolve_root
from trm_train.commands.common import validation_of
from trm_train.training.observe import means
from trm_train.training.validate import optimal_counter


def test_other_shortest_paths_are_right_and_anything_else_is_not(tmp_path: Path) -> None:
    layout = resolve_root(tmp_path)
    options = MazeOptions(rows=6, columns=6, min_path=6)
    made = BuildRequest(
        kind="maze", source=SourceRef("generated"), size=1, val_size=20, name="mazes", options=options
    )
    build_dataset(made, layout)
    dataset = open_dataset("mazes", layout, "validation")
    count = optimal_counter(dataset)
    assert count is not None
    rows = np.arange(len(dataset))
    labels = dataset.read(rows)["labels"].astype(np.int32)
    padded = np.concatenate([labels, np.zeros_like(labels)])  # a batch with padding rows
    assert count(rows, padded) == 20
    turned = labels.reshape(-1, 6, 6).transpose(0, 2, 1).reshape(-1, 36)  # answers to other mazes
    assert count(rows, turned) < 20
    wrong = np.where(labels == 5, 2, labels)  # no path is marked
    assert count(rows, wrong) == 0


def test_puzzles_with_one_answer_count_none(small_layout: Layout) -> None:
    assert optimal_counter(open_dataset("small", small_layout, "train")) is None


def test_the_share_is_shown_where_it_is_known() -> None:
    sums = dict.fromkeys(("accuracy", "exact_accuracy", "q_halt_accuracy", "steps", "lm_loss"), 5.0)
    sums |= {"count": 10.0, "steps_squared": 5.0, "q_halt_loss": 1.0}
    assert "optimal_share" not in means(sums, 10)
    assert means({**sums, "optimal": 7.0}, 10)["optimal_share"] == 0.7
    assert validation_of(0.5, 0.7) == "50.0% (right 70.0%)"
    assert validation_of(0.5, None) == "50.0%"
