"""Reports of runs outside the study: chosen by name, by glob, or by experiment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import error_of, run_here
from tests.trm_eval.conftest import Evaluated
from trm_eval.cli import main
from trm_eval.errors import EvalError
from trm_eval.report.named_runs import gather_runs, runs_named
from trm_train.experiments.setting import SETTINGS


def test_a_run_is_reported_by_its_name_its_experiment_and_a_glob(
    evaluated: Evaluated, tmp_path: Path
) -> None:
    """`tiny` is not a registered experiment."""
    run = evaluated.record.run
    for number, pattern in enumerate((run, "tiny", "tin*")):
        out = tmp_path / f"{number}.md"
        done = run_here(
            main, "report", pattern, "--out", str(out), "--no-png", "--json", "--root", evaluated.layout.place
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["runs"] == [run]
        text = out.read_text()
        assert text.startswith("# Runs\n")
        assert run in text
        assert f"{100 * evaluated.row['exact_count'] / evaluated.row['count']:.1f}" in text


def test_a_pattern_that_fits_nothing_is_named(evaluated: Evaluated) -> None:
    code, line = error_of(main, "report", evaluated.record.run, "tinny", "--root", evaluated.layout.place)
    assert (code, "no run or experiment 'tinny'" in line) == (2, True), line


def test_a_run_without_a_whole_test_is_said_with_the_command(evaluated: Evaluated) -> None:
    with pytest.raises(EvalError, match=r"no run has a test of all rows .* trm-eval run other-0-s0"):
        gather_runs(evaluated.layout, ["other-0-s0"])
    (group,), _ = gather_runs(evaluated.layout, [evaluated.record.run, "other-0-s0"])
    assert group.missing == ["other-0-s0 (no test of all rows: trm-eval run other-0-s0)"]
    assert [member.evaluation for member in group.members] == [evaluated.row["evaluation"]]


def test_a_setting_leaves_out_runs_of_others_unless_they_are_named(evaluated: Evaluated) -> None:
    layout, run = evaluated.layout, evaluated.record.run
    elsewhere = next(
        each
        for each in SETTINGS
        if (each.scale, each.data) != (evaluated.record.scale, evaluated.record.data)
    )
    assert runs_named(layout, [run], elsewhere) == [run]
    with pytest.raises(EvalError, match="no run or experiment 't\\*'"):
        runs_named(layout, ["t*"], elsewhere)
