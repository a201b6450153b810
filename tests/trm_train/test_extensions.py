"""A network, a mixer, an optimizer and experiments of another package, installed during a test."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tomllib
from collections.abc import Generator
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

import trm_data.extensions
import trm_eval
from tests.conftest import PROJECT, error_of, run_here
from trm_data.storage.root import Layout
from trm_eval.cli import main as trm_eval_main
from trm_train.cli import main as trm_train_main
from trm_train.experiments import registry
from trm_train.runs import record

SMALL = (
    *str.split("--data.dataset small --data.global-batch-size 8 --total-steps 6 --tracking none --json"),
    *("--model.hidden-size", "16", "--model.num-layers", "1", "--optim.lr-warmup-steps", "2"),
    *("--execution.validate-every", "0"),
)
EXAMPLE = PROJECT / "examples" / "gated"


@pytest.fixture
def root(small_layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate root with the dataset `small`; experiments registered by a test are removed after it."""
    shutil.copytree(small_layout.place, tmp_path / "root")
    monkeypatch.setenv("TRM_ROOT", str(tmp_path / "root"))
    known = dict(registry._EXPERIMENTS) or registry.load_experiments()  # before those of `gated` are found
    monkeypatch.setattr(registry, "_EXPERIMENTS", known)
    monkeypatch.setenv("TRM_EXPERIMENTS", "")
    return tmp_path / "root"


@pytest.fixture
def gated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    """The example as if it were installed: its modules, and metadata that refer to them."""
    registry.load_experiments()
    site = tmp_path / "site"
    info = site / "trm_gated-0.1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(EXAMPLE / "gated.py", site)
    shutil.copy(EXAMPLE / "gated_study.py", site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trm-gated\nVersion: 0.1.0\n")
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {of}\n" for name, of in found.items())
        for group, found in declared.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(site)
    registry._import_experiments.cache_clear()
    yield
    registry._import_experiments.cache_clear()
    for name in ("gated", "gated_study"):
        sys.modules.pop(name, None)


def train(*options: str, experiment: str = "quickstart") -> str:
    """Train; return the run's name."""
    done = run_here(trm_train_main, "run", experiment, *SMALL, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["run"]


@pytest.mark.integration
@pytest.mark.usefixtures("gated")
def test_a_network_and_an_optimizer_of_another_package_are_trained_and_evaluated(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tuple(
        str.split("--model.architecture gated --model.updates 2 --optim.name momentum --optim.beta 0.5")
    )
    run = train(*own)
    evaluated = run_here(trm_eval_main, "run", run, "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads(evaluated.stdout)["count"] == 12
    sampled = run_here(trm_eval_main, "run", run, "--samples", "2", "--limit", "4", "--json")
    assert sampled.returncode == 0, sampled.stderr
    (row,) = trm_eval.sql("SELECT training_flops, parameters, differs FROM runs", root).rows()
    assert row[0] > 0
    assert row[1] > 0
    assert "model.updates=2" in row[2]

    # Without the package, its runs are named in a note, and all other queries work.
    other = train()
    monkeypatch.setattr("trm_data.extensions.entry_points", lambda **_: EntryPoints(()))
    record._parse_record.cache_clear()
    done = run_here(
        trm_eval_main, "sql", "SELECT count(*) AS runs FROM runs WHERE parameters > 0", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    assert "gated" in done.stderr
    code, line = error_of(trm_train_main, "run", "quickstart", *SMALL, *own)
    assert (code, "gated" in line, "transformer" in line) == (2, True, True)
    assert run_here(trm_eval_main, "run", other, "--json").returncode == 0


@pytest.mark.integration
@pytest.mark.usefixtures("gated")
def test_a_mixer_and_an_experiment_of_another_package(root: Path) -> None:
    listed = run_here(trm_train_main, "list", "gated_6x6", "--json")
    assert json.loads(listed.stdout)[0]["name"] == "gated_6x6"
    run = train(experiment="gated_6x6")
    assert run.startswith("gated_6x6-")
    assert (root / "runs" / "gated_study" / "gated_6x6" / run).is_dir()


def test_a_file_of_experiments_that_is_missing_is_named_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRM_EXPERIMENTS", "studies/mine.py")
    code, line = error_of(trm_train_main, "list")
    assert (code, f"{tmp_path}/studies/mine.py: no such file" in line) == (2, True), line


@pytest.mark.integration
def test_experiments_and_a_network_of_a_file(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trm_data.extensions, "_ADDED", {})
    file = tmp_path / "my_study.py"
    study = (EXAMPLE / "gated_study.py").read_text()
    study = study.replace("gated_6x6", "mine").replace('mixer="shift"', "num_layers=1")
    network = (
        (EXAMPLE / "gated.py").read_text().replace("class Gated(", "@trm_train.add_network\nclass Gated(")
    )
    assert "@trm_train.add_network" in network
    file.write_text(f"import trm_train\n{network.replace('from __future__ import annotations', '')}\n{study}")
    try:
        run = train("--experiments", str(file), "--model.architecture", "gated", experiment="mine")
        assert os.environ["TRM_EXPERIMENTS"] == str(file)
        assert (root / "runs" / "my_study" / "mine" / run).is_dir()
        evaluated = run_here(trm_eval_main, "run", "mine", "--experiments", str(file), "--scale", "own")
        assert evaluated.returncode == 0, evaluated.stderr

        sys.modules.pop("my_study")
        trm_data.extensions._ADDED.clear()
        registry._import_experiments.cache_clear()
        file.write_text(f"{file.read_text()}# edited")
        words = ("run", "mine", *SMALL, "--experiments", str(file), "--model.architecture", "gated")
        again = run_here(trm_train_main, *(word for word in words if word != "--json"))
        assert "the code of gated has changed since the run began" in again.stderr
        evaluated = run_here(trm_eval_main, "run", run, "--limit", "4")
        assert evaluated.returncode == 0, evaluated.stderr
        assert "the code of gated has changed since the run began" in caplog.text
    finally:
        sys.modules.pop("my_study", None)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.py", None, "missing.py"),
        ("broken_study.py", "import nothing_like_this", "nothing_like_this"),
        ("json.py", "", "json"),
    ],
)
def test_a_file_of_experiments_that_cannot_be_loaded_is_named(
    root: Path, tmp_path: Path, name: str, content: str | None, said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    code, line = error_of(trm_train_main, "list", "--experiments", str(tmp_path / name))
    assert (code, name in line, said in line) == (2, True, True)
