"""What a person reads after an evaluation is what its tables say."""

from __future__ import annotations

import re

import pytest

from tests.trm_eval.conftest import Evaluated
from trm_eval.report.evaluation import SECTIONS, print_predicted, print_report
from trm_eval.show import Predicted
from trm_eval.tables.named import named_queries


def test_the_headline_is_the_row_in_evals(evaluated: Evaluated, capsys: pytest.CaptureFixture[str]) -> None:
    print_report(evaluated.layout, evaluated.result)
    shown, row = capsys.readouterr().out, evaluated.row
    assert f"{evaluated.record.run} at step 12, ema weights, test split of small\n" in shown
    cells = 100 * (1 - row["wrong_cells"] / row["cells"])
    assert (
        f"exact accuracy 0.00% (0 of 12), cells {cells:.2f}%, {row['supervision_steps']} supervision" in shown
    )
    for query, title in SECTIONS:
        assert f"{title}: trm-eval sql @{query}\n" in shown
        assert query in named_queries()
    assert sum(int(count) for count in re.findall(r"^ *(?:\d+|NULL|0 to 1) +(\d+) ", shown, re.M)) >= 12


PUZZLE = Predicted(
    row=7,
    split="test",
    rating=1.5,
    exact=False,
    wrong_cells=2,
    halt_step=3,
    puzzle="1 .\n. 1",
    prediction="1 2\n2 2",
    solution="1 2\n2 1",
)


def test_a_wrong_answer_stands_beside_the_solution(capsys: pytest.CaptureFixture[str]) -> None:
    print_predicted(PUZZLE)
    assert capsys.readouterr().out == (
        "test 7: rating 1.50, 2 cells wrong, would halt after step 3\n"
        "  1 .    1 2    1 2\n"
        "  . 1    2 2    2 1\n\n"
    )


def test_a_right_answer_is_drawn_once(capsys: pytest.CaptureFixture[str]) -> None:
    print_predicted(
        Predicted(
            row=0,
            split="validation",
            rating=None,
            exact=True,
            wrong_cells=0,
            halt_step=None,
            puzzle="1",
            prediction="1",
            solution="1",
        )
    )
    assert capsys.readouterr().out == "validation 0: unrated, solved\n  1    1\n\n"
