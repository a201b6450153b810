"""A kind from another package: found through its entry point, built, verified and shown by the command line."""

import subprocess
import sys
from pathlib import Path

import pytest

import trm_data.extensions
from tests.conftest import PROJECT, run_here
from trm_data.cli import main
from trm_data.errors import SpecError

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


def edited(tmp_path: Path, old: str, new: str) -> None:
    """Edit the installed module of the kind, as its author would; later commands are new processes."""
    module = next(Path(tmp_path).rglob("nqueens.py"))
    text = module.read_text()
    assert old in text
    module.write_text(text.replace(old, new))
    sys.modules.pop("nqueens", None)


def test_symmetries_without_images_are_refused(tmp_path: Path) -> None:
    edited(tmp_path, "def image(", "def picture(")
    refused = run("build", "nqueens", "--size", "5", "--aug", "7", "--option", "side=6")
    assert refused.returncode == 2
    assert "nqueens: the kind must define image (symmetries = 8)" in refused.stderr


def test_a_changed_kind_is_another_dataset(tmp_path: Path) -> None:
    command = ("build", "nqueens", "--size", "5", "--val-size", "0", "--test-size", "2", "--option", "side=7")
    virtual = (*command, "--aug", "3", "--augment", "virtual", "--name", "virtual")
    for arguments in (command, virtual):
        built = run(*arguments)
        assert built.returncode == 0, built.stderr
    assert "already built" in run(*command).stderr + run(*command).stdout
    edited(tmp_path, "def symbols(", "VERSION = 2\n\n    def symbols(")
    refused = run(*command)
    assert refused.returncode == 2
    assert "kind code" in refused.stderr
    shown = run("show", "virtual", "--index", "2")
    assert (shown.returncode, "whose code has changed" in shown.stderr) == (2, True)


def test_a_kind_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind by its own name in the help, built by worker processes, and found again only with its file."""
    monkeypatch.setattr(trm_data.extensions, "_ADDED", {})
    monkeypatch.setenv("TRM_EXPERIMENTS", "")
    example = (
        (PROJECT / "examples" / "nqueens" / "nqueens.py")
        .read_text()
        .replace('name = "nqueens"', 'name = "filed"')
    )
    file = tmp_path / "my_kind.py"
    file.write_text(
        "import trm_data\n" + example.replace("class NQueens", "@trm_data.add_kind\nclass NQueens")
    )
    told = run("build", "filed", "--help", "--experiments", str(file)).stdout
    assert "trm-data build filed" in told
    assert "Place the missing queens" in told
    assert "KIND" not in told
    command = [TRM_DATA, *str.split("build filed --size 5 --val-size 0 --test-size 2 --workers 2")]
    built = subprocess.run(
        [*command, "--option", "side=7", "--experiments", file], capture_output=True, text=True, timeout=600
    )
    assert built.returncode == 0, built.stderr
    assert run("verify", "filed-generated-5-aug-0").returncode == 0
    sys.modules.pop("my_kind")
    trm_data.extensions._ADDED.clear()
    monkeypatch.setenv("TRM_EXPERIMENTS", "")
    assert "--experiments FILE.py" in run("verify", "filed-generated-5-aug-0").stderr


@pytest.mark.parametrize("name", ["", "sudoku"])
def test_a_kind_needs_a_name_of_its_own(name: str) -> None:
    with pytest.raises(SpecError, match="expected a name of its own"):
        trm_data.add_kind(type("Mine", (), {"name": name}))
