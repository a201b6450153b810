"""An unknown word in a command: the error suggests the closest name and what to do, with exit code 2."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.conftest import run_here
from trm_data.cli import main as data
from trm_data.storage.root import Layout
from trm_eval.cli import main as evaluate
from trm_train.cli import main as train


@pytest.mark.parametrize(
    ("program", "typed", "said"),
    [
        (data, "build sudoko --size 5", "no kind or named dataset 'sudoko'; did you mean 'sudoku'?"),
        (data, "build sudoku --source cvs:x", "--source cvs:x: did you mean csv:x? expected 'generated', 'csv:"),
        (data, "build --size 5", "name first what to build: trm-data build KIND --size 5; a kind (arc, maze,"),
        (train, "run quickstart --model.mixer atention", "attention, window, got 'atention'; did you mean"),
        (train, "run exp01*", "no experiment 'exp01*': a pattern is for batch, list, status and evaluations"),
        (train, "run quikstart", "no experiment 'quikstart'; did you mean 'quickstart'? (trm-train list)"),
        (evaluate, "sql @evls", "no query @evls; did you mean '@evals'? (trm-eval queries)"),
    ],
)  # fmt: skip
def test_a_typo_is_answered_in_one_line(
    small_layout: Layout,
    monkeypatch: pytest.MonkeyPatch,
    program: Callable[[list[str]], None],
    typed: str,
    said: str,
) -> None:
    monkeypatch.setenv("TRM_ROOT", small_layout.place)
    done = run_here(program, *typed.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


BORDERS = re.compile(r"[\s\u2500-\u257f]+")


@pytest.mark.parametrize(
    ("program", "typed", "said"),
    [
        (data, "bild maze", "no command 'bild'; did you mean 'build'? (commands: build, list,"),
        (data, "build sudoku --sise 5", "--sise, 5 Perhaps you meant: --size"),
        (train, "run quickstart --dataset x", "--dataset, x Perhaps you meant: --data.dataset"),
        (data, "", "Missing subcommand Expected one of {build, list, describe"),
        (train, "run quickstart --optim.lr x", "Error parsing --optim.lr: could not convert string to float: 'x'"),
    ],
)  # fmt: skip
def test_what_the_parser_refuses_it_says_itself(
    small_layout: Layout,
    monkeypatch: pytest.MonkeyPatch,
    program: Callable[[list[str]], None],
    typed: str,
    said: str,
) -> None:
    monkeypatch.setenv("TRM_ROOT", small_layout.place)
    monkeypatch.setenv("COLUMNS", "200")
    done = run_here(program, *typed.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert said in BORDERS.sub(" ", done.stderr)
