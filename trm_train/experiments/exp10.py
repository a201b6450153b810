"""Learning rate and its schedule."""

from __future__ import annotations

import dataclasses
from typing import Any

from trm_train.config.run import RunConfig
from trm_train.experiments.claim import Better
from trm_train.experiments.guide import Guide
from trm_train.experiments.study import Change, Study, tidy

STUDY = Study(
    name="exp10",
    guide=Guide(
        question="Which learning rate, and should it decay?",
        varies="both learning rates and what they decay to",
        fixed="all else of the baseline; the smaller scales have higher rates, varied in the same proportion, and the "
        "baseline of the scale laptop decays to 0",
        expected="a third of the rate too slow; three times fast but worse in the end; a decay helps a little",
        judge_by="exact accuracy at the end, and its curve over the validations",
        claims=(
            Better("exp10b", "exp10a"),
            Better("exp10b", "exp10c"),
            Better("exp10d", "exp10b"),
            Better("exp10e", "exp10b"),
        ),
    ),
)


def rates(factor: float, min_ratio: float) -> Change:
    """Return a change that multiplies the rates by a factor and sets their cosine decay to a share of the result."""

    def change(config: RunConfig, _: object) -> RunConfig:
        optim = config.optim
        changed: Any = {
            "lr": tidy(optim.lr * factor),
            "puzzle_emb_lr": tidy(optim.puzzle_emb_lr * factor),
            "lr_min_ratio": min_ratio,
        }
        return dataclasses.replace(config, optim=dataclasses.replace(optim, **changed))

    return change


def said(config: RunConfig) -> str:
    """Return the rate and its decay, for display."""
    to = config.optim.lr_min_ratio
    return f"{config.optim.lr:g}, " + ("constant" if to == 1.0 else f"to {to:g} of it in a cosine")


for letter, rate, min_ratio in (
    ("a", 3e-5, 1.0),
    ("b", 1e-4, 1.0),
    ("c", 3e-4, 1.0),
    ("d", 1e-4, 0.1),
    ("e", 1e-4, 0.01),
):
    STUDY.add(
        f"exp10{letter}",
        said,
        change=rates(tidy(rate / 1e-4), min_ratio),
        alias_of={"full": "baseline", "tiny": "baseline"} if letter == "b" else None,
    )
