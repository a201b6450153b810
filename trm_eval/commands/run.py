"""`trm-eval run`: evaluates checkpoints."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from trm_data.command import Root, emit, ending_at_once
from trm_data.errors import DataError, Exit, LabError
from trm_data.storage.root import resolve_root
from trm_eval.errors import EvalError, NoCheckpointError
from trm_train.commands.common import DataOption, ProcessOptions, ScaleOption
from trm_train.errors import ConfigError, ForeignRunError
from trm_train.experiments.setting import parse_setting

if TYPE_CHECKING:
    from trm_data.storage.root import Layout
    from trm_data.storage.store import Folder
    from trm_eval.evaluation.flow import EvalResult
    from trm_eval.identity import EvalRequest
    from trm_train.hosts import Hosts

REPORTED_S = 86_400.0
"""Timeout of the last barrier (s), in which process 0 reads the tables and prints."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Evaluate checkpoints of runs on every row of a split, or a subset.

    Runs of a glob that cannot be evaluated are skipped and named, with exit code 1. Runs without a checkpoint or of
    another version do not count.

    Every row gets the same number of supervision steps, as published. With --mode halting a row halts as in training,
    which is faster. With --samples a row is answered several times with noise on the latent states, and one answer is
    chosen. Writes the tables runs, train_metrics, evals and predictions, votes of ARC, and traces on request;
    evaluating again replaces the result. The accuracy after every supervision step is in the view depth, that of the
    first 1, 2, ... samples in samples, pass@K in pass_at_k.

    For example:

      trm-eval run quickstart
      trm-eval run exp01a --scale tiny
      trm-eval run quickstart-2626ad84-s0 --checkpoint best --split validation --weights raw
      trm-eval run quickstart --steps 1,2,4,8,16,32
      trm-eval run quickstart --steps 1,4,16,64 --samples 1,8,32 --limit 100
      trm-eval run quickstart --steps 1024 --precision bfloat16
      trm-eval run quickstart --mode halting
      trm-eval run quickstart --samples 16 --noise 0.3 --select halt_logit
      trm-eval run quickstart --traces 10 --latents
      trm-eval run 'exp01*' --scale tiny --checkpoint all --split validation
      trm-eval run quickstart --limit 1000 --subset-seed 0
      trm-eval run quickstart --coordinator 10.0.0.1:8476 --num-processes 2 --process-id 0
    """

    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="RUN [RUN ...]", help_behavior_hint="")]
    """Names or folders of runs, experiments (the run that each defines, at --scale and --data), or globs."""
    scale: ScaleOption = None
    data: DataOption = None
    checkpoint: str = "last"
    """A step, last, all, or best (highest exact accuracy on the validation split)."""
    dataset: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Another dataset of the same encoding, or one dataset of a mixture (default: all datasets of the run)."""
    split: Annotated[
        Literal["train", "validation", "test"] | None,
        arg(metavar="{train,validation,test}", help_behavior_hint=""),
    ] = None
    """Split of the dataset (default: test, or validation if there is no test split)."""
    limit: int = 0
    """Maximum number of rows (0: all)."""
    subset_seed: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Seed that draws the rows of --limit; equal for every run on the split."""
    weights: Literal["ema", "raw"] = "ema"
    """Averaged or raw parameters."""
    steps: Annotated[str | None, arg(metavar="N[,N...]", help_behavior_hint="")] = None
    """Supervision steps of each row (default: the maximum of training); several numbers take one pass."""
    mode: Literal["max_steps", "halting"] = "max_steps"
    """max_steps: all steps for every row; halting: rows halt as in training."""
    precision: Annotated[
        Literal["float32", "bfloat16"] | None, arg(metavar="{float32,bfloat16}", help_behavior_hint="")
    ] = None
    """Compute precision (default: that of training)."""
    samples: Annotated[str | None, arg(metavar="K[,K...]", help_behavior_hint="")] = None
    """Answers of each row, with noise (default: one, without noise); several numbers take one pass."""
    noise: Annotated[float | None, arg(metavar="S", help_behavior_hint="")] = None
    """Standard deviation of the noise on the latent states before every supervision step (default: 0.3)."""
    select: Annotated[
        Literal["halt_logit", "mode", "first_halt", "residual", "rules"] | None,
        arg(metavar="{halt_logit,mode,first_halt,residual,rules}", help_behavior_hint=""),
    ] = None
    """Choice among samples: highest halting logit (default), most frequent, first to halt, smallest last change of the
    latent state, or legal by the puzzle's rules."""
    latent_init: Annotated[
        Literal["fixed", "random"], arg(metavar="{fixed,random}", help_behavior_hint="")
    ] = "fixed"
    """Initial latent states of samples: the run's (default), or drawn for each sample."""
    sample_seed: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Seed of the noise (default: 0)."""
    identifiers: Literal["own", "blank", "random"] = "own"
    """Puzzle identifiers of the rows: their own, blank, or random."""
    traces: int = 0
    """Number of rows with a trace: answer and halting logit after every cycle (table traces). An evaluation without it
    removes them."""
    latents: bool = False
    """Write the latent states with the traces (float16): states x positions x hidden size x 2 bytes each cycle."""
    processes: Annotated[ProcessOptions, arg(name="")] = field(default_factory=ProcessOptions)
    root: Root = None
    json: bool = False
    """Print JSON for machines."""

    def run(self) -> int:
        """Evaluate and print the results."""
        if not self.runs:
            raise EvalError("no run named (expected trm-eval run RUN; trm-train status lists them)")
        steps = _numbers("steps", self.steps)
        request = self._request(steps)
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        hosts = self.processes.join("trm-eval")
        with ending_at_once(), hosts.ending_alone():
            code = self._evaluate(request, steps, hosts)
            return int(hosts.barrier("the end", str(int(code)), limit_s=REPORTED_S)[0])

    def _evaluate(self, request: EvalRequest, steps: list[int], hosts: Hosts) -> int:
        from trm_train.runs.status import find_runs, is_pattern

        layout = resolve_root(self.root)
        try:
            found = find_runs(layout, self.runs, parse_setting(self.scale, self.data))
        except ConfigError as error:
            if there := sorted(set(self.runs) & set(layout.dataset_names())):
                raise EvalError(
                    f"{there[0]} is a dataset, not a run. Test a run on it: trm-eval run RUN --dataset {there[0]}"
                ) from error
            raise
        # Imports jax, so it comes after the names are checked.
        from trm_data.show.progress import terminal_progress
        from trm_eval.evaluation.flow import assist, evaluate_run

        alone = self.dataset is not None or len(_datasets_of(found[0])) == 1
        one = len(found) == 1 and alone and self.checkpoint != "all"
        results: list[EvalResult] = []
        skipped: list[LabError] = []
        code = Exit.DONE
        for run, checkpoint, dataset in self._wanted(found, hosts):
            asked = replace(request, checkpoint=checkpoint, dataset=dataset)
            if not hosts.is_coordinator:
                assist(layout, run, asked, hosts)
                continue
            try:
                with terminal_progress(quiet=self.json) as progress:
                    results.append(evaluate_run(layout, run, asked, progress, hosts))
            except LabError as error:
                if len(found) == 1 or hosts.count > 1 or not any(map(is_pattern, self.runs)):
                    raise
                skipped.append(error)
                print(f"trm-eval: skipped {run.name}: {error}", file=sys.stderr)
                continue
            if not self.json:
                code = max(code, _say(layout, results[-1], asked, steps, one=one))
        if skipped and not results:
            raise skipped[0]
        if any(not isinstance(error, ForeignRunError | NoCheckpointError) for error in skipped):
            code = max(code, Exit.FOUND)
        if self.json and hosts.is_coordinator:
            rows = [{"run": result.run, **result.row} for result in results]
            emit(rows[0] if len(rows) == 1 else rows, (), as_json=True)
        return code

    def _wanted(self, runs: list[Folder], hosts: Hosts) -> Iterator[tuple[Folder, str, str | None]]:
        """Yield every run, checkpoint and dataset to evaluate."""
        from trm_eval.evaluation.prepare import checkpoints_of

        hosts.prove_equal("runs to evaluate", {"runs": [run.name for run in runs]})
        # A run may save further checkpoints meanwhile, so all processes use the list of process 0.
        found = json.dumps(
            [checkpoints_of(run, self.checkpoint) for run in runs] if hosts.is_coordinator else []
        )
        for run, checkpoints in zip(runs, json.loads(hosts.barrier("checkpoints", found)[0]), strict=True):
            for checkpoint in checkpoints:
                for dataset in _datasets_of(run) if self.dataset is None else [self.dataset]:
                    yield run, checkpoint, dataset

    def _request(self, steps: list[int]) -> EvalRequest:
        """Return the request of the options, for the last checkpoint."""
        from trm_eval.identity import EvalRequest, Sampling

        of_samples = {"noise": self.noise, "selection": self.select, "seed": self.sample_seed}
        given: dict[str, Any] = {name: value for name, value in of_samples.items() if value is not None}
        if given and self.samples is None:
            raise EvalError("--noise, --select and --sample-seed: require --samples K")
        samples = _numbers("samples", self.samples)
        if len(steps) > 1 and self.mode == "halting":
            raise EvalError(
                "--steps N,N: several numbers need the same steps for every row. Leave out --mode halting, or give "
                "one number"
            )
        grid = bool(samples) and (len(steps) > 1 or len(samples) > 1)
        request = EvalRequest(
            dataset=self.dataset,
            split=self.split,
            limit=self.limit,
            subset_seed=self.subset_seed,
            weights=self.weights,
            supervision_steps=max(steps, default=None),
            mode=self.mode,
            sampling=Sampling(samples=max(samples), **given) if samples else None,
            precision=self.precision,
            latent_init=self.latent_init,
            depths=tuple(steps) if grid else (),
            identifiers=self.identifiers,
            traces=self.traces,
            latents=self.latents,
        )
        request.check()
        return request


def _datasets_of(run: Folder) -> list[str | None]:
    """Return the names of the datasets of a run's mixture; `[None]` for a run on one dataset."""
    from trm_train.runs.record import read_record

    try:
        return [each.dataset for each in read_record(run).mixture] or [None]
    except ConfigError:  # the evaluation reports the error
        return [None]


def _say(layout: Layout, result: EvalResult, request: EvalRequest, steps: list[int], *, one: bool) -> int:
    """Print the result of an evaluation; return the exit code."""
    from trm_eval.report.evaluation import (
        print_headline,
        print_report,
        print_scaling,
    )

    try:
        (print_report if one else print_headline)(layout, result)
        if len(steps) > 1 or request.sampling is not None:
            print_scaling(layout, result)
    except DataError as error:  # the result is written, but other files of the tables cannot be read
        print(result)
        print(f"trm-eval: written, but the tables cannot be read: {error}", file=sys.stderr)
        return Exit.FOUND
    return Exit.DONE


def _numbers(option: str, text: str | None) -> list[int]:
    """Parse numbers of steps or samples, sorted; return an empty list for None."""
    try:
        numbers = [] if text is None else sorted({int(part) for part in text.split(",")})
    except ValueError:
        numbers = [0]
    if numbers and numbers[0] < 1:
        raise EvalError(
            f"--{option}: got {text!r}; expected whole numbers of at least 1, separated by commas"
        )
    return numbers
