"""Packing and reading back, and all packages that are refused."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.conftest import run_here
from tests.support.roots import root_with
from tests.trm_eval.conftest import Evaluated
from trm_data.storage.atomic import file_sha256, json_bytes, with_digest
from trm_data.storage.root import Layout, resolve_root
from trm_eval.cli import main
from trm_eval.errors import EvalError, PackageError
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_eval.package.contents import CARD, PACKAGE_FILE
from trm_eval.package.hub import fetch_package
from trm_eval.package.pack import Packed, pack_run
from trm_eval.package.unpack import unpack_run
from trm_eval.package.weights import _padded, arrays_of, tree_of
from trm_eval.statistics.intervals import wilson
from trm_eval.tables.query import query_results
from trm_train.checkpoint.manager import restore_weights, weights_steps
from trm_train.checkpoint.tree import weights_tree
from trm_train.config.run import config_from_json, identity_hash
from trm_train.errors import CheckpointError, ConfigError
from trm_train.mesh.fingerprint import fingerprints
from trm_train.metrics.table import read_metrics
from trm_train.runs.record import find_run, list_runs, run_name
from trm_train.runs.status import read_status
from trm_train.state import abstract_weights

ANSWERS = "SELECT row, prediction, q_halt_logit FROM predictions WHERE evaluation = ? ORDER BY row"


@pytest.fixture(scope="module")
def packed(evaluated: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """A packed run. Tests must not change it."""
    return pack_run(evaluated.layout, evaluated.folder, tmp_path_factory.mktemp("packed") / "tiny")


@pytest.fixture
def package(packed: Packed, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(packed.folder, tmp_path / "package"))


@pytest.fixture
def root(evaluated: Evaluated, tmp_path: Path) -> Layout:
    """A root with only the dataset."""
    return root_with("small", tmp_path / "root", evaluated.layout)


def answers(layout: Layout, request: EvalRequest) -> list[tuple[Any, ...]]:
    evaluation = evaluate_run(layout, list_runs(layout)[0], request).row["evaluation"]
    return query_results(layout, ANSWERS, [evaluation]).rows


@pytest.mark.parametrize("weights", ["ema", "raw"])
def test_what_is_read_back_answers_the_same(
    evaluated: Evaluated, package: Path, root: Layout, weights: Any, tmp_path: Path
) -> None:
    done = unpack_run(package, root)
    assert (done.step, done.unchanged, done.card_edited, done.datasets) == (12, False, False, ("small",))
    assert query_results(root, "SELECT count(*) FROM all_evals").rows == [(0,)]  # measured elsewhere
    request = EvalRequest(weights=weights, checkpoint="12")
    original = resolve_root(shutil.copytree(evaluated.layout.place, tmp_path / "original"))
    assert answers(root, request) == answers(original, request)


def test_the_run_that_is_read_back_has_its_past(evaluated: Evaluated, package: Path, root: Layout) -> None:
    unpack_run(package, root)
    folder = find_run(root, "tiny")
    assert read_metrics(folder, 12).equals(read_metrics(evaluated.folder, 12))
    assert weights_steps(folder) == [12]
    status = read_status(folder)
    assert status is not None
    assert (status.state, status.step, status.host) == ("finished", 12, "")
    columns = "run, identity, seed, dataset, content_digest, config, total_steps, parameters, state, step"
    query = f"SELECT {columns} FROM runs"
    assert query_results(root, query).rows == query_results(evaluated.layout, query).rows


@pytest.mark.integration
def test_an_earlier_checkpoint_is_packed_with_the_metrics_up_to_it(
    trained: Evaluated, root: Layout, tmp_path: Path
) -> None:
    packed = pack_run(trained.layout, trained.folder, tmp_path / "early", checkpoint="8")
    assert (packed.step, packed.evaluations) == (8, 1)
    assert "were not tested before they were packed" in (tmp_path / "early" / CARD).read_text()
    unpack_run(tmp_path / "early", root)
    metrics = read_metrics(find_run(root, "tiny"), 8)
    assert max(metrics["step"].to_pylist()) == 8
    assert query_results(root, "SELECT step, total_steps FROM runs").rows == [(8, 12)]


def test_packing_twice_gives_the_same_digest(evaluated: Evaluated, packed: Packed, tmp_path: Path) -> None:
    again = pack_run(evaluated.layout, evaluated.folder, tmp_path / "again")
    assert again.digest == packed.digest
    assert again.files == packed.files
    with pytest.raises(PackageError, match="already exists; choose another folder"):
        pack_run(evaluated.layout, evaluated.folder, tmp_path / "again")


def test_weights_are_plain_arrays_under_the_published_names(evaluated: Evaluated, package: Path) -> None:
    weights = np.load(package / "weights.npz", allow_pickle=False)
    raw = np.load(package / "raw.npz", allow_pickle=False)
    width = evaluated.record.config.model.hidden_size
    assert weights["inner.embed_tokens.embedding_weight"].shape == (
        evaluated.record.input_spec.vocabulary_size,
        width,
    )
    assert {"inner.H_init", "inner.L_init", "inner.puzzle_emb.weights"} <= set(weights.files)
    assert set(raw.files) == {
        name for name in weights.files if "init" not in name and "puzzle_emb" not in name
    }
    assert not np.array_equal(weights["inner.lm_head.weight"], raw["inner.lm_head.weight"])
    assert {weights[name].dtype for name in weights.files} == {np.dtype(np.float32)}


def test_any_network_comes_back_by_the_names_of_its_tree(
    evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trm_eval.package.weights.has_published_names", lambda *_: False)
    record = evaluated.record
    like = weights_tree(abstract_weights(record.config, record.input_spec)[1])
    tree, _ = restore_weights(evaluated.folder, 12, like)
    arrays = arrays_of(record, tree)
    assert {name.partition(".")[0] for name in arrays["weights.npz"]} == {"params", "fixed", "puzzle_table"}
    assert fingerprints(tree_of(record, arrays, like)) == fingerprints(tree)
    del arrays["raw.npz"]["params.lm_head.kernel"]
    with pytest.raises(PackageError, match=r"missing \['params.lm_head.kernel'\]"):
        tree_of(record, arrays, like)


def test_results_and_recipe_are_packed_and_no_puzzles(evaluated: Evaluated, package: Path) -> None:
    evals = pq.read_table(package / "results" / "evals.parquet")
    (row,) = evals.to_pylist()
    assert (row["run"], row["count"], row["exact_count"]) == (
        evaluated.record.run,
        12,
        evaluated.row["exact_count"],
    )
    assert all(field.metadata[b"comment"] for field in evals.schema)
    assert json.loads((package / "results" / "evals.json").read_text())[0]["evaluation"] == row["evaluation"]
    depth = json.loads((package / "results" / "depth.json").read_text())
    assert [item["exact_count"] for item in depth] == row["exact_by_depth"]
    (dataset,) = json.loads((package / "dataset.json").read_text())["datasets"]
    assert dataset["content_digest"] == evaluated.record.content_digest
    assert dataset["command"].startswith("trm-data build sudoku --box 2x3 --size 24")
    assert dataset["splits"]["test"] == {"examples": 12, "digest": evaluated.test.split_digest}
    assert (package / "config.json").read_bytes() == evaluated.folder.read("config.json")
    assert sum(path.stat().st_size for path in package.rglob("*.array_record")) == 0


def test_the_card_has_intervals_and_is_read_by_the_hubs_own_library(
    evaluated: Evaluated, package: Path, tmp_path: Path
) -> None:
    text = (package / CARD).read_text()
    interval = wilson(evaluated.row["exact_count"], 12)
    assert f"({100 * interval.low:.2f}% to {100 * interval.high:.2f}%)" in text
    assert "# license: choose one" in text
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra hf")
    licensed = tmp_path / "licensed"
    pack_run(evaluated.layout, evaluated.folder, licensed, license="apache-2.0", place="hf:me/tiny")
    card = hub.ModelCard((licensed / CARD).read_text())
    assert (card.data.license, card.data.library_name) == ("apache-2.0", "trm-lab")
    exact, cells = card.data.eval_results
    assert (exact.metric_type, exact.metric_value, exact.dataset_split) == (
        "exact_accuracy",
        evaluated.row["exact_count"] / 12,
        "test",
    )
    assert cells.metric_type == "cell_accuracy"
    assert "trm-eval import hf:me/tiny --root trm" in card.text
    assert "sudoku" in card.data.tags


def test_results_stand_beside_the_card_with_their_protocol(evaluated: Evaluated, packed: Packed) -> None:
    (path,) = (packed.folder / ".eval_results").iterdir()
    assert path.name == f"small-test-exact_accuracy-{evaluated.row['evaluation']}.yaml"
    assert f".eval_results/{path.name}" in packed.files
    (result,) = yaml.safe_load(path.read_text())
    share = evaluated.row["exact_count"] / evaluated.row["count"]
    assert result["dataset"] == {"id": "small", "task_id": "exact_accuracy"}
    assert result["value"] == pytest.approx(100 * share, abs=1e-3)
    model, steps = evaluated.record.config.model, evaluated.row["supervision_steps"]
    for said in (
        f"{evaluated.row['count']} rows of the test split of small",
        f"{steps} supervision steps",
        "1 sample",
        f"{model.forward_dtype} precision",
        "ema weights",
        f"{steps * model.h_cycles * (model.l_cycles + 1)} network calls a puzzle",
        "FLOP a puzzle",
    ):
        assert said in result["notes"], result["notes"]


def test_the_code_of_the_card_reads_the_weights(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (package / CARD).read_text(), re.DOTALL)
    monkeypatch.chdir(package)
    exec(compile(code, "card", "exec"), {})
    assert "'inner.lm_head.weight': (" in capsys.readouterr().out


def resealed(package: Path, change: Callable[[dict[str, Any]], None] | None = None) -> None:
    """Write a `package.json` that matches the changed files, as an attacker would."""
    value = json.loads((package / PACKAGE_FILE).read_text())
    for name, file in value["files"].items():
        path = package / name
        if path.is_file():
            file |= {"size_bytes": path.stat().st_size, "sha256": file_sha256(path)}
    if change is not None:
        change(value)
    (package / PACKAGE_FILE).write_bytes(json_bytes(with_digest(value)))


class Boom:
    """Runs code when unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('was run')",))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "weights.npz",
        "raw.npz",
        "dataset.json",
        "results/evals.json",
        "results/train_metrics.parquet",
        PACKAGE_FILE,
    ],
)
def test_a_file_that_was_edited_or_lost_is_refused(package: Path, root: Layout, name: str) -> None:
    flip(package / name)
    with pytest.raises(PackageError, match=re.escape(name)):
        unpack_run(package, root)
    (package / name).unlink()
    with pytest.raises(PackageError, match=re.escape(name)):
        unpack_run(package, root)
    assert not list_runs(root)
    assert not root.runs.names()


def test_a_card_may_be_edited_and_that_is_said(package: Path, tmp_path: Path) -> None:
    (package / CARD).write_text("license: mine")
    done = run_here(main, "import", str(package), "--root", str(tmp_path / "root"))
    assert done.returncode == 0, done.stderr
    assert "its card was edited" in done.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda value: value["files"].update({"../../x": value["files"]["raw.npz"]}),
            r"names '../../x', which does not",
        ),
        (
            lambda value: value["files"].update({"/etc/passwd": value["files"]["raw.npz"]}),
            "which does not belong to a",
        ),
        (lambda value: value["files"].pop("raw.npz"), "names no raw.npz"),
        (lambda value: value.update(run="other-00000000-s0"), "is of the run 'other-00000000-s0'"),
        (lambda value: value.update(format_version=99), "newer version of trm-lab; upgrade it"),
        (lambda value: value.update(step=-1), "is not a package of a run"),
        (lambda value: value.update(step=10**30), "is not a package of a run"),
        (lambda value: value.update(step=2**63), "is not a package of a run"),
        (lambda value: value.update(step="12"), "is not a package of a run"),
        (lambda value: value.update(code_version="x" * 500), "a line of up to 256 characters"),
        (lambda value: value["training"].update(ended_at="2026\n"), "a line of up to 256 characters"),
        (lambda value: value["training"].update(seconds="abc"), "a number from 0, got 'abc'"),
        (lambda value: value["training"].update(examples_per_s=float("inf")), "a number from 0, got 'inf'"),
        (lambda value: value.update(extra=1), "is not a package of a run"),
        (lambda value: value.update(files=[]), "is not a package of a run"),
        (
            lambda value: value["fingerprints"].update({"ema.lm_head.kernel": 1}),
            "are not those that were packed",
        ),
    ],
)
def test_a_description_that_was_made_up_is_refused(
    package: Path, root: Layout, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    resealed(package, change)
    with pytest.raises(PackageError, match=message):
        unpack_run(package, root)
    assert not root.runs.names()


@pytest.mark.parametrize(
    "changes",
    [
        {"run": "../../../OUTSIDE"},
        {"experiment": "../../OUTSIDE"},
        {"group": "../OUTSIDE"},
        {"group": "/tmp/OUTSIDE"},
    ],
)
def test_names_cannot_leave_the_root(
    package: Path, root: Layout, tmp_path: Path, changes: dict[str, str]
) -> None:
    config = json.loads((package / "config.json").read_text())
    (package / "config.json").write_bytes(json_bytes(with_digest({**config, **changes})))
    resealed(package, lambda value: value.update({"run": changes.get("run", value["run"])}))
    with pytest.raises(ConfigError, match=r"config\.json"):
        unpack_run(package, root)
    assert not list(tmp_path.rglob("*OUTSIDE*"))
    assert not root.runs.names()


def object_array(path: Path) -> None:
    np.savez(path, allow_pickle=True, **{"inner.lm_head.weight": np.array([Boom()], object)})


def plain_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(Boom()))


def other_shape(path: Path) -> None:
    arrays = dict(np.load(path, allow_pickle=False))
    arrays["inner.lm_head.weight"] = arrays["inner.lm_head.weight"][:, :-1]
    np.savez(path, **arrays)


def float64(path: Path) -> None:
    arrays = dict(np.load(path, allow_pickle=False))
    arrays["inner.lm_head.weight"] = arrays["inner.lm_head.weight"].astype(np.float64)
    np.savez(path, **arrays)


def one_missing(path: Path) -> None:
    arrays = dict(np.load(path, allow_pickle=False))
    del arrays["inner.lm_head.weight"]
    np.savez(path, **arrays)


def one_unknown(path: Path) -> None:
    np.savez(path, **dict(np.load(path, allow_pickle=False)), other=np.zeros(1, np.float32))


def huge(path: Path) -> None:
    """Write a header that claims far more data than there is."""
    with zipfile.ZipFile(path, "w") as archive, archive.open("inner.lm_head.weight.npy", "w") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(b"\0" * 64)


def bomb(path: Path) -> None:
    """Write a few kB that expand to 100 MB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.lm_head.weight.npy", b"\0" * 100_000_000)


def compressed(path: Path) -> None:
    """Write the right arrays in LZMA-compressed members."""
    members = read_members(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def read_members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("name", ["weights.npz", "raw.npz"])
@pytest.mark.parametrize(
    "harm",
    [object_array, plain_pickle, other_shape, float64, one_missing, one_unknown, huge, bomb, compressed],
)
def test_weights_that_are_no_plain_arrays_of_this_network_are_refused(
    package: Path, root: Layout, name: str, harm: Callable[[Path], None]
) -> None:
    harm(package / name)
    resealed(package)
    with pytest.raises(PackageError):
        unpack_run(package, root)
    assert not root.runs.names()


def test_a_description_that_is_a_pipe_is_not_waited_for(package: Path, root: Layout) -> None:
    (package / PACKAGE_FILE).unlink()
    os.mkfifo(package / PACKAGE_FILE)
    with pytest.raises(PackageError, match=PACKAGE_FILE):
        unpack_run(package, root)


def reconfigured(package: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the configuration, with matching identity and name."""
    config = json.loads((package / "config.json").read_text())
    change(config["config"])
    run = config_from_json(config["config"])
    config |= {"identity": identity_hash(run), "run": run_name(config["experiment"], run)}
    (package / "config.json").write_bytes(json_bytes(with_digest(config)))
    resealed(package, lambda value: value.update({"run": config["run"]}))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda config: config.update(seed=10**30), "10"),
        (lambda config: config.update(total_steps=10**30), "10"),
        (lambda config: config.update(seed=2**40), "seed"),
        (lambda config: config["model"].update(num_layers=10**6), "num_layers"),
    ],
    ids=["seed of 10^30", "steps of 10^30", "seed of 2^40", "a million layers"],
)
def test_numbers_out_of_bounds_are_refused(
    package: Path, root: Layout, change: Callable[[dict[str, Any]], object], named: str
) -> None:
    reconfigured(package, change)
    with pytest.raises((PackageError, ConfigError), match=named):
        unpack_run(package, root)
    assert not root.runs.names()


def test_metrics_of_steps_before_the_first_are_refused(package: Path, root: Layout) -> None:
    path = package / "results" / "train_metrics.parquet"
    table = pq.read_table(path)
    steps = pa.array([-1] * len(table), table.schema.field("step").type)
    pq.write_table(table.set_column(table.schema.get_field_index("step"), "step", steps), path)
    resealed(package)
    with pytest.raises(PackageError, match="step -1"):
        unpack_run(package, root)


def test_metrics_of_more_rows_than_a_run_writes_are_not_read(
    package: Path, root: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trm_eval.package.unpack.MOST_METRIC_ROWS", 2)
    with pytest.raises(PackageError, match="expected up to 2"):
        unpack_run(package, root)
    assert not root.runs.names()


def test_metrics_of_far_more_text_than_bytes_are_not_read(
    package: Path, root: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = package / "results" / "train_metrics.parquet"
    table = pq.read_table(path)
    splits = pa.array(["t" * 500_000] * len(table))
    table = table.set_column(table.schema.get_field_index("split"), "split", splits)
    pq.write_table(table, path, compression="zstd", store_schema=False)
    resealed(package)
    monkeypatch.setattr("trm_data.sources.unpack.ALWAYS_READ", 1000)
    with pytest.raises(PackageError, match="decompresses to more than"):
        unpack_run(package, root)
    assert not root.runs.names()


def test_a_table_is_not_filled_up_to_identifiers_that_it_lacks() -> None:
    with pytest.raises(CheckpointError, match="3 rows for 1,000,000,000,000 identifiers"):
        _padded(np.zeros((3, 4), np.float32), 10**12)


@pytest.mark.parametrize("name", ["config.json", "package.json"])
def test_half_a_character_is_one_line(package: Path, root: Layout, name: str) -> None:
    value = json.loads((package / name).read_text())
    value["experiment" if name == "config.json" else "run"] = "\ud800"
    (package / name).write_text(json.dumps(with_digest(value)))
    if name == "config.json":
        resealed(package)
    done = run_here(main, "import", str(package), "--root", root.place)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "lone surrogate" in done.stderr
    assert name in done.stderr


def test_an_error_with_a_name_of_half_a_million_letters_is_cut(package: Path, root: Layout) -> None:
    reconfigured(package, lambda config: config["model"].update(mixer="x" * 500_000))
    done = run_here(main, "import", str(package), "--root", root.place)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert len(done.stderr) < 11_000
    assert "model.mixer" in done.stderr


class Hub:
    """Stand-in for the Hugging Face hub, with file sizes set by a test; nothing can be downloaded."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sha, self.siblings = "1" * 40, [SimpleNamespace(rfilename=n, size=s) for n, s in sizes.items()]

    def model_info(self, *_: object, files_metadata: bool = False, **__: object) -> Hub:
        self.siblings = self.siblings if files_metadata else []
        return self


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({PACKAGE_FILE: 1 << 40}, "package.json has 1,099,511,627,776 bytes"),
        ({CARD: 1 << 40}, "README.md has 1,099,511,627,776 bytes"),
        ({"weights.npz": 1 << 60}, "weights.npz has 1,152,921,504,606,846,976 bytes, but"),
        ({}, "but .* has room for 10"),
    ],
)
def test_sizes_are_known_before_a_package_is_fetched(
    package: Path, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int], message: str, tmp_path: Path
) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra hf")
    there = {path.relative_to(package).as_posix(): path.stat().st_size for path in package.rglob("*.*")}
    fetched: list[str] = []

    def download(_: str, name: str, **__: object) -> str:
        fetched.append(name)
        return str(package / name)

    monkeypatch.setattr(hub, "HfApi", lambda: Hub({**there, **sizes}))
    monkeypatch.setattr(hub, "hf_hub_download", download)
    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda *_, **__: None)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(PackageError, match=message):
        fetch_package("hf:me/tiny")
    assert set(fetched) <= {PACKAGE_FILE}


def test_metrics_that_are_none_are_refused(package: Path, root: Layout) -> None:
    shutil.copyfile(package / "results" / "evals.parquet", package / "results" / "train_metrics.parquet")
    resealed(package)
    with pytest.raises(PackageError, match="holds no training metrics"):
        unpack_run(package, root)
    assert not root.runs.names()


@pytest.mark.integration
def test_nothing_is_written_over_a_run_that_is_there(
    trained: Evaluated, root: Layout, tmp_path: Path
) -> None:
    package = pack_run(trained.layout, trained.folder, tmp_path / "tiny").folder
    assert unpack_run(package, root).unchanged is False
    assert unpack_run(package, root).unchanged is True
    early = pack_run(trained.layout, trained.folder, tmp_path / "early", checkpoint="4").folder
    before = {name: root.runs.read(name) for name in root.runs.names()}
    with pytest.raises(
        PackageError, match=r"is this run without weights of step 4; nothing is written over it"
    ):
        unpack_run(early, root)
    folder = list_runs(root)[0]
    value = {**json.loads(folder.read("config.json") or b""), "content_digest": "0" * 64}
    folder.write("config.json", json_bytes(with_digest(value)))
    with pytest.raises(PackageError, match=r"is another run with this name"):
        unpack_run(package, root)
    folder.write("config.json", b"{")
    with pytest.raises(PackageError, match=r"(?i)remove it first"):
        unpack_run(package, root)
    assert {name: root.runs.read(name) for name in root.runs.names()} | {
        name: content for name, content in before.items() if name.endswith("config.json")
    } == before


def test_an_import_that_was_cut_off_is_begun_anew(package: Path, root: Layout) -> None:
    done = unpack_run(package, root)
    folder = list_runs(root)[0]
    folder.delete("config.json")  # written last
    assert not list_runs(root)
    assert unpack_run(package, root).folder == done.folder
    assert weights_steps(folder) == [12]
    assert len(list(folder.within("metrics").names())) == 1


def test_a_run_that_cannot_be_packed_leaves_nothing(evaluated: Evaluated, tmp_path: Path) -> None:
    layout = resolve_root(shutil.copytree(evaluated.layout.place, tmp_path / "root"))
    run = list_runs(layout)[0]
    with pytest.raises(EvalError, match="--checkpoint 5"):
        pack_run(layout, run, tmp_path / "out", checkpoint="5")
    for path in Path(run.uri("checkpoints/weights/12")).rglob("*"):
        if path.is_file() and path.stat().st_size > 2_000:
            flip(path)
    with pytest.raises(CheckpointError):
        pack_run(layout, run, tmp_path / "out")
    shutil.rmtree(run.uri("checkpoints/weights"))
    with pytest.raises(EvalError, match="has no checkpoint yet"):
        pack_run(layout, run, tmp_path / "out")
    assert not list(tmp_path.glob("*out*"))


def test_a_run_whose_dataset_is_not_there_says_only_its_digest(evaluated: Evaluated, tmp_path: Path) -> None:
    layout = resolve_root(shutil.copytree(evaluated.layout.place, tmp_path / "root"))
    shutil.rmtree(layout.dataset("small").here)
    packed = pack_run(layout, list_runs(layout)[0], tmp_path / "out")
    (dataset,) = json.loads((packed.folder / "dataset.json").read_text())["datasets"]
    assert (dataset["command"], dataset["spec"]) == (None, None)
    assert dataset["content_digest"] == evaluated.record.content_digest


def test_the_commands_say_what_to_do_next(evaluated: Evaluated, tmp_path: Path) -> None:
    out, root = str(tmp_path / "out"), str(tmp_path / "root")
    nowhere = run_here(main, "export", "tiny", "--root", evaluated.layout.place)
    assert nowhere.returncode == 2
    assert "--out DIR for a folder, or --push OWNER/NAME" in nowhere.stderr
    done = run_here(main, "export", "tiny", "--out", out, "--root", evaluated.layout.place)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"trm-eval import {out} --root DIR" in done.stdout
    assert "states no licence" in done.stdout
    done = run_here(main, "import", out, "--json", "--root", root)
    assert json.loads(done.stdout)["run"] == evaluated.record.run
    refused = run_here(main, "import", str(tmp_path), "--root", root)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "is not a package of a run" in refused.stderr
