"""Reports of runs outside the study: chosen by name, by glob, or by experiment."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from pathlib import Path

import pytest

from tests.conftest import error_of, run_here
from tests.support.roots import root_with
from tests.trm_eval.conftest import Evaluated
from tests.trm_train.test_loop import EXPERIMENT, TINY
from trm_data.storage.root import Layout
from trm_eval.cli import main
from trm_eval.errors import EvalError
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_eval.report.blocks import Table
from trm_eval.report.page import study_page
from trm_eval.report.study import gather_runs, runs_named
from trm_train.console import RunConsole
from trm_train.experiments.setting import SETTINGS
from trm_train.training.loop import train


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


def test_halting_is_not_called_right_where_nothing_is_solved(evaluated: Evaluated) -> None:
    (group,), _ = gather_runs(evaluated.layout, [evaluated.record.run])
    assert group.members[0].exact_count == 0
    page = study_page([group], None, "command", "versions")
    (table,) = (block for block in page.blocks if isinstance(block, Table) and block.file == "runs.csv")
    assert dict(zip(table.columns, table.rows[0], strict=True))["halting right %"] == "-"


@pytest.mark.integration
def test_a_stopped_run_is_charged_for_the_steps_that_it_took(
    small_layout: Layout, evaluated: Evaluated, tmp_path: Path
) -> None:
    class Interrupting(RunConsole):
        def step(self, step: int) -> None:
            if step == 7:
                os.kill(os.getpid(), signal.SIGTERM)

    layout = root_with("small", tmp_path, small_layout)
    config = dataclasses.replace(TINY, total_steps=100_000)
    with Interrupting(config, quiet=True) as console:
        stopped = train(EXPERIMENT, config, layout, console, tracking="none")
    evaluate_run(layout, stopped.folder, EvalRequest())
    (group,), _ = gather_runs(layout, [stopped.record.run])
    (member,) = group.members
    assert (member.total_steps, member.planned_steps) == (stopped.step, 100_000)
    whole = evaluated.record
    assert whole.training_flops is not None
    assert member.training_flops == pytest.approx(stopped.step * whole.training_flops / whole.total_steps)
    page = study_page([group], None, "command", "versions")
    assert f"at step {stopped.step} of 100,000 on" in str(page.blocks[0])
    (table,) = (block for block in page.blocks if isinstance(block, Table) and block.file == "runs.csv")
    assert f"{stopped.step} of 100,000" in table.rows[0]


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
