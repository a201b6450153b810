"""Deep recursion with rematerialisation: less memory, more time."""

from __future__ import annotations

from trm_train.experiments.claim import Alike
from trm_train.experiments.guide import Guide
from trm_train.experiments.setting import By
from trm_train.experiments.study import Study

STUDY = Study(
    name="contrib03",
    guide=Guide(
        question="How deep may the recursion be, if states are computed again instead of kept?",
        varies="L cycles, with rematerialisation",
        fixed="all else of the baseline; half of the cycles at the scale laptop; where the mathematics "
        "is that of another experiment, it is that run",
        expected="memory that hardly grows with L (`--dry-run` says it); accuracy as in exp02a, then flat",
        judge_by="memory and time of a step: `--dry-run` of each, and benchmarks/bench_memory.py; a run that is shared "
        "may have been trained without rematerialisation, under the other name; exact accuracy",
        claims=(Alike("contrib03_L24", "contrib03_L12"),),
    ),
)

for cycles, same in ((6, "baseline"), (12, "exp02a_06"), (24, None)):
    STUDY.add(
        f"contrib03_L{cycles:02d}",
        lambda config: f"L {config.model.l_cycles}",
        {"model.l_cycles": By(cycles, cycles // 2, cycles), "execution.rematerialise": True},
        alias_of=same,
    )
