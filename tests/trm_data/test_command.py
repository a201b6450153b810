"""What the commands of all programs share: an unknown word is named, whatever the width of the terminal."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.conftest import error_of, run_here
from trm_data.cli import main as data
from trm_eval.cli import main as evaluate
from trm_train.cli import main as train

Main = Callable[[list[str]], None]
READ_BEFORE = ("--scale", "--data", "--optim.name", "--model.architecture", "--data.form")
"""Options that say which others there are."""


@pytest.mark.parametrize("columns", ["80", "160", "240"])
@pytest.mark.parametrize(
    ("program", "command", "typed", "meant"),
    [
        (train, "run quickstart", "--sede", "--seed"),
        (train, "batch", "--jobz", "--jobs"),
        (data, "build sudoku", "--sise", "--size"),
        (evaluate, "run", "--limt", "--limit"),
    ],
)
def test_of_a_command_with_every_option_only_the_unknown_one_is_refused(
    program: Main, command: str, typed: str, meant: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run_here(program, *command.split(), "--help").stdout
    options = sorted(set(re.findall(r"^\W*(--[a-z][\w.-]*)", shown, re.MULTILINE)) - {"--help", *READ_BEFORE})
    assert meant in options
    monkeypatch.setenv("COLUMNS", columns)
    values = [word for option in options for word in (option, "1")]
    code, line = error_of(program, *command.split(), *values, typed, "1")
    assert code == 2
    assert f"no option {typed} of" in line
    assert f"did you mean '{meant}'?" in line
