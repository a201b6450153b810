"""One network for two kinds of puzzle: a mixture of Sudoku and mazes, and a network for each as control."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from trm_train.config.data import DataConfig, MixtureConfig
from trm_train.config.run import RunConfig
from trm_train.experiments.baseline import baseline
from trm_train.experiments.guide import Guide
from trm_train.experiments.setting import By, Setting, at, sudoku
from trm_train.experiments.study import Change, Study, override

NETWORK = {
    "model.mixer": By("attention", "mlp_t", "mlp_t"),
    "model.pos_encodings": By("rope", "none", "none"),
}
"""Mixer and positions by scale. At the scale full, rows have 900 cells, which are too many for mlp_t."""


def base(setting: Setting) -> RunConfig:
    """Return the baseline, with attention at the scale full."""
    return override(baseline(setting), NETWORK, setting.scale)


def mazes(setting: Setting) -> str:
    """Return the name of the maze dataset of a setting; labels move with augmented mazes, as in the existing runs."""
    full = f"maze-30x30-{'hard' if setting.data == 'published' else 'generated'}-1000-aug-7"
    return at(By(full, "maze-9x9-generated-1000-aug-7", "maze-6x6-generated-10000-aug-0"), setting.scale)


def sudokus(setting: Setting) -> str:
    """Return the name of the Sudoku dataset of a setting; the scale tiny has no augmentation, as for mazes."""
    return sudoku(setting, By(1_000, 1_000, 10_000), By(1_000, 1_000, 0))


def learning(*names: Callable[[Setting], str]) -> Change:
    """Return a change that trains on datasets in equal shares, each with as many rows as the base has in total."""

    def change(config: RunConfig, setting: Setting) -> RunConfig:
        slots, chosen = config.data.global_batch_size, [name(setting) for name in names]
        return dataclasses.replace(
            config, data=_rows(chosen, slots), total_steps=len(chosen) * config.total_steps
        )

    return change


def _rows(names: Sequence[str], slots: int) -> DataConfig | MixtureConfig:
    if len(names) == 1:
        return DataConfig(dataset=names[0], global_batch_size=slots)
    weights = (1.0,) * len(names)
    return MixtureConfig(datasets=tuple(names), weights=weights, global_batch_size=slots)


STUDY = Study(
    name="contrib06",
    guide=Guide(
        question="Does one network that learns two kinds of puzzle solve each as well as a network for each?",
        varies="the kinds: Sudoku, mazes, or both in equal shares",
        fixed="all else of the baseline, with attention and rotary positions at the scale full; the mixture has twice "
        "the steps at the same batch, so that each kind has as many slots as in the network of its own",
        expected="not known; the mixture may lose a little of each, for it has as many parameters as each control",
        judge_by="`trm-eval run contrib06_mixture`, which tests both datasets, against the tests of the controls: the "
        "difference of exact accuracies on each split, with its interval (`trm-eval compare`)",
    ),
    base=base,
)

STUDY.add("contrib06_mixture", "Sudoku and mazes", change=learning(sudokus, mazes))
STUDY.add("contrib06_sudoku", "Sudoku alone", change=learning(sudokus), alias_of={"laptop": "baseline"})
STUDY.add("contrib06_maze", "mazes alone", change=learning(mazes))
