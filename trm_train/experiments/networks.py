"""Seven networks at the same training FLOPs: TRM, its variants, and other networks for comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from trm_train.config.model import ARCHITECTURES
from trm_train.config.run import RunConfig
from trm_train.experiments.claim import Better
from trm_train.experiments.guide import Guide
from trm_train.experiments.setting import By, Scale, Setting, at
from trm_train.experiments.study import Study

STUDY = Study(
    name="networks",
    guide=Guide(
        question="Which network solves the most Sudoku at the same training FLOPs?",
        varies="the network; the number of training steps makes their FLOPs equal",
        fixed="data, batch, width, optimizer and rates of the baseline, tuned for none of the others",
        expected="mlp_t first, as in the paper's tables 1 and 2 (87.4%; two networks 82.4%, multi-scale z 77.6%, "
        "attention 74.7%, single z 71.9%, HRM 55.0%), though there at equal steps and at 9x9",
        judge_by="exact accuracy of the test split over seeds",
        claims=tuple(
            Better("network_mlp_t", f"network_{name}")
            for name in ("attention", "two_networks", "multi_scale", "single_z", "hrm", "transformer")
        ),
    ),
)

BASELINE_STEPS = By(8_138, 8_000, 1_000)
ATTENTION_STEPS = By(7_299, 8_333, 1_399)

SAME_RUN: dict[str, str | dict[Scale | Setting, str]] = {
    "mlp_t": "baseline",
    "two_networks": {"laptop": "paper_two_networks", "tiny": "paper_two_networks"},
    "multi_scale": {"laptop": "paper_multi_scale", "tiny": "paper_multi_scale"},
    "single_z": {"laptop": "paper_single_z", "tiny": "paper_single_z"},
}
"""Experiments with the same run, at all or at some scales."""


def add(
    name: str, what: str, fields: Mapping[str, Any], steps: By = BASELINE_STEPS, architecture: str = "trm"
) -> None:
    """Register a network.

    Args:
        name: Name of the network.
        what: Short description of the network, for display.
        fields: Options of the model.
        steps: Training steps that give the training FLOPs of the baseline within 2%; a test checks this.
        architecture: Architecture of the network.
    """

    def change(config: RunConfig, setting: Setting) -> RunConfig:
        model = ARCHITECTURES.choose(config.model, architecture)
        values = {key: at(value, setting.scale) for key, value in fields.items()}
        model = dataclasses.replace(model, **values)
        return dataclasses.replace(config, model=model, total_steps=at(steps, setting.scale))

    STUDY.add(f"network_{name}", what, change=change, alias_of=SAME_RUN.get(name))


add("mlp_t", "TRM, mlp_t", {})
add(
    "attention",
    "TRM, attention with rotary positions",
    {"mixer": "attention", "pos_encodings": "rope"},
    ATTENTION_STEPS,
)
add("two_networks", "TRM, a network of its own for z_H", {"networks": 2})
add("multi_scale", "TRM, one z_L for each L cycle", {"multi_scale": True})
add("single_z", "a single state", {}, architecture="single_z")
add(
    "hrm",
    "HRM, H 2, L 2, four layers each",
    {"h_cycles": 2, "l_cycles": 2},
    By(9_485, 3_126, 1_530),
    architecture="hrm",
)
add(
    "transformer",
    "a transformer of eight layers",
    {"num_heads": By(12, 8, 4)},
    By(25_420, 8_495, 4_077),
    architecture="transformer",
)
