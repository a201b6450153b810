"""The steps to an answer: stored traces equal a new computation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.trm_eval.conftest import Evaluated
from tests.trm_eval.serve.conftest import TRACED
from trm_data.storage.root import Layout
from trm_eval.serve.evaluations import evaluations_of
from trm_eval.serve.recursion import (
    answer_again,
    draw_course,
    solver_of,
    traced,
    way_to_traces,
    why_not_again,
)
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


def test_the_command_for_traces_is_for_this_evaluation_or_there_is_none(
    root: Layout, evaluated: Evaluated
) -> None:
    (row, *_) = evaluations_of(root, [evaluated.record.run], []).rows
    begins = (
        f"trm-eval run {evaluated.record.run} --checkpoint 12 --weights ema --split test --steps 3 --traces"
    )
    assert way_to_traces(row, 5) == f"{begins} 100"
    assert way_to_traces(row, 500) == f"{begins} 501"
    assert way_to_traces(row, 1000) is None
    assert way_to_traces(row | {"as_published": False}, 5) is None
    other = row | {"of_own_dataset": False, "dataset": "others"}
    assert way_to_traces(other, 5) == f"{begins} 100 --dataset others"


def test_what_cannot_be_answered_again_says_why(root: Layout, evaluated: Evaluated) -> None:
    (row, *_) = evaluations_of(root, [evaluated.record.run], []).rows
    puzzle = answered_row(root, evaluated.row["evaluation"], 0)
    assert why_not_again(row, puzzle) is None
    assert "learned before it answered" in str(why_not_again(row | {"adapted": True}, puzzle))
    elsewhere, own = row | {"of_own_dataset": False}, dataclasses.replace(puzzle, identifier=7)
    assert why_not_again(elsewhere, puzzle) is None
    assert why_not_again(row, own) is None
    assert "of another dataset" in str(why_not_again(elsewhere, own))


def test_results_without_their_run_cannot_be_answered_again(hostile: Layout, evaluated: Evaluated) -> None:
    with pytest.raises(ConfigError):
        solver_of(hostile, evaluated.row["evaluation"], [])
