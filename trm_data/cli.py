"""`trm-data`: build, list, describe, verify, show and export puzzle datasets.

Heavy imports happen inside the commands, so that `--help` stays fast.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

from tyro.conf import subcommand

from trm_data.command import answer_version, errors_end, parse_command
from trm_data.commands.build import build_command, name_subcommand
from trm_data.commands.describe import Describe
from trm_data.commands.export import Export
from trm_data.commands.import_ import Import
from trm_data.commands.list import List
from trm_data.commands.show import Show
from trm_data.commands.verify import Verify
from trm_data.errors import DataError
from trm_data.extensions import take_own_file

OtherCommands = (
    Annotated[List, subcommand("list")]
    | Annotated[Describe, subcommand("describe")]
    | Annotated[Verify, subcommand("verify")]
    | Annotated[Show, subcommand("show")]
    | Annotated[Import, subcommand("import")]
    | Annotated[Export, subcommand("export")]
)


def main(arguments: list[str] | None = None) -> None:
    """Run `trm-data`. Exit code 0: done; 1: `verify` found a problem; 2: an error, on stderr."""
    given = take_own_file(sys.argv[1:] if arguments is None else arguments)
    with errors_end("trm-data", DataError):
        answer_version("trm-data", given)
        build = Annotated[build_command(given), subcommand("build")]
        commands: Any = build | OtherCommands
        words = name_subcommand(given)
        command = parse_command(
            "trm-data",
            "Build and read puzzle datasets. "
            "Every command takes `--experiments FILE.py` (or $TRM_EXPERIMENTS): your own kinds.",
            commands,
            words,
        )
        sys.exit(command.run())
