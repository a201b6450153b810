"""Data scaling on mazes."""

from __future__ import annotations

from trm_train.config.run import RunConfig
from trm_train.experiments.claim import rising
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.recipes import maze_recipe
from trm_train.experiments.setting import Setting
from trm_train.experiments.study import Study, puzzles, puzzles_of

FULL = (Setting("full", "published"), Setting("full", "generated"))
NAMES = {"published": "hard", "generated": "generated"}


def mazes(setting: Setting, size: int = 1_000) -> str:
    """Return the name of the maze dataset of a setting."""
    return f"maze-30x30-{NAMES[setting.data]}-{size}-aug-7-rule"


def base(setting: Setting) -> RunConfig:
    """Return the published Maze run, on published or generated mazes."""
    return maze_recipe(mazes(setting))


STUDY = Study(
    name="data_maze",
    guide=Guide(
        question="How does exact accuracy grow with the number of training mazes?",
        varies="training mazes, each under the 8 symmetries and relabelled by the published rule",
        fixed="all else of trm_maze, the 65,104 steps too",
        expected="steep: 8 symmetries are few augmentations",
        judge_by="exact accuracy against mazes on the 1,000 test mazes",
        claims=rising("data_maze_100", "data_maze_250", "data_maze_500", "data_maze_1000"),
    ),
    base=base,
    settings=FULL,
    quantity=Quantity("training mazes", "mazes", puzzles_of),
)

for size in (100, 250, 500, 1_000):
    STUDY.add(
        f"data_maze_{size}",
        lambda config: f"{puzzles_of(config):,} mazes",
        change=puzzles(lambda setting, size=size: mazes(setting, size)),
    )
