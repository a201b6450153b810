"""An exported run is a folder that commands take as a run; edited and damaged folders are refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import stats

import trm_eval
from tests.conftest import error_of, run_here
from tests.support.roots import root_with
from tests.trm_eval.conftest import Evaluated
from trm_data.storage.atomic import with_digest
from trm_data.storage.root import Layout, resolve_root
from trm_eval.cli import main
from trm_eval.errors import EvalError
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.export import CARD, Exported, export_run, write_hub_results
from trm_eval.identity import EvalRequest
from trm_eval.tables.query import query_results
from trm_train.checkpoint.tree import CHECKPOINT, FILE, read_meta
from trm_train.errors import CheckpointError
from trm_train.runs.record import find_run, list_runs
from trm_train.training.initial import start_from
from trm_train.weights import read_safetensors, write_safetensors

ANSWERS = "SELECT row, prediction, q_halt_logit FROM predictions WHERE evaluation = ? ORDER BY row"


@pytest.fixture(scope="module")
def exported(evaluated: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """An exported run. Tests must not change it."""
    return export_run(evaluated.layout, evaluated.folder, tmp_path_factory.mktemp("exported") / "tiny")


@pytest.fixture
def folder(exported: Exported, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(exported.folder, tmp_path / "exported"))


@pytest.fixture
def root(evaluated: Evaluated, tmp_path: Path) -> Layout:
    """A root with only the dataset."""
    return root_with("small", tmp_path / "root", evaluated.layout)


def answers(layout: Layout, run: str, request: EvalRequest) -> list[tuple[Any, ...]]:
    evaluation = evaluate_run(layout, find_run(layout, run), request).row["evaluation"]
    return query_results(layout, ANSWERS, [evaluation]).rows


@pytest.mark.parametrize("weights", ["ema", "raw"])
def test_the_folder_is_evaluated_to_the_same_answers(
    evaluated: Evaluated, exported: Exported, root: Layout, weights: Any, tmp_path: Path
) -> None:
    request = EvalRequest(weights=weights, checkpoint="12")
    original = resolve_root(shutil.copytree(evaluated.layout.place, tmp_path / "original"))
    assert answers(root, str(exported.folder), request) == answers(original, "tiny", request)
    assert not list_runs(root)


def test_the_folder_predicts_and_is_started_from(
    evaluated: Evaluated, exported: Exported, root: Layout
) -> None:
    args = ("--row", "0", "--json", "--root", root.place)
    done = run_here(main, "predict", str(exported.folder), *args)
    assert done.returncode == 0, done.stderr
    known = run_here(main, "predict", "tiny", "--row", "0", "--json", "--root", evaluated.layout.place)
    assert json.loads(done.stdout) == json.loads(known.stdout)
    config, initial = start_from(str(exported.folder), evaluated.record.config, root)
    other, _ = start_from("tiny", evaluated.record.config, evaluated.layout)
    assert config.initial == other.initial
    assert "at step 12" in initial.note
    assert trm_eval.load(str(exported.folder), root).step == 12


def test_an_earlier_checkpoint_has_its_own_results(trained: Evaluated, tmp_path: Path) -> None:
    done = export_run(trained.layout, trained.folder, tmp_path / "early", checkpoint="8")
    assert (done.step, done.evaluations, done.files) == (8, 0, (CARD, "config.json", FILE))
    assert "were not tested" in (tmp_path / "early" / CARD).read_text()
    assert read_meta(tmp_path / "early" / FILE)["step"] == 8
    with pytest.raises(EvalError, match="early: the folder exists"):
        export_run(trained.layout, trained.folder, tmp_path / "early")


def test_weights_are_plain_arrays_by_the_names_of_the_tree(evaluated: Evaluated, exported: Exported) -> None:
    arrays = read_safetensors(exported.folder / FILE)
    assert {name.partition(".")[0] for name in arrays} == {"params", "ema", "fixed", "puzzle_table"}
    width = evaluated.record.config.model.hidden_size
    assert arrays["ema.lm_head.kernel"].shape[0] == width
    assert not np.array_equal(arrays["ema.lm_head.kernel"], arrays["params.lm_head.kernel"])
    assert not list(exported.folder.rglob("*.array_record"))


def test_the_card_has_intervals_and_is_read_by_the_hubs_own_library(
    evaluated: Evaluated, exported: Exported, tmp_path: Path
) -> None:
    text = (exported.folder / CARD).read_text()
    interval = stats.binomtest(evaluated.row["exact_count"], 12).proportion_ci(method="wilson")
    assert f"({100 * interval.low:.2f}% to {100 * interval.high:.2f}%)" in text
    assert "# license: choose one" in text
    model, steps = evaluated.record.config.model, evaluated.row["supervision_steps"]
    for part in (
        f"| max_steps, {steps} supervision steps, {model.forward_dtype} precision |",
        f"| {steps * model.h_cycles * (model.l_cycles + 1)} network calls, ",
        f"| test (`{evaluated.row['split_digest'][:12]}`) | {evaluated.row['count']} | ema |",
    ):
        assert part in text
    (shell,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    build, run = shell.splitlines()
    assert build.startswith("trm-data build sudoku --box 2x3 --size 24")
    assert run == "trm-eval run . --root trm"
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra hf")
    export_run(evaluated.layout, evaluated.folder, tmp_path / "licensed", license="apache-2.0")
    card = hub.ModelCard((tmp_path / "licensed" / CARD).read_text())
    assert (card.data.license, card.data.library_name) == ("apache-2.0", "trm-lab")
    assert "sudoku" in card.data.tags


def test_results_stand_beside_the_card_with_their_protocol(evaluated: Evaluated, exported: Exported) -> None:
    (path,) = (exported.folder / ".eval_results").iterdir()
    assert path.name == f"small-test-exact_accuracy-{evaluated.row['evaluation']}.yaml"
    assert f".eval_results/{path.name}" in exported.files
    (result,) = yaml.safe_load(path.read_text())
    share = evaluated.row["exact_count"] / evaluated.row["count"]
    assert result["dataset"] == {"id": "small", "task_id": "exact_accuracy"}
    assert result["value"] == pytest.approx(100 * share, abs=1e-3)
    model, steps = evaluated.record.config.model, evaluated.row["supervision_steps"]
    for part in (
        f"{evaluated.row['count']} rows of the test split of small",
        f"{steps} supervision steps",
        "max_steps",
        f"{model.forward_dtype} precision",
        "ema weights",
        f"{steps * model.h_cycles * (model.l_cycles + 1)} network calls a puzzle",
        "FLOP a puzzle",
    ):
        assert part in result["notes"], result["notes"]


def test_no_result_names_a_published_dataset_or_is_of_training_rows(
    evaluated: Evaluated, tmp_path: Path
) -> None:
    found = query_results(evaluated.layout, "SELECT * FROM evals")
    (row,) = (dict(zip(found.columns, values, strict=True)) for values in found.rows)
    named = row | {"dataset": "sudoku-extreme-1000-aug-1000", "how": "halting, blank identifiers"}
    write_hub_results(tmp_path, [named, named | {"split": "train"}])
    (written,) = (tmp_path / ".eval_results").iterdir()
    (result,) = json.loads(written.read_text())
    assert result["dataset"]["id"] == "sudoku-extreme-1000-aug-1000"
    assert "halting, blank identifiers" in result["notes"]


def rewrite(path: Path, change: Any) -> None:
    """Change the arrays and the meta of an exported file, as an attacker would."""
    arrays, meta = read_safetensors(path), read_meta(path)
    change(arrays, meta)
    write_safetensors(path, arrays, CHECKPOINT, json.dumps(meta))


def wrong_value(arrays: dict[str, Any], _: dict[str, Any]) -> None:
    arrays["ema.lm_head.kernel"] = arrays["ema.lm_head.kernel"] + np.float32(1)


def other_rows(_: dict[str, Any], meta: dict[str, Any]) -> None:
    meta |= with_digest({**{k: v for k, v in meta.items() if k != "digest"}, "content_digest": "0" * 64})


def no_step(_: dict[str, Any], meta: dict[str, Any]) -> None:
    meta["step"] = "twelve"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (wrong_value, "not those that were saved: ema.lm_head.kernel"),
        (other_rows, "of another configuration or dataset"),
        (no_step, "not weights of trm-eval export"),
    ],
)
def test_weights_that_were_changed_are_refused(folder: Path, root: Layout, change: Any, message: str) -> None:
    rewrite(folder / FILE, change)
    with pytest.raises(CheckpointError, match=message):
        evaluate_run(root, find_run(root, str(folder)), EvalRequest())
    assert not root.results.names()


def test_other_files_are_refused(folder: Path, root: Layout) -> None:
    (folder / FILE).write_bytes(b"PK\x03\x04" * 100)
    code, line = error_of(main, "run", str(folder), "--root", root.place)
    assert (code, f"{FILE}: cannot be read as safetensors" in line) == (2, True)
    (folder / FILE).unlink()
    (folder / "package.json").write_text("{}")
    code, line = error_of(main, "run", str(folder), "--root", root.place)
    assert (code, "trm-train import-weights" in line) == (2, True)


def test_a_damaged_checkpoint_is_not_exported(evaluated: Evaluated, tmp_path: Path) -> None:
    layout = resolve_root(shutil.copytree(evaluated.layout.place, tmp_path / "root"))
    (run,) = list_runs(layout)
    with pytest.raises(EvalError, match="--checkpoint 5"):
        export_run(layout, run, tmp_path / "out", checkpoint="5")
    for path in Path(run.uri("checkpoints/weights/12")).rglob("*"):
        if path.is_file() and path.stat().st_size > 2_000:
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
    with pytest.raises(CheckpointError):
        export_run(layout, run, tmp_path / "out")
    assert not list(tmp_path.glob("*out*"))
