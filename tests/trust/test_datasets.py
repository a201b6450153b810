"""Datasets: files next to the rows are not trusted either, and results name what they leave out."""

from __future__ import annotations

import dataclasses
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trm_data
import trm_data.cli
import trm_eval
import trm_eval.cli
import trm_train.cli
from tests.conftest import run_here
from tests.support.roots import root_with
from trm_data.building.flow import build_dataset
from trm_data.card import dataset_card
from trm_data.catalog.query import query_catalog
from trm_data.errors import QueryError
from trm_data.export import export_dataset
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import MANIFEST, _digest, read_manifest
from trm_data.records import SourceFile
from trm_data.storage.root import Layout
from trm_data.verify.flow import verify_dataset
from trm_eval.tables.query import query_results

BIN = Path(sys.executable).parent


@pytest.fixture
def layout(small_layout: Layout, tmp_path: Path) -> Layout:
    """Return a root with a copy of the small dataset, which a test may damage."""
    return root_with("small", tmp_path / "root", small_layout)


def first_sidecar(layout: Layout) -> Path:
    return sorted(layout.dataset("small").here.glob("train-*.array_record.json"))[0]


def run(program: str, *arguments: str, root: Path) -> subprocess.CompletedProcess[str]:
    mains = {"trm-data": trm_data.cli.main, "trm-eval": trm_eval.cli.main, "trm-train": trm_train.cli.main}
    return run_here(mains[program], *arguments, "--root", str(root))


# Sidecars: a rebuild trusts them, so a digest covers them and they are compared with the request.


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_examples", 41),
        ("sha256", "0" * 64),
        ("spec_digest", "0" * 64),
        ("file", "../../x.array_record"),
    ],
)
def test_a_damaged_sidecar_poisons_no_rebuild(
    layout: Layout, request_small: Any, key: str, value: object
) -> None:
    before = read_manifest(layout, "small")
    sidecar = first_sidecar(layout)
    whole = sidecar.read_bytes()
    sidecar.write_text(json.dumps({**json.loads(whole), key: value}))
    (layout.dataset("small").here / MANIFEST).unlink()
    built = build_dataset(request_small(), layout, shard_examples=200)
    assert (built.shards_written, built.shards_kept) == (1, len(list(sidecar.parent.glob("*.json"))) - 2)
    assert built.manifest.content_digest == before.content_digest
    assert sidecar.read_bytes() == whole
    assert verify_dataset(layout, "small").problems == []
    assert len(open_dataset("small", layout)) == before.splits["train"].num_examples


def test_sidecars_of_version_1_had_no_digest_and_are_written_again(
    layout: Layout, request_small: Any
) -> None:
    sidecar = first_sidecar(layout)
    value = json.loads(sidecar.read_bytes()) | {"sidecar_version": 1}
    del value["digest"]
    sidecar.write_text(json.dumps(value))
    (layout.dataset("small").here / MANIFEST).unlink()
    assert build_dataset(request_small(), layout, shard_examples=200).shards_written == 1


@pytest.mark.parametrize("content", [b"{", b'{"sidecar_version": 2}', b"surrogate"])
def test_a_sidecar_that_is_none_is_said_and_written_again(
    layout: Layout, request_small: Any, content: bytes
) -> None:
    sidecar = first_sidecar(layout)
    if content == b"surrogate":
        content = sidecar.read_bytes().replace(b'"file": "', b'"file": "\\ud800')
    sidecar.write_bytes(content)
    (layout.dataset("small").here / MANIFEST).unlink()
    assert build_dataset(request_small(), layout, shard_examples=200).shards_written == 1


def test_an_imported_dataset_that_tests_on_its_training_rows_fails(layout: Layout, tmp_path: Path) -> None:
    exported = tmp_path / "npy"
    export_dataset(layout, "small", exported, "npy")
    shutil.rmtree(exported / "test")
    shutil.copytree(exported / "train", exported / "test")
    (exported / "export.json").unlink()  # rows of unknown origin
    done = run("trm-data", "import", str(exported), "--name", "taught", root=Path(layout.place))
    assert done.returncode == 0, done.stderr
    problems = verify_dataset(layout, "taught").problems
    assert any(
        "train and test share 240 equal rows (the first: train row 0, test row 0)" in line
        for line in problems
    )
    done = run("trm-data", "verify", "taught", root=Path(layout.place))
    assert done.returncode == 1


# SQL over datasets, one of them damaged.


@pytest.fixture
def two(layout: Layout, request_small: Any) -> Layout:
    """Return two datasets without an index; a catalog table of `second` is damaged."""
    build_dataset(request_small(name="second"), layout)
    path = layout.dataset("second").here / "catalog" / "puzzles.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return layout


def test_a_damaged_dataset_is_named_and_ends_with_1(two: Layout) -> None:
    done = run("trm-eval", "sql", "SELECT dataset FROM datasets", "--format", "csv", root=Path(two.place))
    assert (done.returncode, done.stdout) == (1, "dataset\nsmall\n")
    assert "trm-eval: left out: second: not in the catalog: " in done.stderr
    assert "puzzles.parquet: its bytes have changed" in done.stderr
    skipped = run("trm-eval", "sql", "SELECT count(*) FROM datasets", "--skip-damaged", root=Path(two.place))
    assert skipped.returncode == 0
    assert "left out: second" in skipped.stderr


def test_a_manifest_that_cannot_be_read_is_named_too(two: Layout) -> None:
    (two.dataset("second").here / MANIFEST).write_text("{")
    for _ in range(2):  # also when the index is there
        assert "second: not in the catalog: " in query_catalog(two, "SELECT 1").problems[0]
        assert "second: not in the catalog: " in query_results(two, "FROM datasets").problems[0]
        assert query_results(two, "SELECT 1").problems == ()  # unneeded files are not opened


@pytest.mark.parametrize("ask", [trm_data.sql, trm_eval.sql])
def test_from_python_it_is_an_error_unless_skipped(two: Layout, ask: Any) -> None:
    with pytest.raises(QueryError, match=r"second: not in the catalog: .*skip_damaged=True skips them"):
        ask("SELECT dataset FROM datasets", two)
    assert ask("SELECT count(*) FROM datasets", two, skip_damaged=True).item() == 1


# Cards show foreign names as plain text.


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>.csv",
        "a|b.csv",
        "a\n```\nb.csv",
    ],
)
def test_names_of_sources_stay_text(layout: Layout, name: str) -> None:
    manifest = read_manifest(layout, "small")
    source = dataclasses.replace(manifest.spec.source, kind="csv", name=name)
    crafted = dataclasses.replace(manifest, spec=dataclasses.replace(manifest.spec, source=source))
    card = dataset_card(crafted, [SourceFile(file=name, rows=3, licence="<b>", sha256="0" * 64)])
    table, command = card.partition("## Build it again")[::2]
    assert "<script>" not in table
    assert "<b>" not in table
    assert sum(line.startswith("```") for line in card.splitlines()) == 4
    line = next(line for line in command.splitlines() if line.startswith("trm-data build"))
    words = shlex.split(line)
    if name.isprintable():
        assert words[words.index("--source") + 1] == f"csv:{name}"
    row = next(line for line in table.splitlines() if " 3 | " in line)
    assert row.replace("\\|", "").count("|") == 5


# A read-only root.


MOUNT = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && shift 0 && exec "$@"'
"""Runs a command in a mount namespace in which a folder is read-only, even for root."""


@pytest.mark.parametrize(
    "command",
    [
        ["trm-data", "list"],
        ["trm-eval", "sql", "SELECT count(*) FROM puzzles", "--format", "csv"],
        ["trm-data", "describe", "small"],
        ["trm-data", "verify", "small"],
        str.split(
            "trm-data build sudoku --box 2x3 --size 24 --aug 9 --val-size 8 --test-size 12 --seed 3 "
            "--name small --quiet"
        ),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_root_that_may_only_be_read_is_read(layout: Layout, command: list[str]) -> None:
    root = Path(layout.place)
    for name in ("cache", ".locks"):
        shutil.rmtree(root / name, ignore_errors=True)
    layout.catalog.unlink(missing_ok=True)
    apart = ["unshare", "-m", "sh", "-c", MOUNT, str(root)]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a folder read-only (unshare -m)")
    done = subprocess.run(
        [*apart, BIN / command[0], *command[1:], "--root", str(root)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    if "sql" in command:
        assert done.stdout.splitlines()[-1] == "44"
    assert not (root / ".locks").exists()
    assert not layout.catalog.exists()


# A dataset of a newer version is left out with a note; all other results are given.


@pytest.mark.parametrize("change", [{"format_version": 99}, {"spec": {"of": "a later version"}}])
def test_a_dataset_of_another_version_is_a_note(
    layout: Layout, tmp_path: Path, change: dict[str, Any]
) -> None:
    place = Path(layout.place)
    newer = place / "datasets" / "newer"
    shutil.copytree(place / "datasets" / "small", newer)
    value = json.loads((newer / MANIFEST).read_text()) | {"name": "newer"} | change
    del value["manifest_digest"]
    value["manifest_digest"] = _digest(value)
    (newer / MANIFEST).write_text(json.dumps(value))
    for program, *command in (["trm-eval", "sql", "SELECT dataset FROM datasets"], ["trm-data", "list"]):
        done = run(program, *command, root=place)
        assert done.returncode == 0, done.stderr
        assert "small" in done.stdout
        assert str(newer / MANIFEST) in (done.stdout + done.stderr).replace("\n", "") or program == "trm-data"
    with pytest.warns(UserWarning, match="left out: newer"):
        assert trm_data.sql("SELECT dataset FROM datasets", layout)["dataset"].to_list() == ["small"]
    for command in (["verify", "newer"], ["describe", "newer"]):
        done = run("trm-data", *command, root=place)
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
