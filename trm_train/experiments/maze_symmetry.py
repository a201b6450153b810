"""Augmentation of mazes: comparison of labels moved with their maze and labels by the published rule."""

from __future__ import annotations

import dataclasses

from trm_train.config.run import RunConfig
from trm_train.experiments.claim import Better
from trm_train.experiments.guide import Guide
from trm_train.experiments.quickstart import quickstart
from trm_train.experiments.setting import Setting
from trm_train.experiments.study import Study, puzzles

STEPS = 3_000


def base(_: Setting) -> RunConfig:
    """Return the configuration of the quickstart with 3,000 steps."""
    return dataclasses.replace(quickstart(), total_steps=STEPS)


STUDY = Study(
    name="maze_symmetry",
    guide=Guide(
        question="What are the 8 symmetries of a maze worth, where labels move with it and where the rule sets them?",
        varies="how the training mazes are augmented and labelled",
        fixed="8x8 mazes with paths of at least 14 steps, the quickstart's network (mlp_t, width 96), 3,000 steps of "
        "32 mazes, 1,000 test mazes labelled by the rule",
        expected="moved labels contradict each other (13% of the images of 30x30 mazes, 39% of 8x8 keep the rule), so "
        "they should do worse than none; by the rule, 2,500 mazes should come closer to 20,000",
        judge_by="exact accuracy and the share of shortest paths (`optimal_share`) of several seeds: `trm-train "
        "batch maze_symmetry --seeds 0,1,2,3`, then `trm-eval report maze_symmetry`; runs without augmentation "
        "differ by 10 points (standard deviation over 12 seeds), so two seeds are too few",
        cost="about 8 minutes a run on two CPU cores; 20 s on an H100 that four runs share",
        claims=(
            Better("maze_symmetry_none", "maze_symmetry_moved"),
            Better("maze_symmetry_rule", "maze_symmetry_moved", clearly=True),
            Better("maze_symmetry_rule", "maze_symmetry_none"),
            Better("maze_symmetry_more", "maze_symmetry_none", clearly=True),
        ),
    ),
    base=base,
    settings=(Setting("tiny", "generated"),),
)

for name, what, dataset in (
    ("none", "2,500 mazes", "maze-8x8-generated-2500-aug-0-min-path-14"),
    (
        "moved",
        "2,500 mazes under the 8 symmetries, labels moved",
        "maze-8x8-generated-2500-aug-7-min-path-14",
    ),
    (
        "rule",
        "2,500 mazes under the 8 symmetries, by the rule",
        "maze-8x8-generated-2500-aug-7-min-path-14-rule",
    ),
    ("more", "20,000 mazes", "maze-8x8-generated-20000-aug-0-min-path-14"),
):
    STUDY.add(f"maze_symmetry_{name}", what, change=puzzles(lambda _, dataset=dataset: dataset))
