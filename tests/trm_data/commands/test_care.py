"""`trm-data verify` and `rm` of several datasets, by name and by glob."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import run_here, small_request
from trm_data.build.flow import build_dataset
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


def test_what_is_removed_is_said_before_and_after(root: Path) -> None:
    place = ["--root", str(root)]
    refused = run_here(main, "rm", "many-*", *place)
    assert refused.returncode == 2
    assert "many-a (" in refused.stderr
    assert "many-b (" in refused.stderr
    assert "add --yes" in refused.stderr
    done = run_here(main, "rm", "many-*", "--yes", *place)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["many-a", "many-b"]
    assert [path.name for path in (root / "datasets").iterdir() if (path / "manifest.json").exists()] == [
        "other"
    ]


@pytest.mark.parametrize("command", ["verify", "rm"])
def test_a_glob_that_nothing_fits_and_no_name_at_all(root: Path, command: str) -> None:
    place = ["--root", str(root)]
    nothing = run_here(main, command, "mani-*", *place)
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "no dataset fits 'mani-*'" in nothing.stderr
    assert run_here(main, command, *place).returncode == 2
    one_wrong = run_here(main, command, "many-a", "mony-b", *place, *(["--yes"] if command == "rm" else []))
    assert one_wrong.returncode == 2
    assert "mony-b" in one_wrong.stderr
    if command == "rm":
        assert (root / "datasets" / "many-a" / "manifest.json").exists(), (
            "nothing is removed before all are found"
        )
