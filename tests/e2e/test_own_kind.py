"""A kind from another package: found through its entry point, built, verified and shown by the command line."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT, run_here
from trm_data.cli import main

TRM_DATA = Path(sys.executable).with_name("trm-data")


@pytest.fixture(autouse=True)
def installed(nqueens: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRM_ROOT", str(tmp_path / "root"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_here(main, *arguments)


def test_queens() -> None:
    arguments = ("build", "nqueens", "--size", "20", "--aug", "7", "--val-size", "0", "--test-size", "5")
    command = [TRM_DATA, *arguments, "--option", "side=7"]
    built = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert built.returncode == 0, built.stderr
    name = "nqueens-generated-20-aug-7"
    assert name in built.stdout
    verified = run("verify", name)
    assert verified.returncode == 0, verified.stderr
    assert "25 puzzles checked" in verified.stdout
    assert "Q" in run("show", name).stdout
    virtual = run(*arguments, "--option", "side=7", "--augment", "virtual", "--name", "virtual")
    assert virtual.returncode == 0, virtual.stderr
    drawn = [run("show", dataset, "--index", "9").stdout for dataset in (name, "virtual")]
    assert drawn[0] == drawn[1]


def test_an_option_that_cannot_be() -> None:
    refused = run("build", "nqueens", "--option", "side=3")
    assert refused.returncode == 2
    assert "--option side=3: 4 to 12" in refused.stderr
    for option, message in (
        ("side=abc", "--option side=abc"),
        ("sied=7", "--option sied: unknown to nqueens; it has side"),
    ):
        refused = run("build", "nqueens", "--option", option)
        assert refused.returncode == 2
        assert message in refused.stderr


def test_the_example_is_as_short_as_promised() -> None:
    assert len((PROJECT / "examples" / "nqueens" / "nqueens.py").read_text().splitlines()) < 80
