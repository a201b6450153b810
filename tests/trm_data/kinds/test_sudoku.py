"""Sudoku variants: every box shape, exact counts per rating bin, hard puzzles, nested sets."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import run_here
from trm_data.building.flow import build_dataset
from trm_data.catalog.query import query_catalog
from trm_data.cli import main
from trm_data.errors import SpecError
from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.kind import BOXES, SudokuKind
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.kinds.sudoku.solve import legal_grids
from trm_data.kinds.sudoku.source import encode_grid
from trm_data.specs import SourceSpec
from trm_data.storage.root import Layout, resolve_root
from trm_data.verify.flow import verify_dataset


@pytest.fixture
def layout(tmp_path) -> Layout:
    return resolve_root(tmp_path)


SOME = {(2, 2), (2, 3), (3, 3), (3, 4), (4, 4)}
FAST = {(2, 2), (2, 3), (3, 3)}
ALL = [
    box
    if box in FAST
    else pytest.param(box, marks=pytest.mark.integration if box in SOME else pytest.mark.slow)
    for box in BOXES
]


@pytest.mark.parametrize("box", ALL)
def test_every_shape_is_generated_augmented_and_verified(layout: Layout, request_small, box) -> None:
    options = SudokuOptions(box_rows=box[0], box_columns=box[1])
    made = request_small(size=4, aug=5, val_size=1, test_size=1, options=options)
    manifest = build_dataset(made, layout).manifest
    assert manifest.sequence_length == (box[0] * box[1]) ** 2
    assert manifest.vocabulary_size == box[0] * box[1] + 2
    assert manifest.splits["train"].num_examples == 24
    assert verify_dataset(layout, "small").problems == []


@pytest.mark.parametrize("box", [(2, 2), (2, 3), (3, 2), (3, 3), (4, 4)])
def test_answers_are_judged_by_the_rules(box) -> None:
    side = box[0] * box[1]
    puzzles, solutions = generate(5, 0, 0, 6, *box)
    inputs, labels = puzzles + np.uint8(1), solutions + np.uint8(1)
    spec = SimpleNamespace(options=SudokuOptions(box_rows=box[0], box_columns=box[1]))
    answers = labels.copy()
    clue, blank = (int(np.flatnonzero(where)[0]) for where in (puzzles[1] > 0, puzzles[2] == 0))
    answers[1, clue] = labels[1, clue] % side + 2  # a clue is changed
    answers[2, blank] = 1  # one cell stays blank
    answers[3] = 0
    answers[4] = np.where(
        labels[4] == 2, 3, np.where(labels[4] == 3, 2, labels[4])
    )  # a legal grid with other clues
    scores = SudokuKind().score(spec, inputs, labels, answers)
    assert scores.given_kept.tolist() == [True, False, True, False, False, True]
    assert scores.valid.tolist() == [True, False, False, False, False, True]
    assert scores.optimal is None
    assert legal_grids(answers[4:5] - np.uint8(1), *box).all()
    empty = np.ones_like(inputs)
    many = SudokuKind().score(spec, empty, labels, answers).valid  # a puzzle with many answers
    assert many.tolist() == [True, False, False, False, True, True]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 1000), st.integers(0, 80), st.integers(0, 255))
def test_a_legal_grid_has_every_digit_in_every_unit(number: int, cell: int, value: int) -> None:
    grid = generate(6, 0, number, 1, 3, 3)[1]
    grid[0, cell] = value
    rows = [set(row) for row in grid.reshape(9, 9).tolist()]
    columns = [set(column) for column in grid.reshape(9, 9).T.tolist()]
    boxes = [
        set(grid.reshape(9, 9)[r : r + 3, c : c + 3].ravel().tolist()) for r in (0, 3, 6) for c in (0, 3, 6)
    ]
    plain = all(unit == set(range(1, 10)) for unit in [*rows, *columns, *boxes])
    assert legal_grids(grid, 3, 3).tolist() == [plain]


def test_every_bin_has_its_share(layout: Layout, request_small) -> None:
    options = SudokuOptions(rating_bins=(0.0, 0.5, 2.0))
    made = request_small(size=32, aug=0, val_size=0, test_size=9, options=options)
    build_dataset(made, layout)
    found = query_catalog(
        layout,
        "SELECT split, sum((rating < 0.5)::INT), sum((rating >= 0.5 AND rating < 2)::INT), "
        "sum((rating >= 2)::INT) FROM puzzles GROUP BY split ORDER BY split",
    ).rows
    assert found == [("test", 3, 3, 3), ("train", 11, 11, 10)]
    assert verify_dataset(layout, "small").problems == []


def test_binned_sets_are_nested(layout: Layout, request_small) -> None:
    options = SudokuOptions(rating_bins=(0.0, 0.5))
    for name, size in (("large", 20), ("part", 7)):
        build_dataset(
            request_small(name=name, size=size, aug=0, val_size=0, test_size=0, options=options), layout
        )
    query = "SELECT canonical_hash FROM puzzles WHERE dataset = '{}' ORDER BY group_index"
    large, part = (query_catalog(layout, query.format(name)).rows for name in ("large", "part"))
    assert part == large[:7]


@pytest.mark.slow
def test_extreme_puzzles_are_hard(layout: Layout, request_small) -> None:
    options = SudokuOptions(difficulty="extreme")
    made = request_small(size=32, aug=2, val_size=0, test_size=0, options=options)
    build_dataset(made, layout)
    ratings = np.array([row[0] for row in query_catalog(layout, "SELECT rating FROM puzzles").rows])
    assert ratings.mean() > 10
    assert verify_dataset(layout, "small").problems == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SudokuOptions(rating_bins=(5.0, 1.0)), "--rating-bins 5,1: expected rising numbers"),
        (SudokuOptions(rating_bins=(-1.0,)), "--rating-bins -1"),
        (SudokuOptions(rating_bins=(0.0, 5.0), min_rating=1.0), "exclude each other"),
        (SudokuOptions(difficulty="extreme", box_rows=2), "--difficulty extreme: only for generated"),
    ],
)
def test_options_that_cannot_be(layout: Layout, request_small, options, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        build_dataset(request_small(options=options, val_size=0, test_size=0), layout)


def test_a_rating_that_the_solver_does_not_give_is_found() -> None:
    from trm_data.encode import SUDOKU_BLANK
    from trm_data.kinds.base import BasePuzzles
    from trm_data.kinds.sudoku.solve import rate
    from trm_data.sources.base import parse_source
    from trm_data.specs import BuildRequest

    puzzles, solutions = generate(5, 0, 0, 4, 2, 3)
    options = SudokuOptions(box_rows=2, box_columns=3)
    request = BuildRequest(
        kind="sudoku", source=parse_source("generated"), size=4, test_size=0, options=options
    )
    spec = request.spec(SourceSpec(kind="generated"), None)

    def problems(ratings: list[float], said_by: str) -> list[str]:
        facts = {"rating": ratings, "rating_source": [said_by] * 4}
        inputs, labels = puzzles + SUDOKU_BLANK, solutions + SUDOKU_BLANK
        base = BasePuzzles(inputs.astype(np.uint8), labels.astype(np.uint8), np.arange(5), 10, facts)
        return SudokuKind().check_puzzles(spec, "train", base).problems

    right = rate(puzzles, 2, 3).tolist()
    wrong = [*right[:2], right[2] + 1, right[3]]
    assert problems(right, "solver") == []
    assert problems(wrong, "solver") == [
        "train group 12: its catalog row has another rating than the solver gives"
    ]
    assert problems(wrong, "file") == [], "what a file states is its own"


def test_a_file_gives_all_its_puzzles_that_are_not_held_out(tmp_path: Path) -> None:
    puzzles = generate(0, 0, 0, 20, 2, 3)[0]
    path = tmp_path / "mine.txt"
    path.write_text("\n".join(map(encode_grid, puzzles)) + "\n")
    command = ("build", "sudoku", "--box", "2x3", "--source", str(path), "--root", str(tmp_path / "root"))
    done = run_here(main, *command, "--val-size", "3", "--test-size", "4", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["examples"] == {"train": 13, "validation": 3, "test": 4}
    done = run_here(main, *command, "--rating-bins", "0,1")
    assert (done.returncode, "--rating-bins: needs --size" in done.stderr) == (2, True)
