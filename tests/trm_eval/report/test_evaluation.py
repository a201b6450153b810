"""The printed result of an evaluation matches its tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.recorded import recorded_root
from tests.trm_eval.conftest import Evaluated
from trm_eval.evaluation.flow import EvalResult
from trm_eval.report.evaluation import SECTIONS, print_predicted, print_report
from trm_eval.show import find_answered
from trm_eval.tables.named import named_queries
from trm_eval.tables.query import query_results


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


@pytest.mark.integration
def test_kinds_without_ratings_have_no_table_by_rating(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = recorded_root(tmp_path, "voted")
    found = query_results(layout, "SELECT * FROM evals LIMIT 1")
    row = dict(zip(found.columns, found.rows[0], strict=True))
    print_report(layout, EvalResult(run=row["run"], experiment=row["experiment"], row=row))
    shown = capsys.readouterr().out
    assert "rating" not in shown
    assert "@wrong_cells" in shown
    (puzzle,) = find_answered(layout, row["run"], count=1)
    print_predicted(puzzle)
    assert "rated" not in capsys.readouterr().out
