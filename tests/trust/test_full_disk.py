"""A full disk ends training with one line that names what is saved; a lost checkpoint is reported and skipped."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import run_here
from tests.support.roots import root_with
from tests.trm_eval.conftest import Evaluated
from trm_data.storage.root import Layout
from trm_train.cli import main as trm_train

BIN = Path(sys.executable).parent
RUN = (
    "run quickstart --tracking none --data.dataset small --data.global-batch-size 4 --model.hidden-size 64 "
    "--model.num-layers 1 --model.h-cycles 1 --model.l-cycles 1 --optim.lr-warmup-steps 2 --optim.lr-min-ratio 1 "
    "--execution.checkpoint-every 5 --execution.validate-every 0 --execution.log-every 100 --total-steps"
)
SMALL = 'mount -t tmpfs -o size=4m tmpfs "$0" && cp -r "$0"/../datasets "$0" && exec "$@"'
"""Runs a command in a mount namespace in which a folder is a small disk."""


@pytest.fixture
def layout(small_layout: Layout, tmp_path: Path) -> Layout:
    return root_with("small", tmp_path, small_layout)


def test_training_on_a_full_disk_ends_with_one_line(layout: Layout) -> None:
    root = Path(layout.place) / "disk"
    root.mkdir()
    apart = ["unshare", "-m", "sh", "-c", SMALL, str(root)]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk (unshare -m)")
    command = [*apart, BIN / "trm-train", *RUN.split(), "1000", "--root", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("trm-train: ")]
    assert len(said) == 1
    full = r"no space left for (a checkpoint|metrics and logs).*resumes from step"
    assert re.search(full, said[0])
    assert len(done.stderr.splitlines()) < 12


def test_a_checkpoint_whose_arrays_are_gone_is_passed_over_aloud(layout: Layout) -> None:
    command = (*RUN.split(), "10", "--root", layout.place)
    assert run_here(trm_train, *command).returncode == 0
    (newest,) = Path(layout.place).glob("runs/*/*/*/checkpoints/resume/10")
    shutil.rmtree(newest / "state" / "d")
    again = run_here(trm_train, *command)
    assert again.returncode == 0, again.stderr
    assert "Traceback" not in again.stderr
    assert f"{newest}: cannot be read: " in again.stderr
    assert "; resuming from the checkpoint before, at step 5" in again.stderr
    assert "finished, 10 steps" in again.stdout


FULL = (
    'mount -t tmpfs -o size="$1" tmpfs "$0" && cp -r "$0"/../whole/. "$0" && { dd if=/dev/zero of="$0"/filler bs=4k '
    '|| true; } 2>/dev/null && export TMPDIR="$0" && shift && exec "$@"'
)
"""Runs a command in a mount namespace in which a folder is a copy of `whole` on a full disk."""


@pytest.mark.parametrize(
    "command",
    [
        ["trm-eval", "run", "tiny", "--limit", "8"],
        ["trm-eval", "sql", "SELECT count(*) FROM evals"],
        ["trm-eval", "sql", "SELECT count(*) FROM puzzles"],
        str.split("trm-data build sudoku --box 2x3 --size 20 --aug 9 --test-size 4 --quiet"),
        ["trm-data", "export", "small", "--format", "parquet", "--out", "exported"],
    ],
    ids=lambda command: " ".join(command[:3]),
)
@pytest.mark.parametrize("index", ["gone", pytest.param("there", marks=pytest.mark.slow)])
def test_on_a_full_disk_a_command_ends_with_one_line_or_works(
    evaluated: Evaluated, tmp_path: Path, command: list[str], index: str
) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    shutil.copytree(evaluated.layout.place, tmp_path / "whole")
    if index == "gone":
        (tmp_path / "whole" / "catalog.duckdb").unlink(missing_ok=True)
    apart = ["unshare", "-m", "sh", "-c", FULL, str(root), "24m"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk (unshare -m)")
    script = 'cd "$0" && "$@"; code=$?; find . -name ".tmp-*" -type f >&2; exit $code'
    inside = ["sh", "-c", script, str(root), str(BIN / command[0]), *command[1:], "--root", str(root)]
    done = subprocess.run([*apart, *inside], capture_output=True, text=True, timeout=200)
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith(f"{command[0]}: ")]
    if done.returncode:
        assert done.returncode == 2, done.stderr
        assert len(said) == 1, done.stderr
        assert "space" in said[0]
    else:
        assert command[1] == "sql", "only a query can do without space"
    assert ".tmp-" not in done.stderr.replace(said[0] if said else "", ""), done.stderr
