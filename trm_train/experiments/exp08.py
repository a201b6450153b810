"""Averaging of the parameters."""

from __future__ import annotations

from trm_train.experiments.claim import Better, best
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.setting import By
from trm_train.experiments.study import Study, tidy

STUDY = Study(
    name="exp08",
    guide=Guide(
        question="How much does averaging the parameters help, and over how many steps?",
        varies="the rate of the exponential moving average",
        fixed="all else of the baseline; the smaller scales have fewer steps and average over fewer",
        expected="without averaging clearly worse (the paper: 79.9% against 87.4%), 0.999 best",
        judge_by="exact accuracy against the steps averaged over, 1 / (1 - rate)",
        claims=(Better("exp08d", "exp08a", clearly=True), *best("exp08d", "exp08b", "exp08c", "exp08e")),
    ),
    quantity=Quantity("steps averaged over", "steps", lambda config: tidy(1 / (1 - config.optim.ema_rate))),
)

for letter, rate, laptop, tiny in (
    ("a", 0.0, 0.0, 0.0),
    ("b", 0.99, 0.98, 0.9),
    ("c", 0.995, 0.99, 0.95),
    ("d", 0.999, 0.998, 0.99),
    ("e", 0.9995, 0.999, 0.995),
):
    STUDY.add(
        f"exp08{letter}",
        lambda config: f"EMA {config.optim.ema_rate:g}" if config.optim.ema_rate else "no EMA",
        {"optim.ema_rate": By(rate, laptop, tiny)},
        alias_of="baseline" if letter == "d" else None,
    )
