"""A dry run of a file says what the build says: it opens the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trm_data
from trm_data.build.estimate import Estimate, estimate_build
from trm_data.errors import SourceError, SpecError
from trm_data.generate.sudoku import generate
from trm_data.kinds.registry import make_fields
from trm_data.storage.root import resolve_root

OPTIONS: dict[str, Any] = {"size": 4, "val_size": 0, "test_size": 2, "box": "2x3", "name": "mine"}


def _write(path: Path, seed: int) -> str:
    puzzles, _ = generate(seed, 1, 0, 12, 2, 3)
    path.write_text("".join("".join(map(str, puzzle)) + "\n" for puzzle in puzzles.tolist()))
    return f"txt:{path}"


def _estimate(root: Path, source: str) -> Estimate:
    return estimate_build(make_fields("sudoku", {**OPTIONS, "source": source}).request(), resolve_root(root))


def test_a_dry_run_tells_one_file_from_another(tmp_path: Path) -> None:
    source, other = _write(tmp_path / "puzzles.txt", 1), _write(tmp_path / "others.txt", 2)
    root = tmp_path / "root"
    assert not _estimate(root, source).built
    trm_data.build_dataset("sudoku", root=root, source=source, quiet=True, workers=1, **OPTIONS)
    assert _estimate(root, source).built
    for ask in (
        lambda: _estimate(root, other),
        lambda: trm_data.build_dataset("sudoku", root=root, source=other, quiet=True, workers=1, **OPTIONS),
    ):
        with pytest.raises(SpecError, match="the name 'mine' is taken by another dataset"):
            ask()


def test_a_dry_run_of_no_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        _estimate(tmp_path, f"csv:{tmp_path / 'none.csv'}")
