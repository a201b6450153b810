"""The study of networks and the paper's ablations: equal FLOPs, and unchanged names of earlier runs."""

from __future__ import annotations

import pytest

from trm_train.config.run import InputSpec
from trm_train.cost import cost_of
from trm_train.experiments.registry import find_experiment, load_experiments
from trm_train.experiments.setting import parse_setting
from trm_train.runs.record import run_name

CELLS = {"full": (81, 11), "laptop": (81, 11), "tiny": (36, 8)}
NAMES = ("attention", "two_networks", "multi_scale", "single_z", "hrm", "transformer")


@pytest.mark.parametrize("scale", CELLS)
@pytest.mark.parametrize("name", NAMES)
def test_networks_are_trained_with_the_operations_of_the_baseline(name: str, scale: str) -> None:
    setting = parse_setting(scale, None)
    cells, vocabulary = CELLS[scale]
    spec = InputSpec(sequence_length=cells, vocabulary_size=vocabulary, num_identifiers=1)
    costs = [cost_of(find_experiment(each).make(setting), spec) for each in ("baseline", f"network_{name}")]
    assert costs[0] is not None
    assert costs[1] is not None
    assert costs[1].training_flops == pytest.approx(costs[0].training_flops, rel=0.02)


def test_ablations_keep_their_run_names_and_have_every_scale() -> None:
    expected = {
        "paper_no_ema": "paper_no_ema-ba4e4b63-s0",
        "paper_four_layers": "paper_four_layers-063f6b48-s0",
        "paper_less_recursion": "paper_less_recursion-6850ffd9-s0",
        "paper_continue_loss": "paper_continue_loss-1d594247-s0",
    }
    for name in expected:
        assert run_name(name, find_experiment(name).make()) == expected[name]
    ablations = [item for name, item in load_experiments().items() if name.startswith("paper_")]
    assert len(ablations) == 13
    for item in ablations:
        assert {setting.scale for setting in item.settings} == {"full", "laptop", "tiny"}
