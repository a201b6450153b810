"""Two hosts of a TPU train a run on a bucket, are preempted, recreated, and finish it."""

from __future__ import annotations

import json
import re
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.conftest import PROJECT, run_here
from tests.gcs.server import GcsServer
from tests.multiprocess.processes import RUN, TRAIN, free_address
from tests.support.roots import copy_root
from tests.trm_train.launch.conftest import Cloud, cloud, server
from trm_data.storage.root import Layout, resolve_root
from trm_train.cli import main
from trm_train.runs.status import overview

__all__ = ["cloud", "server"]

URL = "gs://bucket/trm"
HOST = f"""
here="$(cd "$(dirname "$0")/../.." && pwd)"
echo "trm-train of $here"
PYTHONPATH="$here" JAX_PLATFORMS=cpu exec {sys.executable} -W ignore -c "{TRAIN}" "$@"
"""
"""The command of a host, which runs the code of its installed commit."""
OPTIONS = ["--total-steps", "160", "--execution.checkpoint-every", "20", "--execution.log-every", "5"]


def take_away_after_a_checkpoint(server: GcsServer, sign: Path) -> None:
    """Wait until a checkpoint on the bucket is complete, then allow the preemption."""
    end = time.monotonic() + 200
    while time.monotonic() < end:
        if any(
            re.search(r"checkpoints/resume/\d+/commit_success\.txt$", name) for name in server.names("bucket")
        ):
            sign.touch()
            return
        time.sleep(0.05)


@pytest.mark.slow
def test_a_pre_empted_run_of_two_hosts_is_finished(
    cloud: Cloud, server: GcsServer, small_layout: Layout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRM_CACHE", str(tmp_path / "cache"))
    copy_root(small_layout, resolve_root(URL), "datasets/small")
    for package in ("trm_data", "trm_train", "trm_eval", "catalogs"):
        shutil.copytree(PROJECT / package, cloud.repository / package)
    cloud.set("coordinator", free_address())
    sign = cloud.folder / "now"
    cloud.set("preempt", f"{sign}\n")
    watcher = threading.Thread(target=take_away_after_a_checkpoint, args=(server, sign))
    watcher.start()
    words = f"--repository {cloud.repository} --commit {cloud.commit(HOST)} --look-s 0.5 --json".split()
    where = ["--root", URL, "--accelerator", "v4-16", "--spot", "--delete"]
    done = run_here(main, "launch", *RUN, *OPTIONS, *where, *words)
    watcher.join()
    assert done.returncode == 0, done.stderr[-5000:]
    (outcome,) = json.loads(done.stdout)
    assert (outcome["state"], outcome["restarts"]) == ("done", 1)
    (run,) = overview(resolve_root(URL))
    assert run.condition == "done"
    (began,) = re.findall(r"resumes from step (\d+)", done.stderr)  # the first start had none to resume from
    assert 0 < int(began) < 160
    assert int(began) % 20 == 0
    assert run.status is not None
    assert (run.status.step, run.status.workers) == (160, 2)
