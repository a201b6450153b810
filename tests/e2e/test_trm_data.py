"""The `trm-data` command as users run it: output, exit codes, errors."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import run_here
from trm_data.cli import main

SMALL = str.split("build sudoku --box 2x3 --size 6 --aug 5 --val-size 2 --test-size 3")


def trm_data(*arguments: str, root: Path) -> subprocess.CompletedProcess[str]:
    return run_here(main, *arguments, "--root", str(root))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cli")
    done = trm_data(*SMALL, root=root)
    assert done.returncode == 0, done.stderr
    assert "sudoku-2x3-generated-6-aug-5: 36 train, 2 validation, 3 test examples" in done.stdout
    assert "write rows: 41 examples" in done.stderr
    return root


NAME = "sudoku-2x3-generated-6-aug-5"


def test_a_second_build_says_that_there_is_nothing_to_do(built: Path) -> None:
    done = trm_data(*SMALL, root=built)
    assert done.returncode == 0
    assert "already built, nothing to do" in done.stdout
    facts = json.loads(trm_data(*SMALL, "--json", root=built).stdout)
    assert facts["unchanged"] is True
    assert facts["examples"] == {"train": 36, "validation": 2, "test": 3}


def test_list_describe_and_show(built: Path) -> None:
    assert NAME in trm_data("list", root=built).stdout
    assert json.loads(trm_data("list", "--json", root=built).stdout)[0]["name"] == NAME
    described = trm_data("describe", NAME, root=built).stdout
    assert "content_digest" in described
    assert "options.box_rows" in described
    assert "the original of group 0" in described
    assert (
        json.loads(trm_data("describe", NAME, "--json", root=built).stdout)["splits"]["train"]["num_groups"]
        == 6
    )
    shown = trm_data("show", NAME, "--split", "train", "--index", "8", root=built).stdout
    assert "train 8: augmentation 2 of group 1" in shown
    assert "-------+-------" in shown


def test_verify_exits_with_one_and_a_list(built: Path, tmp_path: Path) -> None:
    import shutil

    assert trm_data("verify", NAME, root=built).returncode == 0
    shutil.copytree(built, tmp_path / "copy")
    next((tmp_path / "copy" / "datasets" / NAME).glob("train*.array_record")).unlink()
    failed = trm_data("verify", NAME, root=tmp_path / "copy")
    assert failed.returncode == 1
    assert "is missing" in failed.stderr
    assert json.loads(trm_data("verify", NAME, "--json", root=tmp_path / "copy").stdout)["whole"] is False
