"""Attention that is limited to near cells."""

from __future__ import annotations

from trm_train.config.run import RunConfig
from trm_train.experiments.baseline import baseline
from trm_train.experiments.claim import NoWorse
from trm_train.experiments.guide import Guide
from trm_train.experiments.networks import ATTENTION_STEPS
from trm_train.experiments.setting import Setting
from trm_train.experiments.study import Study, override


def attention(setting: Setting) -> RunConfig:
    """Return the base of the group: attention to all cells."""
    fields = {"model.mixer": "attention", "model.pos_encodings": "rope", "total_steps": ATTENTION_STEPS}
    return override(baseline(setting), fields, setting.scale)


STUDY = Study(
    name="contrib05",
    base=attention,
    guide=Guide(
        question="Is attention to near cells enough, since the recursion carries what they know over the grid?",
        varies="the distance that cells see: a square of 2R + 1 cells a side, and the puzzle positions",
        fixed="all else of network_attention: rotary positions, data, batch, width, rates and steps of training; "
        "a window has fewer FLOPs",
        expected="not known; a wider window should not be worse than a narrow one",
        judge_by="exact accuracy of the test split over seeds, and the time of a step",
        claims=(
            NoWorse("contrib05_window_2", "contrib05_window_1"),
            NoWorse("contrib05_window_2", "contrib05_attention"),
        ),
    ),
)

STUDY.add("contrib05_attention", "all cells", alias_of="network_attention")
for distance in (1, 2):
    STUDY.add(
        f"contrib05_window_{distance}",
        f"R {distance}: {2 * distance + 1}x{2 * distance + 1} cells",
        {"model.mixer": "window", "model.window": distance},
    )
