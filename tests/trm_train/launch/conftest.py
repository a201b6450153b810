"""Stand-in machines, which are folders: `gcloud` and Slurm commands on the PATH that really run scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import run_here
from tests.gcs.conftest import server as server
from trm_data.storage.root import Layout
from trm_train.cli import main

HERE = Path(__file__).parent
UV = """#!/bin/bash
# `uv sync` in a checkout: the program of the commit becomes the command.
[ "$1" = sync ] && [ -e program ] || exit 1
mkdir -p .venv/bin
cp program .venv/bin/trm-train
chmod +x .venv/bin/trm-train
echo "$@" >> "$FAKE_CLOUD/synced"
"""
HOSTNAME = '#!/bin/sh\necho "$FAKE_HOST"\n'


@dataclass
class Cloud:
    """Stand-in machines, and a user who launches on them.

    Attributes:
        folder: Folder of the machines.
        repository: Repository of the package; its file `program` is what gets installed.
        root: Shared root of all machines.
    """

    folder: Path
    repository: Path
    root: Path

    def set(self, name: str, text: str) -> None:
        """Set an option of the machines; see `fake_gcloud`."""
        (self.folder / name).write_text(text)

    def calls(self, name: str = "calls") -> list[str]:
        """Return the commands sent to the machines."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def commit(self, program: str) -> str:
        """Return a commit whose program is a bash script, which replaces `trm-train` on the hosts."""
        (self.repository / "program").write_text(f"#!/bin/bash\n{program}\n")
        git = ["git", "-C", str(self.repository), "-c", "user.name=n", "-c", "user.email=e@example.com"]
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "program"], check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        return head.stdout.strip()

    def words(self, commit: str, *words: str, what: str = "run quickstart --data.dataset small") -> list[str]:
        """Return the arguments of a launch of the tests' run."""
        where = ["--root", str(self.root), "--repository", str(self.repository), "--commit", commit]
        return ["launch", *what.split(), *where, "--look-s", "0.2", *words]

    def launch(self, commit: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Launch in this process."""
        return run_here(main, *self.words(commit, *words, **more))


@pytest.fixture
def cloud(
    tmp_path: Path, small_layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> Generator[Cloud, None, None]:
    """Unused machines; gcloud is logged in, with a project and a zone."""
    folder = tmp_path / "cloud"
    for name in ("bin", "host_bin"):
        (folder / name).mkdir(parents=True)
    script(folder / "bin" / "gcloud", f'#!/bin/sh\nexec {sys.executable} -S {HERE / "fake_gcloud.py"} "$@"\n')
    for name in ("sbatch", "srun", "scontrol"):
        script(
            folder / "bin" / name,
            f'#!/bin/sh\nexec {sys.executable} -S {HERE / "fake_slurm.py"} {name} "$@"\n',
        )
    script(folder / "host_bin" / "uv", UV)
    script(folder / "host_bin" / "hostname", HOSTNAME)
    repository, root = tmp_path / "repository", tmp_path / "root"
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    shutil.copytree(small_layout.place, root)
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("FAKE_CLOUD", str(folder))
    monkeypatch.setattr("trm_train.launch.flow.AGAIN_S", 0.05)
    monkeypatch.setattr("trm_train.launch.flow.CAPACITY_S", 0.05)
    made = Cloud(folder, repository, root)
    for name, text in {"account": "me@example.com", "project": "p", "zone": "us-central2-b"}.items():
        made.set(name, text)
    made.set("offered", "v4-8 v4-16 v4-64")
    yield made
    for process in Path("/proc").glob("[0-9]*"):  # processes left running by a test
        try:
            if f"FAKE_CLOUD={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), 9)
        except (OSError, ValueError):
            continue


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
