"""`--dry-run` on simulated devices: memory compared with a device's, collectives, and a run that does not fit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trm_data.command import Exit
from trm_data.storage.root import Layout
from trm_train.errors import ConfigError
from trm_train.training.plan import device_bytes, simulate_devices

SMALL = str.split("--data.dataset small --model.hidden-size 16 --model.num-heads 2 --data.global-batch-size")


def train(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `trm-train run quickstart` in its own process, because the number of devices is set per process."""
    program = "import sys; from trm_train.cli import main; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, "run", "quickstart", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )


def test_a_dry_run_compiles_for_devices_that_are_not_here(small_layout: Layout) -> None:
    root = ["--root", small_layout.place, "--dry-run", "--json"]
    done = train(*SMALL, "16", *root, "--devices", "8", "--device", "v4", "--execution.model-parallel", "2")
    assert done.returncode == Exit.DONE, done.stderr
    plan = json.loads(done.stdout)
    assert plan["mesh"] == {"data": 4, "model": 2}
    assert plan["device_bytes"] == 32 * 2**30
    assert 0 < plan["peak_bytes"] < plan["device_bytes"]
    assert plan["fits"]
    sent = {(one["kind"], one["array"]) for one in plan["collectives"]}
    assert ("all-gather", "s32[16]") in sent
    assert {kind for kind, _ in sent} == {"all-gather", "all-reduce", "reduce-scatter"}


def test_where_no_device_says_what_it_holds_nothing_is_said_to_fit(small_layout: Layout) -> None:
    done = train(*SMALL, "16", "--root", small_layout.place, "--dry-run", "--json")
    assert done.returncode == Exit.DONE, done.stderr
    plan = json.loads(done.stdout)
    assert (plan["device_bytes"], plan["fits"]) == (None, None)


def test_a_step_that_does_not_fit_is_said_with_a_way_out(small_layout: Layout) -> None:
    large = [*SMALL, "40000000", "--root", small_layout.place, "--dry-run", "--device", "v5 lite"]
    done = train(*large, "--execution.micro-batches", "1")
    assert done.returncode == Exit.FOUND, done.stderr
    assert "GB a device, which holds 17.2 GB: too much; --execution.micro-batches N" in done.stdout
    done = train(*large)
    assert done.returncode == Exit.ERROR
    assert "does not fit into a device, even in 40000000 microbatches" in done.stderr


def test_devices_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"--devices 0: expected 1 to 4096"):
        simulate_devices(0)
    with pytest.raises(ConfigError, match=r"--device 'v99': expected one of TPU v4, "):
        device_bytes("v99")
    assert device_bytes("h200") == 141 * 10**9


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
