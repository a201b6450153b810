"""A typed puzzle equals the drawn one; and the results of solvers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trm_data.encode import MAZE_FREE, MAZE_GOAL, MAZE_START, MAZE_WALL
from trm_data.errors import DataError
from trm_data.kinds.arc.encode import decode_row
from trm_data.kinds.arc.options import ArcOptions
from trm_data.kinds.maze.options import MazeOptions
from trm_data.kinds.maze.source import encode_maze
from trm_data.kinds.registry import load_kind
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.kinds.table.options import TableOptions
from trm_data.specs import DatasetSpec, Options, SourceSpec


def spec_of(kind: str, options: Options) -> DatasetSpec:
    return DatasetSpec(kind=kind, source=SourceSpec(kind="generated", name="generated"), options=options)


@given(st.sampled_from([(2, 2), (2, 3), (3, 2), (3, 3), (4, 4)]), st.data())
def test_a_drawn_sudoku_is_read_back(box: tuple[int, int], data: st.DataObject) -> None:
    kind, spec = load_kind("sudoku"), spec_of("sudoku", SudokuOptions(box_rows=box[0], box_columns=box[1]))
    side = box[0] * box[1]
    cells = data.draw(st.lists(st.integers(1, side + 1), min_size=side * side, max_size=side * side))
    tokens = np.array(cells, np.uint8)
    drawn = kind.draw(tokens, spec).text()
    np.testing.assert_array_equal(kind.parse(drawn, spec), tokens)
    np.testing.assert_array_equal(kind.parse("".join(drawn.split()).replace("|", ""), spec), tokens)


@given(st.integers(3, 7), st.integers(3, 9), st.randoms(use_true_random=False))
def test_a_maze_is_read_back_from_lines_and_from_one_line(rows: int, columns: int, random: object) -> None:
    kind, spec = load_kind("maze"), spec_of("maze", MazeOptions(rows=rows, columns=columns))
    rng = np.random.default_rng(random.getrandbits(32))  # type: ignore[attr-defined]
    tokens = rng.choice([MAZE_WALL, MAZE_FREE], rows * columns).astype(np.uint8)
    tokens[rng.permutation(rows * columns)[:2]] = [MAZE_START, MAZE_GOAL]
    line = encode_maze(tokens)
    lines = "\n".join(line[i : i + columns].rstrip() for i in range(0, len(line), columns))
    np.testing.assert_array_equal(kind.parse(line, spec), tokens)
    np.testing.assert_array_equal(kind.parse(lines, spec), tokens)


def test_a_maze_has_an_answer_where_there_is_a_way() -> None:
    kind, spec = load_kind("maze"), spec_of("maze", MazeOptions(rows=3, columns=3))
    open_way, walled = kind.parse("S  \n## \nG  ", spec), kind.parse("S  \n###\nG  ", spec)
    found = kind.answer(open_way, spec)
    assert found.count == 1
    assert found.tokens is not None
    assert encode_maze(found.tokens) == "Soo##oGoo"
    assert kind.answer(walled, spec).count == 0


def test_an_arc_grid_alone_or_in_a_task() -> None:
    kind, spec = load_kind("arc"), spec_of("arc", ArcOptions())
    grid = [[0, 1, 2], [9, 8, 7]]
    task = {"train": [{"input": [[1]], "output": [[2]]}], "test": [{"input": grid}, {"input": [[5]]}]}
    for text in (json.dumps(grid), json.dumps(task)):
        assert decode_row(kind.parse(text, spec)).tolist() == grid
    assert kind.answer(kind.parse("[[1]]", spec), spec).count is None


@pytest.mark.parametrize(
    ("kind", "options", "text", "message"),
    [
        ("sudoku", SudokuOptions(), "12", "expected 81 characters, got 2"),
        ("maze", MazeOptions(rows=3, columns=3), "S ##     ", "0 cells 'G'"),
        ("maze", MazeOptions(rows=3, columns=3), "SG#x     ", "character 'x' at position 4"),
        ("arc", ArcOptions(), "[[1, 10]]", "row 1, cell 2: got 10"),
        ("arc", ArcOptions(), "{}", "test"),
        ("arc", ArcOptions(), "nonsense", "is not JSON"),
        (
            "table",
            TableOptions(rows=2, columns=2, vocabulary_size=4),
            "1",
            "name a row of a dataset: --row N",
        ),
    ],
)
def test_what_is_no_puzzle(kind: str, options: Options, text: str, message: str) -> None:
    with pytest.raises((ValueError, DataError), match=message):
        load_kind(kind).parse(text, spec_of(kind, options))
