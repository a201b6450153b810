"""Counts after every supervision step match the rows."""

from __future__ import annotations

import numpy as np

from trm_eval.evaluation.row import depth_counts


def test_counts_by_hand() -> None:
    wrong = np.array([[3, 0, 2], [0, 0, 1], [0, 1, 0]], np.int32)
    counts = depth_counts(wrong, np.array([2, 3, 0], np.int32), np.ones(3, np.bool_))
    assert {name: found.tolist() for name, found in counts.items()} == {
        "exact_by_depth": [1, 2, 2],
        "ever_by_depth": [1, 2, 3],
        "lost_by_depth": [0, 0, 1],
        "wrong_cells_by_depth": [5, 1, 1],
        "halting_by_depth": [0, 1, 1],
        "halting_exact_by_depth": [0, 1, 0],
    }


def test_rows_without_labels_count_nowhere() -> None:
    wrong = np.array([[0, 1], [0, 0]], np.int32)
    counts = depth_counts(wrong, np.array([1, 2], np.int32), np.array([False, True]))
    assert {name: found.tolist() for name, found in counts.items()} == {
        "exact_by_depth": [0, 1],
        "ever_by_depth": [0, 1],
        "lost_by_depth": [0, 0],
        "wrong_cells_by_depth": [1, 0],
        "halting_by_depth": [0, 1],
        "halting_exact_by_depth": [0, 1],
    }
