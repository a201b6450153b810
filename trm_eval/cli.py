"""`trm-eval`: evaluate runs, ask the results in SQL, show predictions.

Heavy imports happen inside the commands, so that `--help` stays fast.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional, arg, subcommand

from trm_data.command import (
    PARSING,
    Exit,
    Root,
    SkipDamaged,
    answer_version,
    errors_end,
    say_what_is_left_out,
)
from trm_data.errors import DataError
from trm_data.show.render import print_result
from trm_data.storage.root import resolve_root
from trm_eval.commands.report import Report
from trm_eval.errors import EvalError
from trm_train.commands.common import DataOption, ScaleOption
from trm_train.errors import TrainError
from trm_train.experiments.setting import parse_setting


@dataclass(frozen=True, kw_only=True)
class Run:
    """Evaluate a checkpoint of a run: every row of a split once, with a fixed number of supervision steps.

    Writes the tables runs, train_metrics, evals and predictions; evaluating again replaces the result.

    For example:

      trm-eval run quickstart
      trm-eval run exp01a --scale tiny
      trm-eval run quickstart-7b5f7e87-s0 --checkpoint best --split validation --weights raw
    """

    run: Annotated[Positional[str], arg(metavar="RUN")]
    """A run's name or folder, or an experiment that has one run (at --scale and --data, if they are given)."""
    scale: ScaleOption = None
    data: DataOption = None
    checkpoint: str = "last"
    """A step, last, or best (highest exact accuracy on the validation split)."""
    split: Annotated[Literal["train", "validation", "test"] | None, arg(help_behavior_hint="")] = None
    """Split of the run's dataset (default: test, or validation where there is no test)."""
    limit: int = 0
    """Rows at most, from the first; 0 is all."""
    weights: Literal["ema", "raw"] = "ema"
    """Averaged or raw parameters."""
    steps: Annotated[int | None, arg(help_behavior_hint="")] = None
    """Supervision steps of each row (default: as many as training gives at most)."""
    root: Root = None
    json: bool = False
    """Print JSON for machines."""

    def command(self) -> int:
        """Evaluate and report."""
        from trm_data.show.progress import terminal_progress
        from trm_eval.evaluate import evaluate_run
        from trm_eval.identity import EvalRequest
        from trm_eval.report.evaluation import print_report
        from trm_train.run.record import find_run

        if self.limit < 0 or (self.steps is not None and self.steps < 1):
            raise EvalError(
                f"--limit at least 0, got {self.limit}; --steps at least 1, got {self.steps or 'none'}"
            )
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        layout = resolve_root(self.root)
        run = find_run(layout, self.run, parse_setting(self.scale, self.data))
        request = EvalRequest(
            checkpoint=self.checkpoint,
            split=self.split,
            limit=self.limit,
            weights=self.weights,
            supervision_steps=self.steps,
        )
        with terminal_progress(quiet=self.json) as progress:
            result = evaluate_run(layout, run, request, progress)
        if self.json:
            print(json.dumps({"run": result.run, **result.row}, indent=1, default=str))
        else:
            print_report(layout, result)
        return 0


@dataclass(frozen=True, kw_only=True)
class Sql:
    """Ask results and dataset catalog in SQL, read-only.

    Views: runs and train_metrics (of the runs as they are, evaluated or not), evals and predictions (the newest of
    each request), all_evals, all_predictions, predicted_puzzles (predictions with rating and clues), and the tables
    of trm-data sql. duckdb_columns() gives every column with its unit.
    @NAME runs a query that ships with the package; `trm-eval queries` lists them.

    For example:

      trm-eval sql @accuracy_by_rating
      trm-eval sql "SELECT run, exact_accuracy FROM evals" --format csv
      trm-eval sql "SELECT run, state, step, total_steps, heartbeat FROM runs"
    """

    query: Annotated[Positional[str], arg(metavar="QUERY")]
    format: Literal["table", "csv", "json"] = "table"
    verify: bool = False
    """Check every file that is read, also those that were found whole before and have not changed since."""
    skip_damaged: SkipDamaged = False
    root: Root = None

    def command(self) -> int:
        """Run the query and print the result."""
        from trm_eval.tables.query import query_results

        found = query_results(resolve_root(self.root), self.query, verify=self.verify)
        print_result(found, self.format)
        return say_what_is_left_out("trm-eval", found.problems, skip=self.skip_damaged)


@dataclass(frozen=True, kw_only=True)
class Queries:
    """List the queries that ship with the package, or print one."""

    name: Annotated[Positional[str | None], arg(metavar="NAME")] = None

    def command(self) -> int:
        """Print them."""
        from trm_eval.tables.query import load_query, named_queries

        if self.name is not None:
            print(load_query(self.name.removeprefix("@")), end="")
            return 0
        queries = named_queries()
        width = max(map(len, queries))
        for name, answers in queries.items():
            print(f"@{name:<{width}}  {answers}")
        return 0


@dataclass(frozen=True, kw_only=True)
class Show:
    """Draw puzzles with the predictions of a run's newest evaluation.

    For example:

      trm-eval show quickstart --count 2 --which wrong
    """

    run: Annotated[Positional[str], arg(metavar="RUN")]
    """A run's name or folder, or an experiment that has one run (at --scale and --data, if they are given)."""
    scale: ScaleOption = None
    data: DataOption = None
    count: int = 3
    which: Literal["any", "right", "wrong", "guessing"] = "any"
    """guessing: those that need guessing (rating above 0) and are right."""
    root: Root = None
    json: bool = False
    """Print JSON for machines."""

    def command(self) -> int:
        """Draw them."""
        from trm_eval.report.evaluation import print_predicted
        from trm_eval.show import show_predictions
        from trm_train.run.record import find_run

        if self.count < 1:
            raise EvalError(f"--count {self.count}: at least 1")
        layout = resolve_root(self.root)
        run = find_run(layout, self.run, parse_setting(self.scale, self.data))
        found = show_predictions(layout, run.name, count=self.count, which=self.which)
        if self.json:
            print(json.dumps([asdict(puzzle) for puzzle in found], indent=1))
        else:
            for puzzle in found:
                print_predicted(puzzle)
        return 0


@dataclass(frozen=True, kw_only=True)
class Sync:
    """Copy results from one root to another; what is there already is skipped, an interrupted copy goes on.

    Every file is checked where it arrives; the rows that name others are copied last.

    For example:

      trm-eval sync gs://bucket/trm ./trm
      trm-eval sync ./trm gs://bucket/trm quickstart
    """

    source: Annotated[Positional[str], arg(metavar="SRC")]
    """Root to copy from: a folder or gs://bucket/prefix."""
    target: Annotated[Positional[str], arg(metavar="DST")]
    """Root to copy to."""
    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="[RUN ...]")] = ()
    """Names of runs or experiments; all results if none is named."""
    json: bool = False
    """Print JSON for machines."""

    def command(self) -> int:
        """Copy them."""
        from trm_data.show.progress import terminal_progress
        from trm_eval.sync import sync_results

        with terminal_progress(quiet=self.json) as progress:
            done = sync_results(
                resolve_root(self.source), resolve_root(self.target), list(self.runs), progress
            )
        if self.json:
            print(json.dumps(asdict(done), indent=1))
        else:
            print(
                f"results: {done.files_copied} files, {done.bytes_copied / 1e6:.1f} MB copied, "
                f"{done.files_kept} were there, {done.seconds:.1f} s"
            )
        return Exit.DONE


Command = (
    Annotated[Run, subcommand("run")]
    | Annotated[Sql, subcommand("sql")]
    | Annotated[Queries, subcommand("queries")]
    | Annotated[Show, subcommand("show")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Sync, subcommand("sync")]
)


def main(arguments: list[str] | None = None) -> None:
    """Run `trm-eval`. Exit codes: `trm_data.command.Exit`."""
    given = sys.argv[1:] if arguments is None else arguments
    with errors_end("trm-eval", EvalError, TrainError, DataError):
        answer_version("trm-eval", given)
        command = tyro.cli(
            Command,
            prog="trm-eval",
            description="Evaluate runs and read their results.",
            args=given,
            config=PARSING,
        )
        sys.exit(command.command())
