"""How a network comes to an answer: traces that were written say what answering again says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.trm_eval.conftest import Evaluated
from tests.trm_eval.serve.conftest import TRACED
from trm_data.storage.root import Layout
from trm_eval.serve.recursion import answer_again, draw_course, solver_of, traced
from trm_eval.show import answered_row
from trm_train.errors import ConfigError


def test_answering_again_gives_what_the_traces_and_the_prediction_say(
    root: Layout, evaluated: Evaluated
) -> None:
    evaluation = evaluated.row["evaluation"]
    solver = solver_of(root, evaluation, [])
    for row in range(TRACED):
        asked, written = traced(root, evaluation, row, [])
        assert f"row = {row}" in asked.query.sql
        puzzle = answered_row(root, evaluation, row)
        again = answer_again(solver, puzzle)
        assert [(m.step, m.cycle) for m in written] == [(s, c) for s in (1, 2, 3) for c in (1, 2)]
        assert [(m.step, m.cycle, m.wrong_cells) for m in again] == [
            (m.step, m.cycle, m.wrong_cells) for m in written
        ]
        for one, other in zip(again, written, strict=True):
            assert np.array_equal(one.answer, other.answer)
            assert one.halt_probability == pytest.approx(other.halt_probability, abs=1e-5)
        assert written[-1].wrong_cells == puzzle.wrong_cells
        assert draw_course(written, written[-1]).startswith(b"<?xml")


def test_a_row_without_traces_has_none(root: Layout, evaluated: Evaluated) -> None:
    assert traced(root, evaluated.row["evaluation"], TRACED, [])[1] == []


def test_results_without_their_run_cannot_be_answered_again(hostile: Layout, evaluated: Evaluated) -> None:
    with pytest.raises(ConfigError):
        solver_of(hostile, evaluated.row["evaluation"], [])
