"""A bundle for a Kaggle notebook, from the package index to a submission without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import run_here
from tests.trm_data.kinds.test_arc import request, task
from tests.trm_eval.test_votes import AUG, CONFIG, arc_folder
from tests.trm_train.test_loop import run
from trm_data.building.flow import build_dataset
from trm_data.storage.root import resolve_root
from trm_eval.bundle.notebook import NOTEBOOK
from trm_eval.cli import main

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A bundle of a tiny ARC run for this Python, with the real wheels."""
    folder = tmp_path_factory.mktemp("bundle")
    layout = resolve_root(folder / "root")
    build_dataset(request(arc_folder(folder / "arc"), aug=AUG, val_size=1), layout)
    name = run(layout, CONFIG).folder.name
    out = folder / "out"
    done = run_here(main, "bundle", name, "--kaggle", str(out), "--adapt", "0.5", "--root", layout.place)
    if done.returncode and ("cannot be reached" in done.stderr or "pip is missing" in done.stderr):
        pytest.skip(f"needs a package index: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    shutil.rmtree(layout.place)  # the bundle must not need it
    yield out
    shutil.rmtree(out)  # half a gigabyte


def without_network() -> list[str]:
    """Return a command prefix that runs another command without a network, if this machine supports it."""
    cut = ["unshare", "--net", "--map-root-user"]
    if shutil.which("unshare") and subprocess.run([*cut, "true"], capture_output=True).returncode == 0:
        return cut
    return []


@pytest.mark.slow
def test_the_notebook_answers_unseen_tasks_in_an_empty_environment_without_a_network(
    bundle: Path, tmp_path: Path
) -> None:
    tasks = {f"unseen{seed}": task(100 * seed + 7, solved=seed < 2) for seed in range(5)}
    tasks["unseen4"]["test"] = tasks["unseen4"]["test"][:1]
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "arc-agi_test_challenges.json").write_text(json.dumps(tasks))
    cells = json.loads((bundle / NOTEBOOK).read_text())["cells"]
    program = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    (tmp_path / "notebook.py").write_text(program)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "empty"], check=True, timeout=600)
    (tmp_path / "working").mkdir()
    environment = {
        "PATH": os.defpath,
        "HOME": str(tmp_path / "working"),
        "TRM_BUNDLE": str(bundle),
        "TRM_COMPETITION": str(tmp_path / "given"),
        "TRM_WORK": str(tmp_path / "work"),
        **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE),
    }
    done = subprocess.run(
        [*without_network(), tmp_path / "empty" / "bin" / "python", tmp_path / "notebook.py"],
        cwd=tmp_path / "working",
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "embeddings adapted in" in done.stdout
    answers = json.loads((tmp_path / "working" / "submission.json").read_text())
    assert answers.keys() == tasks.keys()
    for name, given in tasks.items():
        assert len(answers[name]) == len(given["test"])
        for answer in answers[name]:
            assert sorted(answer) == ["attempt_1", "attempt_2"]
            for grid in answer.values():
                assert 1 <= len(grid) <= 30
                assert 1 <= len(grid[0]) <= 30
                assert {len(row) for row in grid} == {len(grid[0])}
                assert {type(cell) for row in grid for cell in row} == {int}
                assert {cell for row in grid for cell in row} <= set(range(10))
    shutil.rmtree(tmp_path / "work")  # more than a gigabyte


@pytest.mark.slow
def test_another_python_is_refused_before_anything_is_installed(bundle: Path, tmp_path: Path) -> None:
    settings = "".join(json.loads((bundle / NOTEBOOK).read_text())["cells"][1]["source"])
    other = settings.replace(f"'3.{sys.version_info.minor}'", "'3.99'")
    assert other != settings
    (tmp_path / "arc-agi_test_challenges.json").write_text("{}")
    environment = {**os.environ, "TRM_BUNDLE": str(bundle), "TRM_COMPETITION": str(tmp_path)}

    def run_cell(code: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )

    done = run_cell(other)
    assert done.returncode == 1
    assert "the wheels are for Python 3.99, this is 3." in done.stderr
    environment.pop("TRM_COMPETITION")
    (tmp_path / "arc-agi_test_challenges.json").unlink()
    done = run_cell(settings)
    assert done.returncode == 1
    assert "found no arc-agi_test_challenges.json here nor in /kaggle/input: attach it" in done.stderr
