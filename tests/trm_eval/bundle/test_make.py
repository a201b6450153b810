"""A bundle as the command writes it, whole or not at all; wheels come from a folder, by the real pip."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import run_here
from tests.trm_eval.conftest import Evaluated
from trm_data.storage.atomic import file_sha256
from trm_data.storage.root import Layout, resolve_root
from trm_eval.bundle import make
from trm_eval.bundle.notebook import NOTEBOOK, PACKAGE, WHEELS, WHEELS_FILE
from trm_eval.cli import main
from trm_eval.package.contents import read_package
from trm_train.runs.record import list_runs


def bundle(layout: Layout, *words: str) -> tuple[int, str, str]:
    (run,) = list_runs(layout)
    done = run_here(main, "bundle", run.name, "--root", layout.place, "--python", "3.11", *words)
    return done.returncode, done.stdout, done.stderr


def test_it_has_wheels_with_their_digests_the_run_and_a_notebook(
    index: Path, arc_layout: Layout, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()  # empty is as good as not there
    left = tmp_path / ".tmp-out" / WHEELS / "left.whl"  # left by a killed process
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    code, said, error = bundle(arc_layout, "--kaggle", str(out), "--adapt", "3")
    assert code == 0, error
    assert sorted(path.name for path in out.iterdir()) == sorted([NOTEBOOK, PACKAGE, WHEELS, WHEELS_FILE])
    wheels = {path.name: path for path in (out / WHEELS).iterdir()}
    lines = (out / WHEELS_FILE).read_text().splitlines()
    assert len(lines) == len(wheels) == len(list(index.iterdir())) + 1
    assert f"{len(wheels)} wheels for Python 3.11 on manylinux_2_28_x86_64" in said
    hashes = {line.partition(" --hash=sha256:")[2] for line in lines}
    assert hashes == {file_sha256(path) for path in wheels.values()}
    assert read_package(out / PACKAGE).step == 2
    settings = "".join(json.loads((out / NOTEBOOK).read_text())["cells"][1]["source"])
    assert "'3.11', 5, 'stored', 1" in settings
    assert '"TRM_MINUTES", 3.0' in settings
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_dry_run_lists_wheels_and_writes_nothing(index: Path, arc_layout: Layout, tmp_path: Path) -> None:
    code, said, error = bundle(arc_layout, "--kaggle", str(tmp_path / "out"), "--dry-run")
    assert code == 0, error
    listed = {words[-1]: words[:-1] for words in map(str.split, said.splitlines()[:-1])}
    assert listed == {path.name: ["?", "MB"] for path in index.iterdir()}  # a folder does not state sizes
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_cut_off_leaves_nothing(
    index: Path, arc_layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(folder: Path) -> Path:
        assert len(list(folder.iterdir())) == len(list(index.iterdir()))
        assert not (tmp_path / "out").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(make, "write_own_wheel", interrupted)
    code, _, _ = bundle(arc_layout, "--kaggle", str(tmp_path / "out"))
    assert code == 130
    assert list(tmp_path.iterdir()) == []


def refused(layout: Layout, *words: str) -> str:
    code, _, error = bundle(layout, *words)
    assert code == 2
    assert "Traceback" not in error
    return error


def test_a_folder_that_holds_something_is_refused(arc_layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    assert "exists and is not empty" in refused(arc_layout, "--kaggle", str(tmp_path))
    assert "exists and is not empty" in refused(arc_layout, "--kaggle", str(tmp_path / "mine"))
    assert (tmp_path / "mine").read_text() == ""


def test_runs_that_cannot_be_bundled_are_refused(
    evaluated: Evaluated, arc_layout: Layout, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    said = refused(evaluated.layout, "--kaggle", out)
    assert "learned from small, which is of the kind sudoku" in said
    bare = resolve_root(shutil.copytree(arc_layout.place, tmp_path / "bare"))
    for weights in Path(bare.place).glob("runs/**/checkpoints"):
        shutil.rmtree(weights)
    assert "has no checkpoint yet" in refused(bare, "--kaggle", out)
    shutil.rmtree(bare.dataset("arc").here)
    assert "learned from arc, which is not under" in refused(bare, "--kaggle", out)
    assert not Path(out).exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--adapt", "0"), "--adapt: got 0; expected more than 0"),
        (("--adapt", "inf"), "--adapt: got inf; expected more than 0"),
        (("--aug", "-1"), "--aug: got -1; expected 0 or more"),
        (("--checkpoint", "77"), "77"),
        (("--platform", "win_amd64"), "expected a Linux wheel tag"),
        (("--python", "3.9"), "--python 3.9"),
    ],
)
def test_values_that_cannot_be_are_refused(
    arc_layout: Layout, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    assert message in refused(arc_layout, "--kaggle", str(tmp_path / "out"), *words)
