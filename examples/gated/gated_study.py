"""Experiments of one's own: `trm-train run gated_6x6`, from this file or from an installed package."""

from dataclasses import replace

from trm_train.config.run import RunConfig
from trm_train.experiments.guide import Guide
from trm_train.experiments.quickstart import quickstart
from trm_train.experiments.registry import experiment


@experiment(
    Guide(
        question="Does adding the neighbour mix cells well enough for 6x6 Sudoku?",
        varies="the mixer: shift",
        fixed="all else of quickstart",
        expected="far below mlp_t",
        judge_by="exact accuracy of the test split",
    )
)
def gated_6x6() -> RunConfig:
    """The quickstart with another mixer."""
    config = quickstart()
    return replace(config, model=replace(config.model, mixer="shift"))
