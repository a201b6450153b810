"""Small networks compiled for a TPU v4-64 and an H100 with their own compilers, if these are installed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from trm_train.errors import ConfigError
from trm_train.targets.catalog import check_packages, find_target

pytestmark = pytest.mark.integration
SMALL = ["--model.hidden-size", "128", "--model.num-heads", "2", "--model.num-layers", "1"]


def plan_for(target: str, experiment: str, *more: str) -> dict[str, Any]:
    """Return the output of `--dry-run --target`; skip without the compiler."""
    try:
        check_packages(find_target(target))
    except ConfigError as error:
        pytest.skip(str(error))
    words = f"-m trm_train run {experiment} --dry-run --json --target {target}".split()
    done = subprocess.run(
        [sys.executable, *words, *more], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_small_network_compiles_for_a_v4_64() -> None:
    plan = plan_for("v4-64", "exp01c", *SMALL, "--data.global-batch-size", "256")
    found = plan["estimate"]
    assert (found["source"], found["devices"], found["processes"]) == ("compiler estimate", 32, 8)
    assert plan["mesh"] == {"data": 32, "model": 1}
    assert 0 < plan["peak_bytes"] < 1e9 < plan["device_bytes"]
    assert plan["fits"]
    assert found["cycles"] > 0
    assert found["run_hours"] == pytest.approx(found["step_s"] * plan["total_steps"] / 3600)
    assert found["products_without_estimate"] == found["loops_without_bound"] == 0
    # Neither the carry [B, L, D] nor the puzzle table [R, N] is gathered.
    gathered = [one["array"] for one in plan["collectives"] if one["kind"] == "all-gather"]
    assert not any("97" in array or "[128," in array for array in gathered), gathered


def test_more_microbatches_are_estimated_at_the_slots_they_have() -> None:
    once = plan_for("v4-64", "exp06_a", *SMALL, "--data.global-batch-size", "1024")
    twice = plan_for(
        "v4-64", "exp06_a", *SMALL, "--data.global-batch-size", "2048", "--execution.micro-batches", "2"
    )
    ratio = twice["estimate"]["cycles"] / once["estimate"]["cycles"]
    assert 1.7 < ratio < 2.3


def test_a_small_network_compiles_for_an_h100() -> None:
    plan = plan_for("h100", "trm_maze", *SMALL, "--data.global-batch-size", "16")
    found = plan["estimate"]
    assert plan["fits"]
    assert found["cycles"] is None
    assert found["moved_bytes"]["attention"] > 0, "cuDNN's fused attention"
    assert found["moved_bytes"]["matrix products"] > 0


def test_splash_attention_compiles_for_all_chips_in_training_and_evaluation() -> None:
    plan = plan_for("v4-64", "trm_maze", *SMALL, "--data.global-batch-size", "64")
    found = plan["estimate"]
    assert plan["mesh"] == {"data": 32, "model": 1}
    assert found["kernels_without_estimate"], "splash attention has no estimate"
    assert 0 < found["evaluation_bytes"] < 4e9
