"""The whole workflow of a user: build, train, evaluate, query in SQL."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import run_here
from trm_data.cli import main as trm_data
from trm_data.loader.dataset import open_dataset
from trm_eval.cli import main as trm_eval
from trm_train.cli import main as trm_train

BIN = Path(sys.executable).parent
OVERRIDES = [
    "--total-steps", "20", "--optim.lr-warmup-steps", "5", "--model.hidden-size", "32", "--model.h-cycles", "1",
    "--model.halt-max-steps", "4", "--execution.checkpoint-every", "10", "--execution.validate-every", "10",
    "--data.dataset", "flow", "--data.global-batch-size", "16",
]  # fmt: skip


MAINS = {"trm-data": trm_data, "trm-train": trm_train, "trm-eval": trm_eval}


def command(*arguments: str, root: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which has already imported everything."""
    done = run_here(MAINS[arguments[0]], *arguments[1:], "--root", str(root))
    if check:
        assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("flow")
    build = "trm-data build sudoku --box 2x3 --size 30 --aug 20 --val-size 10 --test-size 70 --name flow"
    command(*build.split(), root=root)
    train = [BIN / "trm-train", "run", "quickstart", *OVERRIDES, "--root", str(root)]
    done = subprocess.run(train, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "validation: exact" in done.stderr
    assert "steps/s" in done.stderr
    assert "finished, 20 steps" in done.stdout
    return root


def test_wandb_is_mirrored_offline(root: Path) -> None:
    assert list(root.rglob("wandb/offline-run-*/*.wandb"))


def test_evaluation_counts_every_row_and_agrees_with_its_predictions(root: Path) -> None:
    reported = command("trm-eval", "run", "quickstart", root=root).stdout
    assert "of 70)" in reported
    row = json.loads(command("trm-eval", "run", "quickstart", "--json", root=root).stdout)
    assert (row["count"], row["step"], row["weights"], row["split"]) == (70, 20, "ema", "test")
    assert row["cells"] == 70 * 36
    sql = "SELECT row, exact, wrong_cells, prediction FROM predictions ORDER BY row"
    found = json.loads(command("trm-eval", "sql", sql, "--format", "json", root=root).stdout)
    assert [item["row"] for item in found] == list(range(70))
    labels = open_dataset("flow", root, "test").read(np.arange(70))["labels"]
    wrong = [(np.array(item["prediction"]) != labels[item["row"]]).sum() for item in found]
    assert [item["wrong_cells"] for item in found] == wrong
    assert sum(wrong) == row["wrong_cells"]
    assert sum(item["exact"] for item in found) == row["exact_count"]


@pytest.mark.parametrize("name", ["trm_data", "trm_train", "trm_eval"])
@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_import_nothing_heavy(name: str, arguments: list[str]) -> None:
    program = f"""
import sys
from {name}.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
heavy = {{"numpy", "numba", "pyarrow", "duckdb", "grain", "jax", "wandb", "array_record"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, timeout=600)


@pytest.mark.parametrize("program", ["trm-train", "trm-eval"])
def test_version(program: str) -> None:
    done = subprocess.run([BIN / program, "--version"], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{program} {version('trm-lab')}\n", "")
