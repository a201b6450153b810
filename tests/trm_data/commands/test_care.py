"""`trm-data verify` of several datasets, by name and by glob."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import run_here, small_request
from trm_data.building.flow import build_dataset
from trm_data.cli import main
from trm_data.engine.local import LocalEngine
from trm_data.storage.root import resolve_root

NAMES = ["many-a", "many-b", "other"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("several")
    for name in NAMES:
        build_dataset(small_request(name=name), resolve_root(root), engine=LocalEngine(1))
    return root


@pytest.fixture
def root(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built, tmp_path / "root")


def test_all_that_are_meant_are_verified_and_one_wrong_one_is_enough(root: Path) -> None:
    place = ["--root", str(root)]
    done = run_here(main, "verify", "many-*", "other", "many-a", *place)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines() if ": whole" in line] == NAMES
    assert "3 datasets, all whole" in done.stdout
    next((root / "datasets" / "many-a").glob("train*.array_record")).unlink()
    done = run_here(main, "verify", "*", *place)
    assert done.returncode == 1
    assert "many-a: " in done.stderr
    assert "many-b: whole" in done.stdout, "the others are checked all the same"
    assert "3 datasets, 1 of them wrong" in done.stdout
    values = json.loads(run_here(main, "verify", "many-*", "--json", *place).stdout)
    assert [value["whole"] for value in values] == [False, True]
    assert json.loads(run_here(main, "verify", "other", "--json", *place).stdout)["whole"] is True
    assert isinstance(json.loads(run_here(main, "verify", "othe?", "--json", *place).stdout), list)


def test_a_glob_that_nothing_fits_and_no_name_at_all(root: Path) -> None:
    place = ["--root", str(root)]
    nothing = run_here(main, "verify", "mani-*", *place)
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "no dataset fits 'mani-*'" in nothing.stderr
    assert run_here(main, "verify", *place).returncode == 2
    one_wrong = run_here(main, "verify", "many-a", "mony-b", *place)
    assert one_wrong.returncode == 2
    assert "mony-b" in one_wrong.stderr


def test_imported_rows_are_listed_by_the_rules_they_follow(root: Path, tmp_path: Path) -> None:
    place = ["--root", str(root)]
    for words in (
        ["export", "other", "--out", str(tmp_path / "out")],
        ["import", str(tmp_path / "out"), "--name", "back"],
    ):
        done = run_here(main, *words, *place)
        assert done.returncode == 0, done.stderr
    listed = run_here(main, "list", *place).stdout
    assert re.search(r"^ back +sudoku, imported ", listed, re.MULTILINE)
    assert re.search(
        r"^ kind +sudoku, imported", run_here(main, "describe", "back", *place).stdout, re.MULTILINE
    )
    shown = json.loads(run_here(main, "list", "--json", *place).stdout)
    assert [each["kind"] for each in shown if each["name"] == "back"] == ["finished"]


def test_what_the_system_says_has_no_number(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    page = tmp_path / "file" / "page.svg"
    done = run_here(main, "show", "other", "--out", str(page), "--root", str(root))
    assert (done.returncode, done.stderr) == (2, f"trm-data: {page.parent}: file exists\n")
