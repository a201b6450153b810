"""Parse a command line as its program does, without running it."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest.mock import patch

import trm_data.cli
import trm_data.command
import trm_eval.cli
import trm_train.cli
import trm_train.commands.run
from trm_data.errors import DataError
from trm_train.commands.batch import Batch
from trm_train.commands.launch import Launch
from trm_train.config.overrides import parse_config, parse_options, split_overrides
from trm_train.errors import ConfigError
from trm_train.experiments.registry import select_experiments
from trm_train.experiments.setting import parse_setting

MAINS: dict[str, Callable[[list[str]], None]] = {
    "trm-data": trm_data.cli.main,
    "trm-train": trm_train.cli.main,
    "trm-eval": trm_eval.cli.main,
}


class Read(BaseException):
    """Raised once a program has parsed its command line; a BaseException, which no `except Exception` catches."""

    def __init__(self, command: Any) -> None:
        super().__init__()
        self.command = command


def statements(line: str) -> list[list[str]]:
    """Return the words of each command of a line, split at `;`, `|` and similar operators."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    found: list[list[str]] = [[]]
    for word in lexer:
        if word and set(word) <= set(";|&"):
            found.append([])
        else:
            found[-1].append(word)
    return [words for words in found if words]


def why_unreadable(words: list[str]) -> str:
    """Return a program's message about a command line that it cannot parse; empty if it can."""

    def then_end(parse: Callable[..., Any]) -> Callable[..., Any]:
        def parsed(*arguments: Any, **named: Any) -> Any:
            raise Read(parse(*arguments, **named))

        return parsed

    program = words[0].replace("-", "_")
    said = io.StringIO()
    with (
        patch(f"{program}.cli.parse_command", then_end(trm_data.command.parse_command)),
        patch.object(trm_train.commands.run, "parse_options", then_end(parse_options)),
        redirect_stderr(said),
        redirect_stdout(said),
    ):
        try:
            MAINS[words[0]](words[1:])
        except Read as read:
            command = read.command
        except SystemExit as ended:
            return said.getvalue() if ended.code else ""
    if isinstance(command, tuple):  # a launch, and the arguments that it passes on
        launch, rest = command
        assert isinstance(launch, Launch)
        return why_unreadable([words[0], launch.what, *rest])
    return why_no_batch(command, words[2:]) if isinstance(command, Batch) else ""


def why_no_batch(command: Batch, words: list[str]) -> str:
    """Return what is wrong with the experiments of a batch, or with its configuration overrides."""
    overrides, _ = split_overrides(words)
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            for item in select_experiments(command.patterns, parse_setting(command.scale, command.data)):
                parse_config(item.make(), overrides)
    except (ConfigError, DataError) as error:
        return str(error)
    except SystemExit:
        return said.getvalue()
    return ""
