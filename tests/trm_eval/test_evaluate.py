"""Selection of checkpoint and split; a repeated evaluation replaces itself."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import small_request
from tests.support.roots import copy_root, root_with
from tests.trm_eval.conftest import Evaluated
from tests.trm_train.test_loop import TINY, run
from trm_data.building.flow import build_dataset
from trm_data.errors import SpecError
from trm_data.loader.dataset import open_dataset
from trm_data.sources.base import parse_source
from trm_data.storage.atomic import with_digest
from trm_data.storage.local import LocalStore
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_eval.errors import EvalError
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.evaluation.prepare import choose_step
from trm_eval.identity import EvalRequest
from trm_eval.tables.query import query_results
from trm_eval.tables.writer import write_table
from trm_train.checkpoint.manager import COMMITTED
from trm_train.config.run import RunConfig
from trm_train.errors import CheckpointError, ConfigError
from trm_train.metrics import MetricTable
from trm_train.runs.record import CONFIG_FILE, find_run, list_runs


@pytest.fixture
def saved(tmp_path: Path) -> Folder:
    """A run with weights at three steps; the second has the best validation."""
    for step in (10, 20, 30):
        folder = tmp_path / "checkpoints" / "weights" / str(step)
        folder.mkdir(parents=True)
        (folder / COMMITTED).touch()
    (tmp_path / "checkpoints" / "weights" / "40.orbax-checkpoint-tmp").mkdir()
    folder = Folder(LocalStore(tmp_path.parent), tmp_path.name)
    table = MetricTable(folder)
    for step, exact in ((10, 3), (15, 9), (20, 7), (30, 5)):
        table.add(
            {"step": step, "split": "validation", "count": 10, "exact_accuracy": exact, "rows_loaded": 0}
        )
    table.take_part(30)
    table.write_parts()
    return folder


@pytest.mark.parametrize(("checkpoint", "step"), [("last", 30), ("best", 20), ("10", 10)])
def test_the_checkpoint_that_is_meant(saved: Folder, checkpoint: str, step: int) -> None:
    assert choose_step(saved, checkpoint) == step


def test_checkpoints_that_are_not_there(saved: Folder, tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="10, 20, 30"):
        choose_step(saved, "40")
    with pytest.raises(EvalError, match="no checkpoint yet"):
        choose_step(Folder(LocalStore(tmp_path), "run"), "last")


def test_a_run_without_validation_has_no_best(evaluated: Evaluated, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "weights" / "10"
    folder.mkdir(parents=True)
    (folder / COMMITTED).touch()
    with pytest.raises(EvalError, match=r"has no validated checkpoint\. Use --checkpoint last"):
        choose_step(Folder(LocalStore(tmp_path.parent), tmp_path.name), "best")


def test_a_limit_beyond_the_split_is_none(evaluated: Evaluated) -> None:
    again = evaluate_run(evaluated.layout, evaluated.folder, EvalRequest(limit=13))
    assert again.row["evaluation"] == evaluated.row["evaluation"]
    assert again.row["row_limit"] == 0
    count = "SELECT (SELECT count(*) FROM all_evals), (SELECT count(*) FROM all_predictions)"
    assert query_results(evaluated.layout, count).rows == [(1, 12)]  # it replaced itself


def test_the_row_counts_what_was_evaluated(evaluated: Evaluated) -> None:
    row = evaluated.row
    assert (row["split"], row["split_digest"]) == ("test", evaluated.test.split_digest)
    assert (row["count"], row["cells"], row["supervision_steps"]) == (12, 12 * 36, 3)
    assert row["parts"] == [f"{row['evaluation']}-00000"]
    query = (
        "SELECT count(*), sum(wrong_cells), count_if(exact), count_if(given_kept), count_if(valid), "
        "count(optimal) FROM predictions WHERE evaluation = ?"
    )
    counted = query_results(evaluated.layout, query, [row["evaluation"]]).rows
    sums = ("count", "wrong_cells", "exact_count", "given_kept_count", "valid_count")
    assert counted == [(*(row[name] for name in sums), 0)]
    assert row.get("optimal_count") is None


def test_the_dataset_must_be_the_one_it_learned_from(
    evaluated: Evaluated, tmp_path: Path, request_small: Any
) -> None:
    layout = resolve_root(tmp_path)
    copy_root(evaluated.layout, layout, "runs")
    build_dataset(request_small(seed=4), layout, shard_examples=200)
    (folder,) = list_runs(layout)
    with pytest.raises(EvalError, match="the run learned from"):
        evaluate_run(layout, folder, EvalRequest())
    assert not layout.results.names()


@pytest.fixture
def copied(evaluated: Evaluated, tmp_path: Path) -> Layout:
    """A root with copies of the dataset and the run, without results, that a test may change."""
    layout = root_with("small", tmp_path, evaluated.layout)
    copy_root(evaluated.layout, layout, "runs")
    return layout


def test_an_edited_configuration_is_not_believed(copied: Layout) -> None:
    (folder,) = list_runs(copied)
    value = json.loads(folder.read(CONFIG_FILE) or b"")
    value["config"]["model"]["l_cycles"] += 1
    folder.write(CONFIG_FILE, json.dumps(value).encode())
    with pytest.raises(ConfigError, match=r"was edited or damaged \(its digest differs\)"):
        evaluate_run(copied, folder, EvalRequest())
    folder.write(CONFIG_FILE, json.dumps(with_digest(value)).encode())
    with pytest.raises(ConfigError, match=r"its configuration is that of tiny-.*. It was edited or damaged"):
        evaluate_run(copied, folder, EvalRequest())
    assert not copied.results.names()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            dataclasses.replace(TINY, model=dataclasses.replace(TINY.model, h_cycles=1)),
            r"step 12 is of another configuration or dataset \(identity ",
        ),
        (dataclasses.replace(TINY, seed=1), r"step 12 is of the run tiny-[0-9a-f]{8}-s1; put its own back"),
    ],
)
def test_weights_of_another_run_are_not_believed(copied: Layout, config: RunConfig, message: str) -> None:
    (folder,) = list_runs(copied)
    other = run(copied, config)
    shutil.rmtree(folder.uri("checkpoints/weights"))
    shutil.copytree(other.folder.uri("checkpoints/weights"), folder.uri("checkpoints/weights"))
    with pytest.raises(CheckpointError, match=message):
        evaluate_run(copied, folder, EvalRequest())
    assert not copied.results.names()


def test_a_crafted_run_writes_nowhere_else(copied: Layout, tmp_path: Path) -> None:
    (folder,) = list_runs(copied)
    evil = tmp_path / "evil"
    shutil.copytree(folder.uri(), evil)
    before = {path for path in tmp_path.parent.rglob("*") if "results" not in path.parts}
    for changes in ({"run": "../../../OUTSIDE"}, {"experiment": "../../OUTSIDE"}, {"group": "../OUTSIDE"}):
        value = json.loads(folder.read(CONFIG_FILE) or b"") | changes
        (evil / CONFIG_FILE).write_text(json.dumps(with_digest(value)))
        with pytest.raises(ConfigError, match=r"evil/config\.json: "):
            evaluate_run(copied, find_run(copied, str(evil)), EvalRequest())
    assert {path for path in tmp_path.parent.rglob("*") if "OUTSIDE" in path.name} == set()
    assert {path for path in tmp_path.parent.rglob("*") if "results" not in path.parts} == before
    with pytest.raises(SpecError, match="is not a file name under the root"):
        write_table(copied, "runs", "e", "../../../OUTSIDE", "run", [])


def test_a_dataset_without_held_out_rows(evaluated: Evaluated, tmp_path: Path, request_small: Any) -> None:
    layout = resolve_root(tmp_path)
    copy_root(evaluated.layout, layout, "runs")
    build_dataset(request_small(val_size=0, test_size=0), layout, shard_examples=200)
    (folder,) = list_runs(layout)
    with pytest.raises(EvalError, match=r"dataset small has no held-out split; evaluate on --split train"):
        evaluate_run(layout, folder, EvalRequest())


def test_a_test_on_puzzles_of_the_training_split_is_warned_of(
    evaluated: Evaluated, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another dataset, whose 6 test puzzles are training puzzles of the run."""
    layout = resolve_root(shutil.copytree(evaluated.layout.place, tmp_path / "root"))
    trained = open_dataset("small", layout, "train")
    originals = trained[np.arange(24) * 10]["inputs"].astype(int) - 1
    path = tmp_path / "seen.txt"
    path.write_text("\n".join("".join(map(str, puzzle)) for puzzle in originals.tolist()))
    sizes = {"size": 10, "aug": 0, "val_size": 0, "test_size": 6}
    build_dataset(small_request(name="seen", source=parse_source(f"txt:{path}"), **sizes), layout)
    (folder,) = list_runs(layout)
    evaluate_run(layout, folder, EvalRequest(dataset="seen"))
    assert "6 of 6 puzzles of its test split are in the training split of small" in caplog.text
