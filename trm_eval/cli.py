"""`trm-eval`: evaluate runs, query the results in SQL, show predictions, write reports.

Heavy imports are inside the commands, so that `--help` starts fast.
"""

from __future__ import annotations

import sys
from typing import Annotated

from tyro.conf import subcommand

from trm_data.command import answer_version, errors_end, parse_command
from trm_data.errors import DataError
from trm_data.extensions import take_own_file
from trm_eval.commands.compare import Compare
from trm_eval.commands.export import Export
from trm_eval.commands.predict import Predict
from trm_eval.commands.report import Report
from trm_eval.commands.run import Run
from trm_eval.commands.serve import Serve
from trm_eval.commands.show import Show
from trm_eval.commands.sql import Duckdb, Queries, Sql, Tables
from trm_eval.commands.submission import Submission
from trm_eval.errors import EvalError
from trm_train.errors import TrainError

Command = (
    Annotated[Run, subcommand("run")]
    | Annotated[Sql, subcommand("sql")]
    | Annotated[Queries, subcommand("queries")]
    | Annotated[Tables, subcommand("tables")]
    | Annotated[Duckdb, subcommand("duckdb")]
    | Annotated[Show, subcommand("show")]
    | Annotated[Predict, subcommand("predict")]
    | Annotated[Compare, subcommand("compare")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Serve, subcommand("serve")]
    | Annotated[Submission, subcommand("submission")]
    | Annotated[Export, subcommand("export")]
)


def main(arguments: list[str] | None = None) -> None:
    """Run `trm-eval`. Exit codes: `trm_data.errors.Exit`."""
    given = sys.argv[1:] if arguments is None else arguments
    given = take_own_file(given)
    with errors_end("trm-eval", EvalError, TrainError, DataError):
        answer_version("trm-eval", given)
        command = parse_command(
            "trm-eval",
            "Evaluate runs and read their results. "
            "Every command takes `--experiments FILE.py` (or $TRM_EXPERIMENTS): your own experiments, networks, kinds.",
            Command,
            given,
        )
        sys.exit(command.run())
