"""Precision of the computation."""

from __future__ import annotations

from trm_train.experiments.claim import NoWorse
from trm_train.experiments.guide import Guide
from trm_train.experiments.study import Study

STUDY = Study(
    name="exp07",
    guide=Guide(
        question="Does the precision of the computation matter?",
        varies="the compute dtype; parameters are float32 always",
        fixed="all else of the baseline, which is bfloat16 at the scale full and float32 at the others",
        expected="bfloat16 as good as float32; float16 with its loss scale as good, or stopped by an overflow in the "
        "forward pass",
        judge_by="exact accuracy, and steps that were skipped (the log says which)",
        claims=(NoWorse("exp07b", "exp07a"), NoWorse("exp07c", "exp07a")),
    ),
)

for letter, dtype in (("a", "float32"), ("b", "bfloat16"), ("c", "float16")):
    STUDY.add(
        f"exp07{letter}",
        dtype,
        {"model.forward_dtype": dtype},
        alias_of={
            "a": {"laptop": "baseline", "tiny": "baseline"},
            "b": {"full": "baseline"},
        }.get(letter),  # pyright: ignore[reportArgumentType]
    )
