"""Evaluation requests and their ids.

The id hashes everything that decides an evaluation's rows, so writing it again replaces it. What in the code decides
them stands in one number, which is raised on purpose: `tests/trm_eval/test_golden.py` fails when predictions change
and the number does not.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, Literal

from trm_data.loader.dataset import Dataset
from trm_data.specs import canonical_json
from trm_eval.errors import EvalError
from trm_eval.rollout.rows import Identifiers
from trm_eval.rollout.select import Selection
from trm_train.runs.record import RunRecord

EVALUATION_VERSION = 1
"""Raised whenever the same checkpoint, rows and request would give other predictions or scores."""

WhichWeights = Literal["ema", "raw"]
Precision = Literal["float32", "bfloat16"]
LatentInit = Literal["fixed", "random"]
Mode = Literal["max_steps", "halting"]
NOISE = 0.3
"""Standard deviation of the noise on samples (PTRM: Sghaier, Parviz and Jolicoeur-Martineau 2026)."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Several answers a row, of which one is chosen.

    Attributes:
        samples: Answers a row.
        noise: Standard deviation on the latent states, before each supervision step.
        selection: How one of them is chosen (`rollout.select.choices`).
        seed: Of the noise.
    """

    samples: int
    noise: float = NOISE
    selection: Selection = "halt_logit"
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """Learning from the training split before the other rows are answered.

    Attributes:
        minutes: Wall-clock time at most, compilation included (min); None for no such limit.
        steps: Training steps at most; None for no such limit.
        weights: Whether the network's weights move too; else its puzzle embeddings alone.
    """

    minutes: float | None = None
    steps: int | None = None
    weights: bool = False

    def check(self) -> None:
        """Refuse what has no end or no beginning."""
        if self.minutes is None and self.steps is None:
            raise EvalError("--adapt-weights: requires --adapt MINUTES or --adapt-steps N")
        if self.minutes is not None and not 0 < self.minutes < float("inf"):
            raise EvalError(f"--adapt: got {self.minutes:g}; expected more than 0 minutes")
        if self.steps is not None and self.steps < 1:
            raise EvalError(f"--adapt-steps: got {self.steps}; expected at least 1")


@dataclass(frozen=True, kw_only=True)
class EvalRequest:
    """What to evaluate.

    Attributes:
        checkpoint: A step, `last`, or `best` (highest exact accuracy on the validation split).
        dataset: Name of a dataset of the same encoding; None is the one the run learned from. Of a run that learned a
            mixture, the name of one of its datasets.
        split: None is test if there is one, else validation.
        limit: Rows at most; 0 is all.
        subset_seed: Draws those rows; None takes the first ones.
        weights: Averaged or raw parameters.
        supervision_steps: None is as many as training gives at most.
        mode: `max_steps` gives every row as many, `halting` lets a row halt before, as training does.
        sampling: None is one answer a row, without noise.
        identifiers: Puzzle identifiers of the rows: their own, the blank one, or another one at random.
        adaptation: What is learned from the training split before; None is nothing.
        traces: Rows, the first ones, whose every cycle is written too. They decide no prediction, so the id is the same
            with and without them.
        latents: Whether the traces hold the latent states.
        precision: What the network computes in; None is what it was trained in.
        latent_init: Where samples begin: the states of the run, or others drawn for each sample (`sampling`).
        depths: Supervision steps after which samples are scored too. They decide no prediction, so the id is the same.
    """

    checkpoint: str = "last"
    dataset: str | None = None
    split: str | None = None
    limit: int = 0
    subset_seed: int | None = None
    weights: WhichWeights = "ema"
    supervision_steps: int | None = None
    mode: Mode = "max_steps"
    sampling: Sampling | None = None
    identifiers: Identifiers = "own"
    adaptation: Adaptation | None = None
    traces: int = 0
    latents: bool = False
    precision: Precision | None = None
    latent_init: LatentInit = "fixed"
    depths: tuple[int, ...] = ()

    def check(self) -> None:
        """Refuse what cannot be asked for."""
        if self.limit < 0:
            raise EvalError(f"--limit: got {self.limit}; expected at least 0")
        if self.subset_seed is not None and (self.subset_seed < 0 or not self.limit):
            raise EvalError(
                f"--subset-seed {self.subset_seed}: a number from 0 on that draws --limit N rows; give both"
            )
        if self.adaptation is not None:
            self.adaptation.check()
        self._check_traces()
        if self.sampling is None:
            if self.latent_init != "fixed":
                raise EvalError(f"--latent-init {self.latent_init}: requires --samples K")
            return
        if self.mode != "max_steps":
            raise EvalError(f"--mode {self.mode}: not with --samples. Leave it out")
        if self.sampling.samples < 1:
            raise EvalError(f"--samples: got {self.sampling.samples}; expected at least 1")
        quiet = self.sampling.noise == 0 and self.latent_init == "random"
        if not (0 < self.sampling.noise < float("inf") or quiet):
            raise EvalError(
                f"--noise: above 0 (the paper's is {NOISE}), got {self.sampling.noise:g}; without noise all samples "
                "are the same: leave out --samples, or add --latent-init random"
            )

    def _check_traces(self) -> None:
        """Refuse traces that cannot be asked for."""
        if self.traces < 0:
            raise EvalError(f"--traces: rows, at least 0, got {self.traces}")
        if self.latents and not self.traces:
            raise EvalError("--latents: requires --traces N")
        if self.traces and (self.sampling is not None or self.mode != "max_steps"):
            raise EvalError(
                "--traces: needs one answer for each row with all steps. Leave out --samples and --mode"
            )


def evaluation_id(
    record: RunRecord, request: EvalRequest, step: int, supervision_steps: int, dataset: Dataset
) -> str:
    """Hash of everything that decides an evaluation's rows: the same evaluation replaces itself."""
    content: dict[str, Any] = {
        "run": record.run,
        "content_digest": record.content_digest,
        "step": step,
        "weights": request.weights,
        "supervision_steps": supervision_steps,
        "split": dataset.split,
        "split_digest": dataset.split_digest,
        "limit": request.limit,
        "evaluation_version": EVALUATION_VERSION,
    }
    if request.dataset is not None:
        content["dataset"] = dataset.content_digest
    for name in (
        "subset_seed",
        "mode",
        "sampling",
        "identifiers",
        "adaptation",
        "precision",
        "latent_init",
    ):  # what came later stands here where it is used
        if (value := getattr(request, name)) != getattr(EvalRequest, name):
            content[name] = asdict(value) if isinstance(value, Sampling | Adaptation) else value
    return hashlib.sha256(canonical_json(content)).hexdigest()[:16]
