"""A run answers single puzzles as in its evaluation, and tracing does not change the answers."""

from __future__ import annotations

import numpy as np
import pytest

import trm_eval
from tests.trm_eval.conftest import Evaluated
from trm_data.kinds.registry import load_kind
from trm_eval.errors import EvalError
from trm_eval.solver import Solver, row_of
from trm_eval.tables.query import query_results


@pytest.fixture(scope="module")
def solver(evaluated: Evaluated) -> Solver:
    return trm_eval.load("tiny", evaluated.layout)


def test_answers_are_those_of_the_evaluation(evaluated: Evaluated, solver: Solver) -> None:
    batch = evaluated.test.read(np.arange(12))
    solutions = solver.solve_all(list(batch["inputs"]))
    query = "SELECT prediction, q_halt_logit, halt_step, valid FROM predictions ORDER BY row"
    for solution, row in zip(solutions, query_results(evaluated.layout, query).rows, strict=True):
        tokens, logit, halt_step, valid = row
        assert solution.answer.tolist() == tokens
        assert solution.halt_logits[-1, -1] == pytest.approx(logit, abs=1e-4)
        assert solution.halt_step == halt_step
        assert solution.legal is valid
        assert solution.known.count == 1
        assert 0 < solution.halt_probability < 1
    for solution, label in zip(solutions, batch["labels"], strict=True):
        np.testing.assert_array_equal(solution.known.tokens, label)


def test_every_cycle_is_seen_and_the_last_of_a_step_is_the_step(evaluated: Evaluated, solver: Solver) -> None:
    model = evaluated.record.config.model
    inputs = evaluated.test.read(np.arange(3))["inputs"]
    solutions = solver.solve_all(list(inputs))
    shorter = trm_eval.load("tiny", evaluated.layout, supervision_steps=1).solve_all(list(inputs))
    for long, short in zip(solutions, shorter, strict=True):
        assert long.answers.shape == (model.halt_max_steps, 2, 36)  # of 2 cycles each
        np.testing.assert_array_equal(long.answers[0], short.answers[0])
        np.testing.assert_array_equal(short.answers[-1, -1], short.answer)


def test_text_and_tokens_are_the_same_puzzle(evaluated: Evaluated, solver: Solver) -> None:
    tokens, identifier = row_of(evaluated.layout, solver.dataset, "test", 5)
    spec = evaluated.test.manifest.spec
    text = load_kind("sudoku").draw(tokens, spec).text()
    assert "|" in text
    typed, given = solver.solve(text), solver.solve(tokens.astype(np.int64), identifier=identifier)
    np.testing.assert_array_equal(typed.answer, given.answer)
    assert typed.text() == given.text()
    assert solver.solve_all([]) == []


@pytest.mark.parametrize(
    ("puzzle", "message"),
    [
        ("7" + "." * 35, r"character '7' at position 1: expected 1 to 6"),
        (np.zeros(35, np.int64), r"expected 36 tokens, got int64 of shape \(35,\)"),
        (np.full(36, 8), "tokens from 0 to 7, got 8 to 8"),
    ],
)
def test_what_is_no_puzzle(solver: Solver, puzzle: object, message: str) -> None:
    with pytest.raises(EvalError, match=message):
        solver.solve(puzzle)  # type: ignore[arg-type]


def test_identifiers_that_are_not_there(solver: Solver) -> None:
    with pytest.raises(EvalError, match=r"identifiers: got \[3\]; expected one from 0 to 0"):
        solver.solve("." * 36, identifier=3)
    with pytest.raises(EvalError, match="expected one from 0"):
        solver.solve_all(["." * 36] * 2, identifiers=[0])


def test_typed_digits_from_zero_and_other_symbols_are_the_same_puzzle(
    evaluated: Evaluated, solver: Solver
) -> None:
    """A 6x6 grid without a 6 but with a 0, next to another blank symbol: 0 is a digit."""
    usual = "12345." + "." * 30
    expected = solver.parse(usual)
    assert solver.parse("01234." + "." * 30).tolist() == expected.tolist()
    named = trm_eval.load(evaluated.record.run, evaluated.layout, symbols="uvwxyz")
    assert named.parse("uvwxy." + "." * 30).tolist() == expected.tolist()
    with pytest.raises(EvalError, match="expected 6 different ones"):
        trm_eval.load(evaluated.record.run, evaluated.layout, symbols="uv").parse(usual)
