"""A run with an unknown architecture, mixer or version is named, and all other queries work."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trm_eval
from tests.conftest import error_of, run_here
from tests.recorded import recorded_root
from trm_data.storage.atomic import with_digest
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.cli import main as eval_main
from trm_train.cli import main as train_main
from trm_train.config.run import config_from_json, identity_hash
from trm_train.runs.record import CONFIG_FILE, list_runs, run_name

COUNT = "SELECT count(*) AS runs FROM runs"
Changes = dict[str, Any]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return recorded_root(tmp_path / "root", "evaluated")


def beside(
    layout: Layout, run: Folder | None = None, *, model: Changes | None = None, **changes: Any
) -> Folder:
    """Add a run next to another, or as the only one, as another version writes it: with a digest, in its place."""
    run = run or next(iter(list_runs(layout)))
    value = json.loads(run.read(CONFIG_FILE) or b"")
    value["config"]["model"] |= model or {}
    if "architecture" not in (model or {}):
        config = config_from_json(value["config"])
        value |= {"identity": identity_hash(config), "run": run_name("tiny", config)}
    else:
        value["run"] = "tiny-00000000-s0"
    value |= changes
    if value["run"] == run.name:
        value["run"] = "tiny-11111111-s0"
    folder = layout.runs.within(f"testing/tiny/{value['run']}")
    shutil.copytree(run.place, folder.place)
    folder.write(CONFIG_FILE, json.dumps(with_digest(value)).encode())
    return folder


FOREIGN: dict[str, Callable[[Layout], Folder]] = {
    "architecture": lambda layout: beside(layout, model={"architecture": "gru_stack"}),
    "format": lambda layout: beside(layout, format_version=99),
    "option": lambda layout: beside(layout, model={"architecture": "trm", "depth_gate": 1}),
}


@pytest.mark.integration
@pytest.mark.parametrize("lacks", FOREIGN)
def test_a_foreign_run_is_a_note_and_the_exit_code_is_0(layout: Layout, lacks: str) -> None:
    foreign = FOREIGN[lacks](layout)
    root = ("--root", layout.place)
    done = run_here(eval_main, "sql", COUNT, "--format", "csv", *root)
    assert (done.returncode, done.stdout.split()) == (0, ["runs", "1"])
    assert foreign.name in done.stderr
    done = run_here(eval_main, "duckdb", str(Path(layout.place) / "all.duckdb"), *root)
    assert done.returncode == 0, done.stderr
    assert foreign.name in done.stderr
    done = run_here(train_main, "status", *root)
    assert done.returncode == 0, done.stderr
    assert foreign.name in done.stdout
    with pytest.warns(UserWarning, match=foreign.name):
        assert trm_eval.sql(COUNT, layout).item() == 1


@pytest.mark.parametrize("lacks", FOREIGN)
def test_a_foreign_run_that_is_named_itself_is_an_error(layout: Layout, lacks: str) -> None:
    foreign = FOREIGN[lacks](layout)
    code, line = error_of(eval_main, "run", foreign.name, "--root", layout.place)
    assert code == 2
    assert foreign.name in line


def test_a_mixer_that_is_not_there_is_a_row_and_cannot_answer(layout: Layout) -> None:
    foreign = beside(layout, model={"mixer": "gru"})
    done = run_here(eval_main, "sql", COUNT, "--format", "csv", "--root", layout.place)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["runs", "2"], "")
    for command in (["run", foreign.name], ["predict", foreign.name, "--puzzle", "." * 36]):
        code, line = error_of(eval_main, *command, "--root", layout.place)
        assert (code, "model.mixer" in line, "'gru'" in line) == (2, True, True), line


def test_a_damaged_record_beside_a_foreign_one_stays_an_error(layout: Layout) -> None:
    foreign = FOREIGN["format"](layout)
    damaged = layout.runs.within("testing/tiny/tiny-22222222-s0")
    damaged.write(CONFIG_FILE, (foreign.read(CONFIG_FILE) or b"").replace(b"99", b"98"))
    done = run_here(eval_main, "sql", COUNT, "--root", layout.place)
    assert done.returncode == 1
    assert all(run.name in done.stderr for run in (foreign, damaged))
