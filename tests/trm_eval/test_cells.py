"""Counts of wrong and of labelled cells."""

from __future__ import annotations

import numpy as np

from trm_eval.predictions import labelled_cells, wrong_cells


def test_padding_is_no_cell() -> None:
    labels = np.array([[0, 2, 3], [2, 2, 2]], np.uint8)
    predictions = np.array([[9, 2, 4], [2, 2, 2]], np.uint8)
    np.testing.assert_array_equal(wrong_cells(predictions, labels), [1, 0])
    np.testing.assert_array_equal(labelled_cells(labels), [2, 3])
