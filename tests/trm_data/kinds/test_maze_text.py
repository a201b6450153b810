"""Mazes as text and tokens: inverses of each other, and errors that name problem and place.

Maze files: valid content, and the message of every kind of bad row.
"""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path

import numpy as np
import pytest

from trm_data.errors import SourceError
from trm_data.kinds.maze.source import check_inputs, decode_maze, encode_maze, read_mazes
from trm_data.sources.base import fetch_source, parse_source
from trm_data.sources.rows import StatedRows

TEXT = "S o# oG## #o"


def test_tokens_are_the_published_ones() -> None:
    tokens = decode_maze("# SGo####", 3, 3)
    assert tokens.dtype == np.uint8
    assert tokens.tolist() == [1, 2, 3, 4, 5, 1, 1, 1, 1]


def test_encode_is_the_inverse() -> None:
    assert encode_maze(decode_maze(TEXT, 3, 4)) == TEXT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT[:-1], "expected 12 characters, got 11"),
        ("S o# xG## #o", "character 'x' at position 6: expected '#'"),
        ("S o# oG## #\u20ac", "character '\u20ac' at position 12"),
        ("S O# oG## #o", "character 'O' at position 3"),
    ],
)
def test_bad_text_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_maze(text, 3, 4)


def test_inputs_are_checked() -> None:
    good = decode_maze("S  #  G## # ", 3, 4)[None]
    assert check_inputs(good, 3, 4).tolist() == good.tolist()
    for cell, token, message in [
        (0, 2, "row 0 has 0 cells 'S'"),
        (1, 4, "2 cells 'G'"),
        (1, 5, "1 cells 'o'"),
    ]:
        bad = good.copy()
        bad[0, cell] = token
        with pytest.raises(ValueError, match=message):
            check_inputs(bad, 3, 4)
    for bad, message in [
        (good * 0, "got tokens 0 to 0"),
        (good.astype(np.int64), "int64"),
        (good[:, 1:], r"expected uint8 \[N, 12\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            check_inputs(bad, 3, 4)
    with pytest.raises(ValueError, match="maze of 2x6 cells"):
        check_inputs(good, 2, 6)


MAZE = "  # S #   G "
LABEL = "  # So#  oG "
OTHER = " G# S #     "


def read(path: Path, kind: str = "csv") -> tuple[StatedRows, list[tuple[int, str]]]:
    with fetch_source(parse_source(f"{kind}:{path}")) as source:
        rows, rejects = read_mazes(source, 3, 4)
    assert all(reject.file == str(path) for reject in rejects)
    return rows, [(reject.line, reject.reason) for reject in rejects]


@pytest.fixture
def csv_file(tmp_path: Path):
    def write(*lines: str, header: str = "source,question,answer,rating") -> Path:
        path = tmp_path / "mazes.csv"
        path.write_text("\n".join([header, *lines]) + "\n")
        return path

    return write


def test_rows_come_with_line_numbers_and_what_they_state(csv_file) -> None:
    rows, rejects = read(csv_file(f"a,{MAZE},{LABEL}, 4 ", "", f"b,{OTHER},,"))
    assert not rejects
    np.testing.assert_array_equal(rows.lines, [2, 4])
    assert rows.questions[0].tolist() == [2, 2, 1, 2, 3, 2, 1, 2, 2, 2, 4, 2]  # spaces at both ends are cells
    assert rows.answers[0].tolist() == [2, 2, 1, 2, 3, 5, 1, 2, 2, 5, 4, 2]
    assert rows.ratings[0] == 4
    assert not rows.answers[1].any()
    assert np.isnan(rows.ratings[1])
    assert rows.questions.dtype == rows.answers.dtype == np.uint8
    assert rows.ratings.dtype == np.float32


def test_only_the_question_is_needed(csv_file) -> None:
    rows, _ = read(csv_file(f"3,{MAZE}", f"4,{OTHER}", header="x,question"))
    assert len(rows) == 2
    assert not rows.answers.any()


def test_compressed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "mazes.csv.gz"
    path.write_bytes(gzip.compress(f"question\r\n{MAZE}\r\n".encode()))
    rows, rejects = read(path)
    assert len(rows) == 1
    assert not rejects


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (f"a,{MAZE[:-1]},,", "expected 12 characters, got 11"),
        (f"a,{MAZE.replace('S', ' ')},,", "no start 'S': expected one"),
        (f"a,S{MAZE[1:]},,", "2 cells are a start 'S': expected one, got positions 1, 5"),
        (f"a,{LABEL},,", "path cell 'o' at position 6"),
        (f"a,{MAZE},{LABEL[:-1]},", "answer: expected 12 characters, got 11"),
        (f"a,{MAZE},{LABEL[:-1]}.,", "answer: character '.' at position 12"),
        (f"a,{MAZE},,long", "rating 'long': expected a number of 0 or more"),
        ("a", "expected 12 characters, got 0"),
    ],
)
def test_bad_rows_are_named_by_line_and_reason(csv_file, row: str, reason: str) -> None:
    rows, rejects = read(csv_file(f"a,{OTHER},,", row))
    assert len(rows) == 1
    assert rejects[0][0] == 3
    assert reason in rejects[0][1]


def test_an_exact_duplicate_names_the_first(csv_file) -> None:
    _, rejects = read(csv_file(f"a,{MAZE},,", f"b,{OTHER},,", f"c,{MAZE},{LABEL},"))
    assert rejects == [(4, "the same maze as line 2")]


def test_files_that_are_no_source(tmp_path: Path, csv_file) -> None:
    with pytest.raises(SourceError, match=r"mazes.csv:1: has no column 'question'; found source, labyrinth"):
        read(csv_file(f"a,{MAZE}", header="source,labyrinth"))
    with pytest.raises(SourceError, match="has no rows"):
        read(csv_file())
    with pytest.raises(
        SourceError, match=r"mazes.csv:1: the form of the file is not known .*docs/datasets.md"
    ):
        read(csv_file("a,b"), "txt")
    (tmp_path / "binary.csv").write_bytes(b"question\n\xff\xfe\x00\x81\n")
    with pytest.raises(SourceError, match="not UTF-8"):
        read(tmp_path / "binary.csv")


def test_cells_in_other_symbols(csv_file) -> None:
    path = csv_file(f"a,{MAZE.translate(str.maketrans(' #SG', '.X@*'))},,")
    ref = dataclasses.replace(parse_source(f"csv:{path}"), symbols="X.@*")
    with fetch_source(ref) as source:
        rows, rejects = read_mazes(source, 3, 4)
    assert (rejects, rows.questions[0].tolist()) == ([], [2, 2, 1, 2, 3, 2, 1, 2, 2, 2, 4, 2])
    with (
        fetch_source(dataclasses.replace(ref, symbols="X.")) as source,
        pytest.raises(SourceError, match=r"mazes.csv: --symbols 'X.' has 2 characters"),
    ):
        read_mazes(source, 3, 4)
