"""Evaluation requests and their ids.

The id is a hash of everything that determines an evaluation's rows, so repeating the evaluation replaces them. One
number represents the code that determines them, and is increased by hand. `tests/trm_eval/test_golden.py` fails if
predictions change and the number does not.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, Literal

from trm_data.loader.dataset import Dataset
from trm_data.specs import canonical_json
from trm_eval.errors import EvalError
from trm_eval.rollout import Identifiers, Selection
from trm_train.runs.record import RunRecord

EVALUATION_VERSION = 1
"""Must be increased when the same checkpoint, rows and request would give different predictions or scores."""

WhichWeights = Literal["ema", "raw"]
Precision = Literal["float32", "bfloat16"]
LatentInit = Literal["fixed", "random"]
Mode = Literal["max_steps", "halting"]
NOISE = 0.3
"""Default standard deviation of the noise on samples (PTRM: Sghaier, Parviz and Jolicoeur-Martineau 2026)."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Several answers per row, of which one is chosen.

    Attributes:
        samples: Number of answers per row.
        noise: Standard deviation of the noise on the latent states, before each supervision step.
        selection: Rule that chooses one answer (`rollout.choices`).
        seed: Seed of the noise.
    """

    samples: int
    noise: float = NOISE
    selection: Selection = "halt_logit"
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class EvalRequest:
    """Request for an evaluation.

    Attributes:
        checkpoint: A step, `last`, or `best` (highest exact accuracy on the validation split).
        dataset: Name of a dataset with the same encoding; None for the dataset of the run. For a run on a
            mixture, the name of one of its datasets.
        split: Name of the split; None for test if it exists, else validation.
        limit: Maximum number of rows; 0 for all.
        subset_seed: Seed that draws those rows; None for the first ones.
        weights: Averaged (`ema`) or raw parameters.
        supervision_steps: Number of supervision steps; None for the maximum of training.
        mode: `max_steps` gives every row the same number of steps; `halting` lets a row halt earlier, as in training.
        sampling: Options for several answers per row; None for one answer without noise.
        identifiers: Puzzle identifiers of the rows: their own, the blank one, or a random other one.
        traces: Number of rows, from the first, whose cycles are all written. They do not affect predictions, nor
            the id.
        latents: Whether the traces contain the latent states.
        precision: Compute dtype of the network; None for that of training.
        latent_init: Initial states of samples: those of the run, or drawn for each sample (`sampling`).
        depths: Additional supervision steps at which samples are scored. They do not affect predictions or the id.
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
    traces: int = 0
    latents: bool = False
    precision: Precision | None = None
    latent_init: LatentInit = "fixed"
    depths: tuple[int, ...] = ()

    def check(self) -> None:
        """Raise EvalError for invalid or conflicting fields."""
        if self.limit < 0:
            raise EvalError(f"--limit: got {self.limit}; expected at least 0")
        if self.subset_seed is not None and (self.subset_seed < 0 or not self.limit):
            raise EvalError(
                f"--subset-seed {self.subset_seed}: a number from 0 on that draws --limit N rows; give both"
            )
        if self.traces < 0:
            raise EvalError(f"--traces: rows, at least 0, got {self.traces}")
        if self.latents and not self.traces:
            raise EvalError("--latents: requires --traces N")
        if self.traces and (self.sampling is not None or self.mode != "max_steps"):
            raise EvalError(
                "--traces: needs one answer for each row with all steps. Leave out --samples and --mode"
            )
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


def evaluation_id(
    record: RunRecord, request: EvalRequest, step: int, supervision_steps: int, dataset: Dataset
) -> str:
    """Return the hash of everything that determines an evaluation's rows; the same evaluation replaces itself."""
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
        "precision",
        "latent_init",
    ):  # later fields are included only if they differ from the default
        if (value := getattr(request, name)) != getattr(EvalRequest, name):
            content[name] = asdict(value) if isinstance(value, Sampling) else value
    return hashlib.sha256(canonical_json(content)).hexdigest()[:16]
