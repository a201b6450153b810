"""`trm-eval submission`: two attempts at every test input of ARC."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Json, Root, emit
from trm_data.storage.root import resolve_root
from trm_eval.errors import EvalError
from trm_train.commands.common import DataOption, ScaleOption
from trm_train.experiments.setting import parse_setting


@dataclass(frozen=True, kw_only=True)
class Submission:
    """Write a run's answers to ARC tasks in the competition's format: two attempts at each test input.

    The attempts are the two grids with the most votes over the augmentations of a test input, from the last evaluated
    checkpoint (trm-eval run). Tasks without solutions are answered but not scored.

    For example:

      trm-eval submission trm_arc1 --out submission.json
      trm-eval submission trm_arc1 --evaluation 0123456789abcdef,fedcba9876543210
      trm-eval submission trm_arc1 --dataset my-tasks
    """

    reference: Annotated[Positional[str], arg(metavar="RUN")]
    """A run's name or folder, or an experiment: the run that it defines (at --scale and --data, if given)."""
    scale: ScaleOption = None
    data: DataOption = None
    out: Annotated[str, arg(metavar="FILE")] = "submission.json"
    """File to write."""
    dataset: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Evaluated dataset outside the training data of the run (trm-eval run --dataset)."""
    evaluation: Annotated[str | None, arg(metavar="ID[,ID...]", help_behavior_hint="")] = None
    """Evaluation ids (trm-eval sql @evals); votes of several are counted together (default: the last checkpoint's)."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Write the submission and print its sources."""
        from trm_data.storage.atomic import write_bytes
        from trm_eval.submission import make_submission
        from trm_train.runs.record import find_run

        if self.evaluation is not None and self.dataset is not None:
            raise EvalError("--evaluation: not with --dataset. Leave one of them out")
        layout = resolve_root(self.root)
        run = find_run(layout, self.reference, parse_setting(self.scale, self.data))
        made = make_submission(
            layout,
            run.name,
            dataset=self.dataset,
            evaluations=() if self.evaluation is None else self.evaluation.split(","),
        )
        path = Path(self.out).expanduser()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, json.dumps(made.tasks).encode())
        except OSError as error:
            raise EvalError(f"--out {self.out}: cannot be written ({error})") from error
        inputs = sum(len(tests) for tests in made.tasks.values())
        said = [f"{path}: {len(made.tasks):,} tasks, {inputs:,} test inputs of {made.dataset} {made.split}"]
        checkpoints = ", ".join(f"{step:,}" for step in made.steps)
        said.append(f"  votes of {run.name} at step {checkpoints}, evaluation {', '.join(made.evaluations)}")
        if made.passed is not None:
            said.append(f"  pass@2 {100 * made.passed:.2f}%")
        if made.unscored:
            said.append(f"  {made.unscored:,} tasks have no solutions and are not scored")
        emit({"run": run.name, "file": path, **asdict(made)}, said, as_json=self.json)
        return 0
