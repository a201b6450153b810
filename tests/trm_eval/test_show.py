"""Puzzles with their predictions, as in the tables and the dataset."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import run_here
from tests.support.roots import copy_root
from tests.trm_eval.conftest import Evaluated
from trm_data.building.flow import build_dataset
from trm_data.kinds.registry import load_kind
from trm_data.storage.root import resolve_root
from trm_eval.cli import main
from trm_eval.errors import ResultError
from trm_eval.report.evaluation import print_predicted
from trm_eval.show import answered_puzzles, evaluation_of
from trm_eval.tables.query import query_results


def test_the_first_puzzles_as_they_are(evaluated: Evaluated) -> None:
    found = answered_puzzles(evaluated.layout, evaluated.row["evaluation"], count=3)
    shown = [puzzle.as_text() for puzzle in found]
    assert [(puzzle["split"], puzzle["row"]) for puzzle in shown] == [("test", 0), ("test", 1), ("test", 2)]
    kind, spec = load_kind("sudoku"), evaluated.test.manifest.spec
    rows = evaluated.test.read(np.arange(3))
    query = "SELECT prediction, wrong_cells FROM predicted_puzzles ORDER BY row LIMIT 3"
    for i, (prediction, wrong) in enumerate(query_results(evaluated.layout, query).rows):
        assert shown[i]["puzzle"] == kind.draw(rows["inputs"][i].astype(np.uint8), spec).text()
        assert shown[i]["solution"] == kind.draw(rows["labels"][i].astype(np.uint8), spec).text()
        assert shown[i]["prediction"] == kind.draw(np.array(prediction, np.uint8), spec).text()
        assert (shown[i]["wrong_cells"], shown[i]["exact"]) == (wrong, wrong == 0)


@pytest.mark.integration
def test_wrong_ones_are_wrong_and_right_ones_are_named_as_missing(evaluated: Evaluated) -> None:
    assert evaluated.row["exact_count"] == 0  # twelve steps are too few to learn
    assert len(answered_puzzles(evaluated.layout, evaluated.row["evaluation"], count=99, which="wrong")) == 12
    for which in ("right", "guessing", "longest"):
        words = ["show", evaluated.record.run, "--which", which, "--root", str(evaluated.layout.place)]
        assert f"has no puzzles that are {which} in evaluation" in run_here(main, *words).stderr


def test_a_run_that_nobody_evaluated(evaluated: Evaluated) -> None:
    with pytest.raises(ResultError, match=r"other-00000000-s0: was not evaluated yet: trm-eval run other"):
        evaluation_of(evaluated.layout, "other-00000000-s0", None)


def test_other_rows_under_the_name_of_the_dataset(
    evaluated: Evaluated, tmp_path: Path, request_small: object
) -> None:
    layout = resolve_root(tmp_path)
    copy_root(evaluated.layout, layout, "results")
    build_dataset(request_small(seed=4), layout, shard_examples=200)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ResultError, match="dataset small has other test rows than"):
        answered_puzzles(layout, evaluated.row["evaluation"])


@pytest.mark.integration
def test_one_row_of_one_evaluation(evaluated: Evaluated, tmp_path: Path) -> None:
    layout, run, evaluation = evaluated.layout, evaluated.record.run, evaluated.row["evaluation"]
    assert evaluation_of(layout, run, evaluation[:6]) == evaluation
    shown = answered_puzzles(layout, evaluation, count=2, index=4)
    assert [puzzle.row for puzzle in shown] == [4, 5]
    with pytest.raises(ResultError, match=r"row 12: not among the 12 rows, 0 to 11, of evaluation \w+ of"):
        answered_puzzles(layout, evaluation, index=12)
    with pytest.raises(
        ResultError, match=r"--evaluation zz: \S+ has no such evaluation; trm-eval sql @evals"
    ):
        evaluation_of(layout, run, "zz")
    out = tmp_path / "new" / "puzzles.svg"
    words = ["show", run, "--index", "4", "--count", "2", "--root", str(layout.place)]
    done = run_here(main, *words, "--out", str(out))
    assert (done.returncode, done.stdout) == (0, f"wrote {out}\n")
    for heading in ("given: test ", "answer: ", "solution"):
        assert out.read_text().count(f">{heading}") == 2
    refused = run_here(main, *words, "--which", "wrong")
    assert refused.returncode == 2
    assert "--index and --which wrong: use only one of them" in refused.stderr


def test_a_puzzle_its_answer_and_its_solution_have_headings(
    evaluated: Evaluated, capsys: pytest.CaptureFixture[str]
) -> None:
    (puzzle,) = answered_puzzles(evaluated.layout, evaluated.row["evaluation"], count=1)
    print_predicted(puzzle)
    first, headings, *boards = capsys.readouterr().out.splitlines()
    assert f"{puzzle.wrong_cells} cells wrong, " in first
    assert headings.split() == ["given", "answer", "solution"]
    assert sum(line.count("x") for line in boards) == puzzle.wrong_cells + 1  # once more in the legend
    print_predicted(dataclasses.replace(puzzle, exact=True, wrong_cells=0))
    assert capsys.readouterr().out.splitlines()[1].split() == ["given", "answer"]
