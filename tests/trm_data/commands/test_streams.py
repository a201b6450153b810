"""Output that cannot be written ends a command of any of the three programs with one line and a code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import error_of
from tests.recorded import recorded_root
from trm_data.cli import main as trm_data
from trm_data.errors import Exit
from trm_eval.cli import main as trm_eval
from trm_train.cli import main as trm_train

COMMANDS = (["trm-data", "list"], ["trm-train", "status"], ["trm-eval", "sql", "SELECT run FROM runs"])


@pytest.mark.integration
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_stdout_that_takes_nothing(tmp_path: Path, command: list[str]) -> None:
    root = recorded_root(tmp_path / "root", "evaluated")
    program, *words = command
    line = [str(Path(sys.executable).with_name(program)), *words, "--root", root.place]

    with Path("/dev/full").open("w") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (Exit.ERROR, 1), done.stderr
    assert done.stderr.startswith(f"{program}: ")
    assert "no space left on device; free some space" in done.stderr


def test_a_query_from_stdin_that_is_closed_is_an_error_in_one_line(tmp_path: Path) -> None:
    line = [str(Path(sys.executable).with_name("trm-eval")), "sql", "--root", str(tmp_path)]
    done = subprocess.run(["sh", "-c", 'exec "$0" "$@" <&-', *line], capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (Exit.ERROR, 1), done.stderr
    assert done.stderr.startswith("trm-eval: ")


@pytest.mark.parametrize(
    ("main", "words"),
    [(trm_data, ["list"]), (trm_train, ["status"]), (trm_eval, ["sql", "SELECT 1"])],
    ids=["trm-data", "trm-train", "trm-eval"],
)
def test_a_root_whose_path_is_not_utf8_is_refused(
    main: Callable[[list[str]], None], words: list[str], tmp_path: Path
) -> None:
    code, line = error_of(main, *words, "--root", f"{tmp_path}/\udcff")
    assert code == Exit.ERROR
    assert "not UTF-8" in line
    assert "\\udcff" in line
