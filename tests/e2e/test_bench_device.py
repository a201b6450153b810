"""The accelerator benchmark runs on a CPU, at a small size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT


@pytest.mark.integration
def test_it_measures_training_and_evaluation_of_each_network(tmp_path: Path) -> None:
    small = "--hidden 16 --batch 4 --mixer mlp_t --dtype float32 --product 64 --repeats 1"
    script, out = PROJECT / "benchmarks" / "bench_device.py", tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, script, *small.split(), "--json", out], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    found = {
        (each["name"], each["unit"]): each["median"] for each in json.loads(out.read_text())["measurements"]
    }
    case = "mlp_t, hidden 16, batch 4"
    for name, unit in (
        (f"train: {case}", "examples/s"),
        (f"train: {case}", "TFLOP/s"),
        (f"evaluate: {case}", "examples/s"),
    ):
        assert found[name, unit] > 0
    assert "microbatches 1" in done.stdout
