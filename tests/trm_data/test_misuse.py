"""Common mistakes in Python give our own error messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trm_data
from trm_data.errors import DataError, SpecError
from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.source import encode_grid

SMALL: dict[str, Any] = {"box": "2x3", "val_size": 0, "test_size": 2, "workers": 1, "quiet": True}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    trm_data.build_dataset("sudoku", root=root, size=np.int64(4), name="mine", **SMALL)
    return root


def test_paths_and_numbers_of_numpy_are_options(tmp_path: Path) -> None:
    puzzles, _ = generate(1, 1, 0, 6, 2, 3)
    source = tmp_path / "puzzles.txt"
    source.write_text("".join(f"{encode_grid(puzzle)}\n" for puzzle in puzzles))
    built = trm_data.build_dataset(
        "sudoku", root=tmp_path, size=np.int32(3), source=source, name="read", **SMALL
    )
    assert len(built) == 3


def test_a_name_that_is_taken_says_by_what_in_words(tmp_path: Path) -> None:
    for name in ("a.npy", "b.npy"):
        np.save(
            tmp_path / name,
            np.full((3, 2, 2, 2), ord(name[0]) - 90, np.uint8)
            + np.arange(3)[:, None, None, None].astype(np.uint8),
        )
    trm_data.build_dataset("table", root=tmp_path, train=tmp_path / "a.npy", name="t", workers=1, quiet=True)
    with pytest.raises(
        SpecError, match=r"taken by another dataset \(.*source name: a.npy there, b.npy asked"
    ):
        trm_data.build_dataset(
            "table", root=tmp_path, train=tmp_path / "b.npy", name="t", workers=1, quiet=True
        )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            lambda root: trm_data.open_dataset("mine", "test"),
            "the second argument is the root",
        ),
        (
            lambda root: trm_data.open_dataset(Path("mine"), root),
            "got PosixPath; expected the name of a dataset",
        ),
        (lambda root: trm_data.open_dataset("mine", ["x"]), "root: a folder, .* got list"),
        (lambda root: trm_data.open_mixture(["mine"], root), "names and their weights"),
        (
            lambda root: trm_data.open_mixture({"mine": "a"}, root),
            "weight a of mine: expected a positive number",
        ),
        (lambda root: trm_data.sql(5, root), "one query as text, got int"),
        (lambda root: trm_data.sql("SELECT ?", ["mine"]), "root: a folder, .* got list"),
    ],
)
def test_misuse_is_said(root: Path, wrong: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        wrong(root)
