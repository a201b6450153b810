"""A dry run of a file agrees with the build, because it opens the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trm_data
from tests.conftest import run_here
from trm_data.building import estimate
from trm_data.building.estimate import Estimate, estimate_build
from trm_data.cli import main
from trm_data.errors import BadRowError, SourceError, SpecError
from trm_data.kinds.registry import make_fields
from trm_data.kinds.sudoku.generate import generate
from trm_data.storage.root import resolve_root

OPTIONS: dict[str, Any] = {"size": 4, "val_size": 0, "test_size": 2, "box": "2x3", "name": "mine"}


def _write(path: Path, seed: int) -> str:
    puzzles, _ = generate(seed, 1, 0, 12, 2, 3)
    path.write_text("".join("".join(map(str, puzzle)) + "\n" for puzzle in puzzles.tolist()))
    return f"txt:{path}"


def _estimate(root: Path, source: str) -> Estimate:
    return estimate_build(make_fields("sudoku", {**OPTIONS, "source": source}).request(), resolve_root(root))


def test_a_dry_run_of_no_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        _estimate(tmp_path, f"csv:{tmp_path / 'none.csv'}")


def test_a_dry_run_reads_the_rows_of_a_small_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, root = _write(tmp_path / "puzzles.txt", 1), tmp_path / "root"
    assert not _estimate(root, source).rows_unread
    with pytest.raises(SpecError, match="has only 10 usable, inequivalent puzzles for the train split"):
        estimate_build(
            make_fields("sudoku", {**OPTIONS, "source": source, "size": 40}).request(), resolve_root(root)
        )
    _write(tmp_path / "others.txt", 2)
    with (tmp_path / "puzzles.txt").open("a") as file:
        file.write("1" * 36 + "\n")
    with pytest.raises(BadRowError, match=r"puzzles\.txt:13: "):
        estimate_build(
            make_fields("sudoku", {**OPTIONS, "source": source, "size": 10}).request(), resolve_root(root)
        )
    assert not root.exists()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not _estimate(root, "txt:~/others.txt").rows_unread


def test_a_dry_run_counts_bad_rows_and_looks_for_a_folder(tmp_path: Path) -> None:
    source = _write(tmp_path / "puzzles.txt", 1)
    with (tmp_path / "puzzles.txt").open("a") as file:
        file.write("1" * 36 + "\n")
    words = f"build sudoku --source {source} --size 10 --box 2x3 --on-bad-row skip --dry-run --val-size 0"
    done = run_here(main, *words.split(), "--test-size", "0", "--root", str(tmp_path / "root"))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "  1 bad row would be left out")
    words = ["build", "arc", "--source", f"kaggle:{tmp_path / 'none'}", "--dry-run"]
    refused = run_here(main, *words, "--root", str(tmp_path / "root"))
    assert refused.returncode == 2
    assert refused.stderr.endswith("none: no such folder\n")


def test_a_dry_run_of_a_large_file_says_that_it_read_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "READ_BYTES", 100)
    source = _write(tmp_path / "puzzles.txt", 1)
    assert _estimate(tmp_path / "root", source).rows_unread
    words = ["build", "sudoku", "--source", source, "--size", "40", "--box", "2x3", "--dry-run"]
    done = run_here(main, *words, "--root", str(tmp_path / "root"))
    assert "its rows were not read, nothing was built" in done.stdout


def test_a_dry_run_of_a_small_dataset_says_its_size(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"box": "2x3", "size": 20, "aug": 10, "val_size": 20, "test_size": 20}
    said = estimate_build(make_fields("sudoku", asked).request(), resolve_root(tmp_path)).size_bytes
    trm_data.build_dataset("sudoku", root=tmp_path, quiet=True, workers=1, **asked)
    took = sum(file.stat().st_size for file in (tmp_path / "datasets").rglob("*") if file.is_file())
    assert took / 2 < said < took * 2


def test_a_dry_run_refuses_what_the_build_refuses(tmp_path: Path) -> None:
    option = "--shard-examples"
    done = run_here(main, "build", "sudoku", "--size", "5", option, "0", "--dry-run", "--root", str(tmp_path))
    assert (done.returncode, f"{option} 0: expected at least 1" in done.stderr) == (2, True), done.stderr
