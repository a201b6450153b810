"""`--dry-run` on simulated devices, with its collectives, and a run that does not fit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from trm_data.errors import Exit
from trm_data.storage.root import Layout

SMALL = str.split("--data.dataset small --model.hidden-size 16 --model.num-heads 2 --data.global-batch-size")


def train(*arguments: str, devices: int = 1) -> subprocess.CompletedProcess[str]:
    """Run `trm-train run quickstart` in its own process, because the number of devices is set per process."""
    program = "import sys; from trm_train.cli import main; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, "run", "quickstart", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)},
    )


def test_a_dry_run_compiles_for_devices_that_are_not_here(small_layout: Layout) -> None:
    root = ["--root", small_layout.place, "--dry-run", "--json"]
    done = train(*SMALL, "16", *root, "--execution.model-parallel", "2", devices=8)
    assert done.returncode == Exit.DONE, done.stderr
    plan = json.loads(done.stdout)
    assert plan["mesh"] == {"data": 4, "model": 2}
    assert plan["peak_bytes"] > 0
    assert (plan["device_bytes"], plan["fits"]) == (None, None)
    sent = {(one["kind"], one["array"]) for one in plan["collectives"]}
    assert ("all-gather", "s32[16]") in sent
    assert {kind for kind, _ in sent} == {"all-gather", "all-reduce", "reduce-scatter"}


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
from trm_train.cli import main
main(sys.argv[1:])
"""


def test_a_run_that_the_devices_cannot_hold_says_what_takes_less(
    small_layout: Layout, tmp_path: Path
) -> None:
    shutil.copytree(small_layout.dataset("small").here, tmp_path / "datasets" / "small")
    wide = ["--data.dataset", "small", "--model.hidden-size", "1024", "--data.global-batch-size", "200000"]
    arguments = ["run", "quickstart", *wide, "--root", str(tmp_path), "--tracking", "none"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LIMITED, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == Exit.ERROR, done.stderr
    assert "Traceback" not in done.stderr
    assert "the devices cannot hold this run" in done.stderr
    assert "Out of memory allocating" in done.stderr
    assert "--execution.micro-batches N, --execution.rematerialise" in done.stderr
