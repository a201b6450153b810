"""The help of every command has an example, and nothing that only the parser understands."""

from __future__ import annotations

import re

import pytest

import trm_data.cli
import trm_eval.cli
import trm_train.cli
from tests.conftest import run_here

MAINS = {"trm-data": trm_data.cli.main, "trm-train": trm_train.cli.main, "trm-eval": trm_eval.cli.main}
WITHOUT_EXAMPLE = {"trm-data build", "trm-data catalog", "trm-data list", "trm-eval queries"}
"""Commands without examples: their usage is an example, or their subcommands have examples."""


def commands_of(program: str) -> list[str]:
    said = run_here(MAINS[program], "--help").stdout
    return re.findall(r"^\W*• (\w+) ", said, re.MULTILINE)


@pytest.mark.parametrize("program", MAINS)
def test_every_command_has_an_example_and_plain_options(program: str) -> None:
    commands = commands_of(program)
    assert len(commands) >= 6
    for command in commands:
        arguments = ["run", "quickstart"] if (program, command) == ("trm-train", "run") else [command]
        said = run_here(MAINS[program], *arguments, "--help").stdout
        assert "(default: )" not in said, (program, command)
        assert "no-no-" not in said, (program, command)
        assert "{None" not in said, (program, command)
        if f"{program} {command}" not in WITHOUT_EXAMPLE:
            assert re.search(rf"^ +{program} {command}", said, re.MULTILINE), (program, command)


@pytest.mark.parametrize("program", MAINS)
def test_the_list_of_commands_fits_a_screen_and_says_the_way_on(program: str) -> None:
    said = run_here(MAINS[program], "--help").stdout
    assert len(said.splitlines()) < 60
    assert f"`{program} COMMAND --help` shows options" in " ".join(said.split())
    assert "For example" not in said
