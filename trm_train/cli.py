"""`trm-train`: list, describe and run experiments, and manage their runs.

Heavy imports are inside the commands, so that `--help` and `list` start fast.
"""

from __future__ import annotations

import sys
from typing import Annotated

from tyro.conf import subcommand

from trm_data.command import answer_version, errors_end, parse_command
from trm_data.errors import DataError
from trm_data.extensions import take_own_file
from trm_train.commands.batch import Batch
from trm_train.commands.describe import Describe
from trm_train.commands.launch import Launch
from trm_train.commands.list import List
from trm_train.commands.run import Run, run_experiment
from trm_train.commands.status import Status
from trm_train.commands.weights import ExportWeights, ImportWeights
from trm_train.config.overrides import split_overrides
from trm_train.errors import ConfigError, TrainError

Command = (
    Annotated[Run, subcommand("run")]
    | Annotated[List, subcommand("list")]
    | Annotated[Describe, subcommand("describe")]
    | Annotated[Batch, subcommand("batch")]
    | Annotated[Launch, subcommand("launch")]
    | Annotated[Status, subcommand("status")]
    | Annotated[ImportWeights, subcommand("import-weights")]
    | Annotated[ExportWeights, subcommand("export-weights")]
)


def main(arguments: list[str] | None = None) -> None:
    """Run `trm-train`. Exit codes: `trm_data.errors.Exit`."""
    given = sys.argv[1:] if arguments is None else arguments
    given = take_own_file(given)
    with errors_end("trm-train", TrainError, DataError):
        answer_version("trm-train", given)
        if len(given) > 1 and given[0] == "run" and given[1] not in ("-h", "--help"):
            if given[1].startswith("-"):
                raise ConfigError(
                    "no experiment named (expected trm-train run EXPERIMENT [options]; trm-train list shows them)"
                )
            sys.exit(run_experiment(given[1], given[2:]))
        overrides: list[str] = []  # options of a configuration
        if given[:1] in (["batch"], ["import-weights"]):
            overrides, others = split_overrides(given[1:])
            given = [given[0], *others]
        rest = given[:1] == ["launch"]  # options of the run, passed on by `launch`
        command = parse_command(
            "trm-train",
            "Train tiny recursive models. "
            "Every command takes `--experiments FILE.py` (or $TRM_EXPERIMENTS): your own experiments, networks, kinds.",
            Command,
            given,
            rest=rest,
        )
        if rest:
            command, overrides = command
        if isinstance(command, Batch | Launch | ImportWeights):
            sys.exit(command.run(overrides))
        assert not isinstance(command, Run)
        sys.exit(command.run())
