"""Puzzles from memory build the dataset of a file with the same rows, or are refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import trm_data
from tests.trm_data.kinds.test_arc import task
from trm_data.errors import LabError, SourceError
from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.source import encode_grid

COUNT = 8
PUZZLES, SOLUTIONS = generate(0, 0, 0, COUNT, 2, 3)
TEXTS = [encode_grid(puzzle) for puzzle in PUZZLES]
ANSWERS = [encode_grid(solution) for solution in SOLUTIONS]
RATINGS = [1.5 * number for number in range(COUNT)]
COLUMNS = {"puzzle": TEXTS, "solution": ANSWERS, "rating": RATINGS}


def pandas_frame() -> Any:
    return pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(COLUMNS)


FORMS: dict[str, Any] = {
    "polars": lambda: pl.DataFrame(COLUMNS),
    "pandas": pandas_frame,
    "arrow": lambda: pa.table(COLUMNS),
    "columns": lambda: COLUMNS,
    "objects": lambda: [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)],
    "arrays": lambda: {
        "quiz": PUZZLES.reshape(-1, 6, 6),
        "answer": SOLUTIONS,
        "rating": np.array(RATINGS, np.float32),
    },
}
WITHOUT_RATINGS: dict[str, Any] = {
    "texts": lambda: TEXTS,
    "flat": lambda: PUZZLES,
    "grids": lambda: PUZZLES.reshape(-1, 6, 6).astype(np.int64),
    "rows": lambda: PUZZLES.tolist(),
}


def build(root: Path, source: Any, name: str, **options: Any) -> str:
    sizes = {"box": "2x3", "size": 5, "test_size": 3, "aug": 2, **options}
    trm_data.build_dataset("sudoku", source=source, root=root, name=name, quiet=True, workers=1, **sizes)
    return trm_data.open_dataset(name, root).content_digest


def test_every_form_has_the_digest_of_a_file_with_the_same_rows(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with (tmp_path / "mine.csv").open("w") as file:
        pl.DataFrame(COLUMNS).write_csv(file)
    (tmp_path / "mine.txt").write_text("\n".join(TEXTS))
    for file, forms in (("mine.csv", FORMS), ("mine.txt", WITHOUT_RATINGS)):
        wanted = build(root, str(tmp_path / file), file.replace(".", "-"))
        for name, make in forms.items():
            assert build(root, make(), name) == wanted, name
    spec = trm_data.open_dataset("texts", root).manifest.spec.source
    assert (spec.kind, spec.name, len(spec.sha256)) == ("txt", "memory.jsonl", 64)


def test_the_same_rows_are_found_again_and_others_refused(tmp_path: Path) -> None:
    digest = build(tmp_path, TEXTS, "mine")
    assert build(tmp_path, list(TEXTS), "mine") == digest
    with pytest.raises(LabError, match="the name 'mine' is taken by another dataset"):
        build(tmp_path, TEXTS[::-1], "mine")


def test_mazes_as_walls_with_ends(tmp_path: Path) -> None:
    maze = ["##########", "#S   #   #", "#    # G #", "#        #", "##########"]
    walls = np.array([[[cell == "#" for cell in row] for row in maze]]).astype(int)
    (tmp_path / "mazes.txt").write_text("\n".join(maze))
    options = {"grid": "5x10", "size": 1, "root": tmp_path / "root", "quiet": True, "workers": 1}
    forms = {
        "file": str(tmp_path / "mazes.txt"),
        "arrays": {"maze": walls, "start": np.array([[1, 1]]), "goal": np.array([[2, 7]])},
        "numbers": {"maze": walls, "start": [11], "goal": [27]},
    }
    digests = {
        trm_data.build_dataset("maze", source=source, name=name, **options).content_digest
        for name, source in forms.items()
    }
    options.pop("grid")
    for name in ("arrays", "numbers"):
        digests.add(
            trm_data.build_dataset("maze", source=forms[name], name=f"own-{name}", **options).content_digest
        )
    assert len(digests) == 1
    options["grid"] = "5x10"
    with pytest.raises(SourceError, match=r"row 1: goal \(0, 7\): expected row and column of a free cell"):
        trm_data.build_dataset("maze", source=forms["arrays"] | {"goal": [[0, 7]]}, name="x", **options)
    square = {"maze": np.eye(7, dtype=int)[None], "start": [1], "goal": [5]}
    with pytest.raises(LabError, match=r"\(grid 7x7 reads"):
        trm_data.build_dataset("maze", source=square, name="x", **{**options, "grid": "30x30"})


def test_a_dict_of_tasks(tmp_path: Path) -> None:
    tasks = {f"mine{seed}": task(100 * seed) for seed in range(3)}
    made = trm_data.build_dataset(
        "arc", source=tasks, aug=2, root=tmp_path, name="mine", quiet=True, workers=1
    )
    names = trm_data.sql("SELECT DISTINCT task FROM puzzles ORDER BY 1", tmp_path)["task"].to_list()
    assert names == sorted(tasks)
    assert set(made.manifest.splits) == {"train", "test"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"clues": TEXTS, "done": ANSWERS}, "has no column 'question'.*clues, done"),
        ({"puzzle": TEXTS, "solution": ANSWERS[1:]}, "columns of different lengths"),
        (PUZZLES.astype(float), "row 1, column question: got .* expected whole numbers"),
        ({"puzzle": [120, 30]}, "question: got 120, .* read the column as text"),
        ({"puzzle": [TEXTS[0], None]}, "row 2, column puzzle: got None"),
        (np.zeros((2, 3, 3, 3)), r"array of shape \(2, 3, 3, 3\)"),
        (7, "got int; expected a frame"),
        (["x" * 36] * 30_000, "^source/memory.jsonl:1: character 'x'"),
    ],
)
def test_what_is_refused(tmp_path: Path, source: Any, message: str) -> None:
    with pytest.raises(LabError, match=message) as caught:
        build(tmp_path, source, "mine")
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_items_with_dotted_columns(tmp_path: Path) -> None:
    items = [
        {"question": "Solve:\n" + text, "metadata": {"puzzle": puzzle.tolist()}}
        for text, puzzle in zip(TEXTS, PUZZLES, strict=True)
    ]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, items)))
    columns = "question=metadata.puzzle"
    wanted = build(tmp_path / "root", str(tmp_path / "items.jsonl"), "file", columns=columns)
    assert build(tmp_path / "root", items, "memory", columns=columns) == wanted
