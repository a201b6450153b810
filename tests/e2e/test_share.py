"""A run is packed and pushed to a loopback hub, imported into another root, and evaluated there with equal results."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import run_here
from tests.e2e.model_hub import ModelHub, serving
from tests.trm_eval.conftest import Evaluated, trained
from trm_data.storage.root import resolve_root
from trm_eval.cli import main
from trm_eval.tables.query import query_results

constants = pytest.importorskip("huggingface_hub.constants", reason="needs the extra hf")

__all__ = ["trained"]

ANSWERS = "SELECT row, prediction, exact, q_halt_logit FROM predictions ORDER BY row"


@pytest.fixture
def hub() -> Iterator[ModelHub]:
    with serving() as hub:
        yield hub


@pytest.fixture
def here(hub: ModelHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModelHub:
    """The hub, also for commands in this process."""
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", "hf_loopback")
    return hub


def call(command: str, home: Path, endpoint: str) -> subprocess.CompletedProcess[str]:
    """Run a command of this package as on another machine, with this hub."""
    program, *arguments = shlex.split(command)
    environment = {
        **os.environ,
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home / "hf"),
        "HF_TOKEN": "hf_loopback",
        "HF_HUB_DISABLE_XET": "1",
    }
    return subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=home,
        timeout=300,
    )


def test_a_run_goes_by_the_hub_and_answers_the_same(
    trained: Evaluated, hub: ModelHub, tmp_path: Path
) -> None:
    export = f"trm-eval export tiny --push me/tiny --private --json --root {trained.layout.place}"
    pushed = call(export, tmp_path, hub.endpoint)
    assert pushed.returncode == 0, pushed.stderr
    facts = json.loads(pushed.stdout)
    assert hub.private == {"me/tiny"}
    assert set(hub.commits["me/tiny"][facts["commit"]]) == set(facts["files"])

    card = hub.commits["me/tiny"][facts["commit"]]["README.md"].decode()
    (shell,) = re.findall(r"```sh\n(.*?)```", card, re.DOTALL)
    commands = shell.splitlines()
    assert [command.split()[:2] for command in commands] == [
        ["trm-eval", "import"],
        ["trm-data", "build"],
        ["trm-eval", "run"],
    ]
    for command in commands:  # as in the card, in an empty folder
        done = call(command, tmp_path, hub.endpoint)
        assert done.returncode == 0, done.stderr
    layout = resolve_root(tmp_path / "trm")
    assert query_results(layout, ANSWERS).rows == query_results(trained.layout, ANSWERS).rows
    assert len(query_results(layout, ANSWERS).rows) == 12

    again = call(f"trm-eval import hf:me/tiny@{facts['commit']} --root trm", tmp_path, hub.endpoint)
    assert again.returncode == 0, again.stderr
    assert "step 12 was there already" in again.stdout


def test_only_files_that_a_package_can_have_are_fetched(
    trained: Evaluated, here: ModelHub, tmp_path: Path
) -> None:
    done = call(f"trm-eval export tiny --push me/tiny --root {trained.layout.place}", tmp_path, here.endpoint)
    assert (done.returncode, "Warning" in done.stderr) == (0, False), done.stderr
    here.commit("me/tiny", {"setup.py": b"raise SystemExit('was run')", ".gitattributes": b""})
    done = run_here(main, "import", "hf:me/tiny", "--root", str(tmp_path / "trm"))
    assert done.returncode == 0, done.stderr
    assert "package.json" in here.asked
    assert "setup.py" not in here.asked
    here.commit("me/tiny", {"weights.npz": b"others"})
    refused = run_here(main, "import", "hf:me/tiny", "--root", str(tmp_path / "other"))
    assert refused.returncode == 2
    assert "weights.npz: was edited or damaged" in refused.stderr
    assert not (tmp_path / "other" / "runs").exists()


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("hf:me/nothing", "import its folder"),
        ("hf:me/tiny@no-such", "import its folder"),
        ("hf:../etc", "expected OWNER/NAME"),
        ("hf:me/tiny@../x", "expected a branch, tag or commit behind @"),
    ],
)
def test_what_the_hub_does_not_have_is_said_in_one_line(
    here: ModelHub, tmp_path: Path, reference: str, message: str
) -> None:
    here.commits["me/tiny"] = {}
    here.commit("me/tiny", {"README.md": b"no package"})
    refused = run_here(main, "import", reference, "--root", str(tmp_path))
    assert refused.returncode == 2
    assert message in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_hub_that_is_away_is_said_with_a_way_out(
    trained: Evaluated, here: ModelHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    refused = run_here(main, "import", "hf:me/tiny", "--root", str(tmp_path))
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "copy the package and import its folder" in refused.stderr
    packed = tmp_path / "packed"
    refused = run_here(
        main, "export", "tiny", "--push", "me/tiny", "--out", str(packed), "--root", trained.layout.place
    )
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "push again" in refused.stderr
    assert (packed / "package.json").is_file()  # the package is kept
