"""Commands are printed before they run; failures are reported."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from trm_train.errors import LaunchError
from trm_train.launch.shell import Shell


def test_a_command_is_printed_before_it_runs(tmp_path: Path) -> None:
    said = tmp_path / "said"
    printed = Shell(lambda line: said.write_text(line) and None).run(["cat", str(said)])
    assert printed == f"$ cat {said}"


def test_a_command_that_was_printed_can_be_pasted() -> None:
    said: list[str] = []
    printed = Shell(said.append).run(["echo", "a b", "$HOME;'"])
    assert printed == "a b $HOME;'\n"
    (line,) = said
    again = subprocess.run(["sh", "-c", line.removeprefix("$ ")], capture_output=True, text=True, check=True)
    assert again.stdout == printed


def test_a_dry_run_answers_with_what_is_assumed() -> None:
    said: list[str] = []
    assert Shell(said.append, dry=True).run(["false"], assume="as if") == "as if"
    assert said == ["$ false"]


def test_a_failure_names_the_command_the_code_and_its_last_lines() -> None:
    with pytest.raises(LaunchError) as caught:
        Shell(lambda _: None).run(["sh", "-c", "echo one >&2; echo two >&2; exit 7"])
    assert str(caught.value).endswith(": exit code 7: one two")
    assert str(caught.value).startswith("sh -c 'echo one")


def test_a_command_that_gives_no_answer_is_ended() -> None:
    done = Shell(lambda _: None).ask(["sleep", "30"], limit_s=0.2)
    assert (done.code, done.reason) == (124, "no answer for 0.2 s")


def test_what_is_asked_again_is_printed_once() -> None:
    said: list[str] = []
    shell = Shell(said.append)
    for word in ("a", "b"):
        shell.ask_all([["echo", word], ["echo", word]], once="look")
    assert said == ["$ echo a   # and again", "$ echo a   # and again"]
