"""The Slurm script in docs/buckets-and-hosts.md: its tasks train one run, and it is requeued after a loss."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.multiprocess.processes import RUN
from tests.trm_train.launch.conftest import Cloud, script
from trm_data.storage.root import resolve_root
from trm_train.runs.status import find_runs, read_status

FIRST_PORT = 61440
"""Base of jax's port under Slurm; the port is this plus the job number modulo 4,096."""


def submit(cloud: Cloud, program: str, monkeypatch: pytest.MonkeyPatch, **changed: str) -> tuple[int, str]:
    """Submit the script of the page with some words replaced, from a home with a checkout; return exit code and log."""
    page = (PROJECT / "docs" / "buckets-and-hosts.md").read_text("utf-8")
    (text,) = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    for word, instead in {"--ntasks-per-node=4": "--ntasks-per-node=1", **changed}.items():
        assert word in text
        text = text.replace(word, instead)
    home = cloud.folder / "home"
    (home / "trm-lab" / ".venv" / "bin").mkdir(parents=True)
    script(home / "trm-lab" / ".venv" / "bin" / "trm-train", program)
    (cloud.folder / "job.sh").write_text(text)
    monkeypatch.setenv("HOME", str(home))
    done = subprocess.run(["sbatch", "job.sh"], cwd=cloud.folder, capture_output=True, text=True, timeout=600)
    return done.returncode, (cloud.folder / "exp01c.log").read_text()


def test_its_tasks_train_one_run(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        job = next(job for job in range(1, 4096) if free.connect_ex(("localhost", FIRST_PORT + job)))
    monkeypatch.setenv("FAKE_JOB", str(job))
    program = f'#!/bin/sh\nexec {Path(sys.executable).parent / "trm-train"} "$@"\n'
    words = shlex.join([*RUN[1:], "--total-steps", "4"])
    changed = {"exp01c --root /shared/trm": f"{words} --root {cloud.root}"}
    code, log = submit(cloud, program, monkeypatch, **changed)
    assert (code, "2 of 2 processes joined" in log) == (0, True), log
    (run,) = find_runs(resolve_root(str(cloud.root)), ["quickstart"])
    status = read_status(run)
    assert status is not None
    assert (status.state, status.step) == ("finished", 4)


def test_a_job_that_loses_its_bucket_is_queued_again_and_one_that_fails_is_not(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = '#!/bin/sh\necho x >> "$FAKE_CLOUD/tries"; [ $(wc -l < "$FAKE_CLOUD/tries") -gt 2 ] && exit 3; exit 4\n'
    code, _ = submit(cloud, program, monkeypatch)
    assert (code, cloud.calls("tries")) == (3, ["x"] * 4)
