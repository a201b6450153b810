"""A kind in another package with all the parts of a built-in kind: nothing else needs a change."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import run_here
from trm_data.cli import main

TRM_DATA = Path(sys.executable).with_name("trm-data")
NAME = "neighbours-side6-generated-8-aug-7"
BUILD = tuple(str.split("build neighbours --side 6 --size 8 --aug 7 --val-size 0 --test-size 3"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory):
    """Folder in which the kind is installed: its modules, and metadata with its entry point."""
    folder = tmp_path_factory.mktemp("neighbours")
    site = folder / "site"
    info = site / "neighbours-0.1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("neighbours.py"), site)
    (site / "neighbours_warm.py").write_text(f"open({str(folder / 'warmed')!r}, 'w').close()\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: neighbours\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[trm_data.kinds]\nneighbours = neighbours:Neighbours\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        patch.setenv(
            "PYTHONPATH", os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
        )
        patch.setenv("TRM_ROOT", str(folder / "root"))
        yield site
        sys.modules.pop("neighbours", None)


@pytest.fixture(scope="module")
def run(site: Path):
    """Run trm-data with the kind installed."""

    def trm_data(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = run_here(main, *arguments)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return trm_data


@pytest.fixture(scope="module")
def folder(site: Path) -> Path:
    """The dataset, built in a separate process, as users do."""
    done = subprocess.run(
        [TRM_DATA, *BUILD, "--workers", "2", "--json"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["name"] == NAME
    assert facts["examples"] == {"train": 64, "test": 3}
    return Path(facts["folder"])


def test_its_command_line_is_its_own(run) -> None:
    shown = run("build", "neighbours", "--help").stdout
    assert "Build grids whose marked neighbours are counted." in shown
    assert "--side" in shown
    refused = run("build", "neighbours", "--side", "10")
    assert refused.returncode == 2
    assert "--side 10: 2 to 9" in refused.stderr


def test_it_is_verified_and_shown(run, folder: Path) -> None:
    verified = run("verify", NAME)
    assert verified.returncode == 0, verified.stderr
    assert "11 puzzles checked" in verified.stdout
    assert "#" in run("show", NAME).stdout
    described = json.loads(run("describe", NAME, "--json").stdout)
    assert described["spec"]["options"] == {"side": 6}


def test_its_card_tells_how_to_build_it_again(run, folder: Path) -> None:
    card = (folder / "README.md").read_text()
    assert "Grids with marked cells; the label counts the marked neighbours." in card
    command = next(line for line in card.splitlines() if line.startswith("trm-data build")).split()
    assert "--side 6" in " ".join(command)
    again = json.loads(run(*command[1:-1], "again", "--json").stdout)
    assert again["name"] == "again"
    assert again["content_digest"] in card


def test_it_is_exported_by_its_rules(run, folder: Path, tmp_path: Path) -> None:
    done = run("export", NAME, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    tests = json.loads((tmp_path / "out" / "test_puzzles.json").read_text())
    assert list(tests) == ["grid 0", "grid 1", "grid 2"]
    assert len(tests["grid 0"][0]) == 36


def test_workers_are_warmed_by_its_module(run, folder: Path) -> None:
    assert (folder.parents[2] / "warmed").is_file()
