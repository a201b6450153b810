"""What is compiled already is known without numba; what is not is compiled with progress, once on a machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from trm_data.kinds import compiling
from trm_data.kinds.compiling import PACKAGE, compile_kernels, compile_seconds, uncompiled
from trm_data.kinds.maze.options import MazeOptions
from trm_data.kinds.registry import built_in
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.show.progress import NoProgress
from trm_data.specs import Options, OwnOptions
from trm_data.storage.machine import kernel_folder


def test_the_modules_are_there_and_have_kernels() -> None:
    for parts in built_in().values():
        for name in parts.kernels:
            assert "@kernel" in (PACKAGE / f"{name}.py").read_text("utf-8"), name
    assert [name for name, parts in built_in().items() if parts.kernels] == ["arc", "maze", "sudoku"]
    assert uncompiled("no kind") == []


def write_sources(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        source = folder / f"{name}.py"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("@kernel")
        os.utime(source, (100, 100))


def test_an_index_as_new_as_the_module_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    write_sources(tmp_path, built_in()["maze"].kernels)
    sources = [tmp_path / f"{name}.py" for name in built_in()["maze"].kernels]
    assert uncompiled("maze", package=tmp_path) == sources
    index = kernel_folder() / f"{sources[0].parent.name}_0a" / f"{sources[0].stem}.count-3.py311.nbi"
    index.parent.mkdir(parents=True)
    index.touch()
    assert uncompiled("maze", package=tmp_path) == sources[1:]
    os.utime(index, (99, 99))  # of an older version of the module
    assert uncompiled("maze", package=tmp_path) == sources


def test_where_the_cache_cannot_be_written_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling.os, "access", lambda *_: False)
    (tmp_path / "solve").mkdir()
    assert uncompiled("maze", package=tmp_path) == []


def test_a_search_for_hard_puzzles_needs_one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    options = SudokuOptions(difficulty="extreme")
    write_sources(tmp_path, [*built_in()["sudoku"].kernels, *built_in()["sudoku"].more_kernels(options)])
    names = [source.stem for source in uncompiled("sudoku", options, tmp_path)]
    assert (names[-1], len(names)) == ("hard_kernels", 5)
    assert (PACKAGE / "generate/hard_kernels.py").is_file()
    assert uncompiled("sudoku", SudokuOptions(), tmp_path) == uncompiled("sudoku", package=tmp_path)


@pytest.mark.parametrize(
    ("kind", "options", "seconds"),
    [
        ("maze", MazeOptions(rows=5, columns=5, min_path=6), 22.5),
        ("sudoku", SudokuOptions(), 30),
        ("sudoku", SudokuOptions(difficulty="extreme"), 50),
        ("no kind", OwnOptions(), 0),
    ],
)
def test_an_estimate_counts_what_is_not_compiled(
    monkeypatch: pytest.MonkeyPatch, kind: str, options: Options, seconds: float
) -> None:
    monkeypatch.setattr(compiling, "_is_compiled", lambda source: False)
    assert compile_seconds(kind, options) == seconds
    monkeypatch.setattr(compiling, "_is_compiled", lambda source: source.stem != "hard_kernels")
    assert compile_seconds(kind, options) == (20 if seconds == 50 else 0)


class Told(NoProgress):
    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.done = 0

    def start(self, stage: str, total: int | None, unit: str) -> None:
        self.stages.append((stage, total))

    def advance(self, count: int) -> None:
        self.done += count


def test_all_that_is_missing_is_told_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels are there: the process of its own loads them."""
    told = Told()
    sources = [PACKAGE / f"{name}.py" for name in built_in()["maze"].kernels]
    compile_kernels("maze", sources, told)
    assert told.stages == [("compile kernels, once on this machine", 3)]
    assert told.done == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sudoku", "maze", "extreme"])
def test_the_first_build_on_a_machine_says_that_it_compiles(tmp_path: Path, kind: str) -> None:
    trm_data = [
        str(Path(sys.executable).with_name("trm-data")),
        "build",
        "maze" if kind == "maze" else "sudoku",
        "--aug",
        "1",
        "--val-size",
        "0",
    ]
    sizes = ["--test-size", "1", "--root", str(tmp_path / "root")]
    grid = {"sudoku": ["--box", "2x3"], "maze": ["--grid", "7x7"], "extreme": ["--difficulty", "extreme"]}[
        kind
    ]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    said: list[str] = []
    for size in ("4", "5"):
        command = [*trm_data, *grid, "--size", size, *sizes]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        said.append(done.stderr)
    count = 5 if kind == "extreme" else len(built_in()[kind].kernels)
    assert f"compile kernels, once on this machine: {count} modules in " in said[0]
    assert "compile" not in said[1]
