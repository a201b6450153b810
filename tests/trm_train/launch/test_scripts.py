"""Selection of the commit to install: hosts must be able to fetch it, and it has no local changes.

The Slurm script in docs/buckets-and-hosts.md: its tasks train one run, and it is requeued after a loss.
"""

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
from trm_train.errors import LaunchError
from trm_train.launch import scripts
from trm_train.launch.scripts import Source, find_source
from trm_train.runs.status import find_runs, read_status


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone with a commit that its origin also has."""
    git(tmp_path, "init", "--quiet", "origin")
    (tmp_path / "origin" / "file").write_text("a")
    commit(tmp_path / "origin")
    git(tmp_path, "clone", "--quiet", "origin", "checkout")
    return tmp_path / "checkout"


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "--quiet", "-m", "m")
    return git(folder, "rev-parse", "HEAD")


def test_head_of_a_checkout_that_is_clean_and_pushed(checkout: Path) -> None:
    head, origin = git(checkout, "rev-parse", "HEAD"), str(checkout.parent / "origin")
    assert find_source(None, None, checkout) == Source(origin, head)


def test_a_commit_that_hosts_would_not_have_is_refused(checkout: Path) -> None:
    (checkout / "file").write_text("b")
    with pytest.raises(LaunchError, match="uncommitted changes"):
        find_source(None, None, checkout)
    head = commit(checkout)
    with pytest.raises(LaunchError, match=f"commit {head[:12]} is on no branch of a remote"):
        find_source(None, None, checkout)
    assert find_source(head, None, checkout).commit == head
    with pytest.raises(LaunchError, match="--commit 'HEAD': expected the full hash"):
        find_source("HEAD", None, checkout)


def test_without_a_checkout_commit_and_repository_are_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="--commit HASH --repository URL"):
        find_source(None, None, tmp_path)
    address = "https://example.com/r"
    assert find_source("1" * 40, address, tmp_path) == Source(address, "1" * 40)


def test_a_token_in_an_address_is_neither_shown_nor_sent(checkout: Path) -> None:
    user = "user:s3cret"
    git(checkout, "remote", "set-url", "origin", f"https://{user}@example.com/me/trm.git")
    assert find_source(None, None, checkout).repository == "https://example.com/me/trm.git"
    with pytest.raises(LaunchError, match="expected an address without a user") as raised:
        find_source(None, f"https://{user}@example.com/r", checkout)
    assert "s3cret" not in str(raised.value)


def test_hosts_need_no_key_where_there_is_another_way(checkout: Path) -> None:
    source = find_source(None, "git@github.com:me/trm.git", checkout)
    assert source.repository == "https://github.com/me/trm.git"


def test_hosts_install_the_version_of_uv_that_the_makefile_has() -> None:
    assert f"uv=={scripts.UV}" in (PROJECT / "Makefile").read_text()


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
