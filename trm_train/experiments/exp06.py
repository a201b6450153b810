"""Batch size, at an equal number of loaded rows."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from trm_train.config.run import RunConfig
from trm_train.experiments.baseline import BATCH
from trm_train.experiments.claim import Alike, Better
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.setting import Setting
from trm_train.experiments.study import Study, tidy

STUDY = Study(
    name="exp06",
    guide=Guide(
        question="How large may the batch be before learning suffers?",
        varies="the global batch",
        fixed="all else of the baseline, slots times steps too: steps and warm-up shrink as the batch grows, both "
        "rates grow with its root; the largest two are computed in micro-batches, which changes nothing but memory. "
        "The rate of the EMA is fixed too: after the fewest steps, 1,017, the weights of the start still make up 36% "
        "of the average (0.999^1,017; of the baseline 0.03%)",
        expected="the same up to some 12,288, then less: too few optimizer steps",
        judge_by="exact accuracy against the batch, of the raw weights too (`trm-eval run exp06_f --weights raw`), and "
        "wall-clock time on the pod",
        claims=(Alike("exp06_d", "exp06_a"), Better("exp06_d", "exp06_f")),
    ),
    quantity=Quantity("global batch", "slots", lambda config: config.data.global_batch_size),
)

PIECES = {24_576: 2, 49_152: 4}
"""Microbatches of the largest batches, which only the scale full has."""


def times(factor: float, config: RunConfig, setting: Setting) -> RunConfig:
    """Return the baseline with a batch size multiplied by `factor`, at the same number of rows."""
    batch = round(config.data.global_batch_size * factor)
    steps = round(config.total_steps / factor)
    root = math.sqrt(factor)
    rates: Any = {
        "lr": tidy(config.optim.lr * root),
        "puzzle_emb_lr": tidy(config.optim.puzzle_emb_lr * root),
        "lr_warmup_steps": round(config.optim.lr_warmup_steps / factor),
    }
    execution = dataclasses.replace(
        config.execution,
        validate_every=max(steps // 10, 1),
        micro_batches=PIECES.get(batch, "auto"),
    )
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, global_batch_size=batch),
        optim=dataclasses.replace(config.optim, **rates),
        total_steps=steps,
        execution=execution,
    )


for letter, batch in zip("abcdef", (1_536, 3_072, 6_144, 12_288, 24_576, 49_152), strict=True):
    share = batch / BATCH
    STUDY.add(
        f"exp06_{letter}",
        lambda config, share=share: f"{config.data.global_batch_size:,} slots, {share:g} times the baseline",
        change=lambda config, setting, share=share: times(share, config, setting),
        alias_of="baseline" if batch == BATCH else None,
    )
