"""The printed result of an evaluation matches its tables."""

from __future__ import annotations

import re

import pytest

from tests.trm_eval.conftest import Evaluated
from trm_eval.report.evaluation import SECTIONS, print_report
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
