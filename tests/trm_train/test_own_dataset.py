"""A dataset name in the wrong place gives an error with the command that trains on the dataset."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import PROJECT, error_of, run_here
from trm_data.building.flow import build_dataset
from trm_data.cli import main as data_main
from trm_data.errors import DatasetNotFoundError
from trm_data.storage.root import Layout, resolve_root
from trm_train.cli import main
from trm_train.config.data import MixtureConfig
from trm_train.experiments.registry import find_experiment
from trm_train.runs.record import run_name
from trm_train.training.prepare import check_dataset_is_built

BUILD = (
    "build", "maze", "--grid", "5x5", "--size", "6", "--val-size", "2", "--test-size", "2", "--min-path", "4",
    "--quiet",
)  # fmt: skip


@pytest.fixture
def root(small_layout: Layout, tmp_path: Path) -> Path:
    """A root with the dataset `mine6`."""
    shutil.copytree(Path(small_layout.place) / "datasets" / "small", tmp_path / "datasets" / "mine6")
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("run mine6", "trm-train run quickstart --data.dataset mine6"),
        ("batch mine6", "trm-train batch quickstart --data.dataset mine6"),
    ],
)
def test_a_dataset_named_elsewhere_is_answered_with_the_command_that_works(
    root: Path, typed: str, meant: str
) -> None:
    code, line = error_of(main, *typed.split(), "--root", str(root))
    assert code == 2
    assert line.endswith(meant), line


def test_a_typo_and_an_experiment_are_no_datasets(root: Path) -> None:
    for typed in ("run quikstart", "run quickstart --data generatd"):
        code, line = error_of(main, *typed.split(), "--root", str(root))
        assert code == 2
        assert "did you mean" in line


@pytest.mark.integration
def test_the_last_line_of_a_build_of_ones_own_says_how_to_train_on_it(tmp_path: Path) -> None:
    done = run_here(data_main, *BUILD, "--name", "mine", "--root", str(tmp_path))
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.endswith("trm-train run quickstart --data.dataset mine")
    words = last.partition("trm-train ")[2].split()
    assert run_here(main, *words, "--dry-run", "--root", str(tmp_path)).returncode == 0
    again = run_here(data_main, *BUILD, "--name", "mine", "--root", str(tmp_path))
    assert again.stdout.splitlines()[-1] == last


def test_the_runs_on_the_page_are_named_as_training_names_them() -> None:
    text = (PROJECT / "docs" / "own-puzzles.md").read_text()
    plain = find_experiment("quickstart").make()
    own = dataclasses.replace(plain, data=dataclasses.replace(plain.data, dataset="mine9"))
    size = plain.data.global_batch_size
    mixture = MixtureConfig(datasets=("mine9", "maze6"), weights=(2.0, 1.0), global_batch_size=size)
    mixed = dataclasses.replace(plain, data=mixture, total_steps=3000)
    expected = {run_name("quickstart", config) for config in (own, mixed)}
    assert set(re.findall(r"quickstart-[0-9a-f]{8}-s0", text)) == expected


def test_a_dataset_with_the_name_of_another_is_not_that_of_the_experiment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], request_small
) -> None:
    """Another dataset has the name that the experiment's dataset would get."""
    name = "sudoku-extreme-1000-aug-1000"
    build_dataset(request_small(name=name), resolve_root(tmp_path))
    config = find_experiment("trm_sudoku_mlp").make()
    assert config.data.only_dataset() != name
    with pytest.raises(DatasetNotFoundError):
        check_dataset_is_built(config, resolve_root(tmp_path))
    with pytest.raises(SystemExit, match="0"):
        main(["batch", "trm_sudoku_mlp", "--dry-run", "--json", "--root", str(tmp_path)])
    (fact,) = json.loads(capsys.readouterr().out)
    assert (fact["dataset"], fact["dataset_ready"]) == (name, False)
