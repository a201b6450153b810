"""The optimizer of the network."""

from __future__ import annotations

import dataclasses

from trm_train.config.optim import OPTIMIZERS
from trm_train.config.run import RunConfig
from trm_train.experiments.claim import Alike, Better
from trm_train.experiments.guide import Guide
from trm_train.experiments.study import Change, Study

STUDY = Study(
    name="exp09",
    guide=Guide(
        question="Does the optimizer matter?",
        varies="the optimizer of the network and its betas",
        fixed="all else of the baseline: rates, decay and the puzzle embedding's sign-SGD; no rate is tuned for any of "
        "them, and Lion's steps are as long as AdamATan2's longest",
        expected="AdamW much like AdamATan2, a second beta of 0.999 slower to adapt; Lion worse at this rate",
        judge_by="exact accuracy, and how smoothly the loss falls",
        claims=(Alike("exp09b", "exp09a"), Better("exp09a", "exp09e")),
    ),
)


def optimizer(name: str, beta1: float, beta2: float) -> Change:
    """Return a change of optimizer and betas; common options keep their values."""

    def change(config: RunConfig, _: object) -> RunConfig:
        chosen = OPTIMIZERS.choose(config.optim, name)
        betas: dict[str, float] = {"beta1": beta1, "beta2": beta2}
        return dataclasses.replace(config, optim=dataclasses.replace(chosen, **betas))  # pyright: ignore[reportArgumentType]

    return change


for letter, name, title, beta2 in (
    ("a", "adam_atan2", "AdamATan2", 0.95),
    ("b", "adamw", "AdamW", 0.95),
    ("c", "adamw", "AdamW", 0.99),
    ("d", "adamw", "AdamW", 0.999),
    ("e", "lion", "Lion", 0.99),
):
    STUDY.add(
        f"exp09{letter}",
        f"{title} (0.9, {beta2:g})",
        change=optimizer(name, 0.9, beta2),
        alias_of="baseline" if letter == "a" else None,
    )
