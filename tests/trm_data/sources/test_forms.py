"""Puzzle files in common formats: each gives the same puzzles, or a named error."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import json
import lzma
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import run_here
from trm_data.cli import main
from trm_data.errors import SourceError
from trm_data.kinds.maze.source import read_mazes
from trm_data.kinds.sudoku.source import read_puzzles
from trm_data.manifest import read_manifest
from trm_data.records import Reject
from trm_data.sources import unpack
from trm_data.sources.base import fetch_source, parse_source
from trm_data.sources.rows import StatedRows
from trm_data.storage.root import resolve_root

KINDS = ("csv", "txt", "table")
PUZZLES = ("1...", "..2.", ".3..", "...4"), ("4...", "..3.", ".2..", "...1")
TEXTS = ["".join(rows) for rows in PUZZLES]
ANSWERS = ["1423321443214132"[:16], "4132231441233241"[:16]]
NUMBERS = [[0 if mark == "." else int(mark) for mark in text] for text in TEXTS]
GRIDS = [[numbers[i : i + 4] for i in range(0, 16, 4)] for numbers in NUMBERS]
LINES = ["\n".join(rows) for rows in PUZZLES]
ZEROS = ["\n".join(rows).replace(".", "0") for rows in PUZZLES]


def read(path: Path, side: int = 4, **changes: str) -> tuple[StatedRows, list[Reject]]:
    ref = dataclasses.replace(parse_source(str(path), allowed=KINDS), **changes)
    with fetch_source(ref) as source:
        return read_puzzles(source, side)


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


DRAWN = """
+-----+-----+
| 1 . | . . |
| . . | 2 . |
+-----+-----+
| . 3 | . . |
| . . | . 4 |
+-----+-----+

4 . | . .
. . | 3 .
----+----
. 2 | . .
. . | . 1
"""

FORMS: dict[str, str] = {
    "lines.txt": "\n".join(TEXTS),
    "many.sdm": "\n".join(text.replace(".", "0") for text in TEXTS),
    "headers.sdk": f"#AMe\n#Ca comment\n{LINES[0]}\n#Another\n{LINES[1]}\n",
    "sections.sdk": f"[Puzzle]\n{LINES[0]}\n[State]\n{LINES[1]}\n[Puzzle]\n{LINES[1]}\n",
    "titles.txt": f"Grid 01\n{ZEROS[0]}\nGrid 02\n{ZEROS[1]}\n",
    "blocks.txt": f"{LINES[0]}\n\n{LINES[1]}\n",
    "one_after_the_other.txt": f"{LINES[0]}\n{LINES[1]}\n",
    "drawn.ss": DRAWN,
    "records.txt": f"{TEXTS[0]}:1:{ANSWERS[0]}\n{TEXTS[1]}:1:{ANSWERS[1]}\n",
    "named.txt": f"first {TEXTS[0]}\nsecond {TEXTS[1]}\n",
    "quoted.txt": "".join(f"'{text}',\n" for text in TEXTS),
    "bands.txt": "\n\n".join(f"{a}\n{b}\n\n{c}\n{d}" for a, b, c, d in PUZZLES),
    "spaced.txt": "\n".join(" ".join(map(str, numbers)) for numbers in NUMBERS),
    "numbers.txt": "\n\n".join("\n".join("  ".join(map(str, row)) for row in grid) for grid in GRIDS),
    "game.opensudoku": "<opensudoku><name>x</name>"
    + "".join(f'<game data="{text.replace(".", "0")}" />' for text in TEXTS)
    + "</opensudoku>",
    "texts.json": json.dumps(TEXTS),
    "lists.json": json.dumps(NUMBERS),
    "grids.json": json.dumps(GRIDS, indent=1),
    "rows_as_texts.json": json.dumps([list(rows) for rows in PUZZLES]),
    "objects.json": json.dumps([{"puzzle": text} for text in TEXTS], indent=2),
    "object_of_columns.json": json.dumps({"Puzzle": TEXTS, "solution": ANSWERS}),
    "object_of_objects.json": json.dumps({"name": "x", "puzzles": [{"quiz": grid} for grid in GRIDS]}),
    "objects.jsonl": "\n".join(json.dumps({"question": text, "id": 3}) for text in TEXTS),
    "lists.jsonl": "\n".join(map(json.dumps, NUMBERS)),
    "plain.csv": "puzzle\n" + "\n".join(TEXTS),
    "plain.tsv": "id\tpuzzle\n" + "\n".join(f"1\t{text}" for text in TEXTS),
    "excel.csv": "sep=;\nid;puzzle\n" + "\n".join(f"1;'{text}" for text in TEXTS),
    "cells_of_lines.csv": "puzzle\n" + "\n".join(f'"{lines}"' for lines in LINES),
    "cells_of_numbers.csv": "puzzle\n" + "\n".join(" ".join(map(str, numbers)) for numbers in NUMBERS),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_text_is_the_same_puzzles(tmp_path: Path, name: str) -> None:
    rows, rejects = read(write(tmp_path / name, FORMS[name]))
    assert rejects == []
    assert rows.questions.tolist() == NUMBERS


@pytest.mark.parametrize("name", ["records.txt", "object_of_columns.json"])
def test_answers_of_other_forms_are_stated(tmp_path: Path, name: str) -> None:
    rows, _ = read(write(tmp_path / name, FORMS[name]))
    assert ["".join(map(str, answer)) for answer in rows.answers.tolist()] == ANSWERS


def test_a_section_of_solutions_has_the_answer(tmp_path: Path) -> None:
    solution = "\n".join(ANSWERS[0][i : i + 4] for i in range(0, 16, 4))
    rows, rejects = read(write(tmp_path / "a.sdk", f"[Puzzle]\n{LINES[0]}\n[Solution]\n{solution}\n"))
    assert (len(rows), rejects) == (1, [])
    assert "".join(map(str, rows.answers[0].tolist())) == ANSWERS[0]


def test_tables_of_texts_and_of_numbers(tmp_path: Path) -> None:
    columns = {"puzzle": TEXTS, "solution": ANSWERS, "rating": [1.5, None]}
    pq.write_table(pa.table(columns), tmp_path / "texts.parquet")
    pq.write_table(pa.table({"question": GRIDS}), tmp_path / "grids.parquet")
    np.savez(tmp_path / "texts.npz", puzzle=np.array(TEXTS), solution=np.array(ANSWERS))
    np.savez(tmp_path / "numbers.npz", quizzes=np.array(GRIDS))
    for path in sorted(tmp_path.iterdir()):
        rows, rejects = read(path)
        assert (rejects, rows.questions.tolist()) == ([], NUMBERS), path
        assert rows.answers.any() == path.name.startswith("texts")
    assert read(tmp_path / "texts.parquet")[0].ratings[0] == 1.5
    _, rejects = read(tmp_path / "texts.parquet", columns="question=solution")
    assert [reject.reason.startswith("has no blank cell") for reject in rejects] == [True, True]


PACKERS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize("stem", ["plain.csv", "texts.json", "titles.txt"])
def test_compressed_files_are_read_whatever_their_name(tmp_path: Path, ending: str, stem: str) -> None:
    packed = PACKERS[ending](FORMS[stem].encode())
    for name in (f"{stem}.{ending}", stem, "bare"):
        rows, rejects = read(write(tmp_path / name, packed))
        assert (rejects, rows.questions.tolist()) == ([], NUMBERS), name
    with pytest.raises(SourceError, match=r"short: broken \w+ file"):
        read(write(tmp_path / "short", packed[: len(packed) // 2]), kind="txt")


def test_utf16_as_spreadsheets_write_it(tmp_path: Path) -> None:
    rows, rejects = read(write(tmp_path / "a.csv", FORMS["plain.csv"].encode("utf-16")))
    assert (rejects, rows.questions.tolist()) == ([], NUMBERS)


@pytest.mark.parametrize("ending", PACKERS)
def test_what_decompresses_to_far_more_than_puzzles_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(unpack, "ALWAYS_READ", 1000)
    path = write(tmp_path / "a.txt", PACKERS[ending](b"0" * 200_000))
    with pytest.raises(SourceError, match=r"a.txt: decompresses to more than"):
        read(path)


@pytest.mark.parametrize("column", ["text", "texts", "cells"])
def test_parquet_that_holds_far_more_than_its_bytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    monkeypatch.setattr(unpack, "ALWAYS_READ", 1000)
    values: Any = {"text": "5" * 200_000, "texts": ["5" * 200_000], "cells": [5] * 200_000}[column]
    table = pa.table({"question": [values] * 20, "answer": ["5"] * 20})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", store_schema=False)
    with pytest.raises(SourceError, match=r"a.parquet: decompresses to more than"):
        read(tmp_path / "a.parquet")


def test_records_in_a_column_of_parquet_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"question": [{"a": "5"}], "answer": ["5"]}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"column question has type struct"):
        read(tmp_path / "a.parquet")


def member(path: Path, name: str, text: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(name, text)
    return path


def refused(tmp_path: Path) -> Iterator[tuple[str, str]]:
    task = {"input": [[1]], "output": [[2]]}
    yield "brackets.json", json.dumps([{"input": [[1]], "output": [[2]]}])
    yield "arc.json", json.dumps({"train": [task], "test": [task]})
    yield "barc.jsonl", json.dumps({"examples": [[[[1]], [[2]]]], "source": "x"})
    yield "prose.txt", "Dear reader,\nhere are my puzzles.\n"
    yield "html.txt", "<html><body>x</body></html>"
    yield "bomb.xml", '<!DOCTYPE x [<!ENTITY a "b">]><opensudoku><game data="&a;"/></opensudoku>'
    yield "broken.xml", "<opensudoku><game"
    yield "scalar.json", "[1.5, true]"
    yield "cut.json", '[{"puzzle": "1'


SAYS = {
    "brackets.json": "an object with input, output is no puzzle",
    "arc.json": "trm-data build arc",
    "barc.jsonl": "a task of BARC",
    "prose.txt": "prose.txt:1: the form of the file is not known",
    "html.txt": "XML with <html> is not read",
    "bomb.xml": "has a document type or entities",
    "broken.xml": "is not XML",
    "scalar.json": "got 1.5 instead of a puzzle",
    "cut.json": "is not JSON",
}


@pytest.mark.parametrize("name", SAYS)
def test_what_is_not_read_is_named(tmp_path: Path, name: str) -> None:
    data = dict(refused(tmp_path))[name]
    with pytest.raises(SourceError) as caught:
        read(write(tmp_path / name, data))
    assert SAYS[name] in str(caught.value)
    assert "expected 16 characters" not in str(caught.value)


def test_archives_and_tables_of_tokens_say_what_to_do(tmp_path: Path) -> None:
    for name in ("a.zip", "b.xlsx"):
        with pytest.raises(SourceError, match=r"is a zip archive\. Unpack it .*save it as CSV"):
            read(member(tmp_path / name, "x.csv", "puzzle"), kind="csv")
    np.savez(tmp_path / "tokens.npz", inputs=np.zeros((1, 16), np.uint8), labels=np.zeros((1, 16), np.uint8))
    with pytest.raises(SourceError, match=r"has no column 'question'.*trm-data build table --train"):
        read(tmp_path / "tokens.npz")
    np.savez(tmp_path / "pickled.npz", puzzle=np.array([{}], object))
    with pytest.raises(SourceError, match="without pickle"):
        read(tmp_path / "pickled.npz")


def test_a_grid_that_is_cut_short_is_a_bad_row_with_its_line(tmp_path: Path) -> None:
    text = f"A\n{LINES[0]}\nB\n1...\n..2.\nC\n{LINES[1]}\n"
    rows, rejects = read(write(tmp_path / "a.txt", text))
    assert rows.questions.tolist() == NUMBERS
    assert rows.lines.tolist() == [2, 10]
    assert [(reject.line, reject.reason) for reject in rejects] == [
        (7, "2 lines of a grid; expected 4 before line 9")
    ]


def test_a_grid_that_a_section_cuts_short_is_a_bad_row(tmp_path: Path) -> None:
    text = f"[Puzzle]\n{LINES[0]}\n[Puzzle]\n1...\n..2.\n[State]\n{LINES[1]}\n"
    rows, rejects = read(write(tmp_path / "a.sdk", text))
    assert (rows.questions.tolist(), [reject.line for reject in rejects]) == (NUMBERS[:1], [7])


def test_grids_of_another_size_name_their_box(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"grids of 4 lines of 4 characters; expected 9 of 9. .*--box 2x2"):
        read(write(tmp_path / "a.txt", FORMS["blocks.txt"]), 9)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [("2" * 14, "a spreadsheet drops zeros"), ("1.80000E+80", "a number that a spreadsheet has rounded")],
)
def test_what_a_spreadsheet_did_to_a_puzzle_is_said(tmp_path: Path, cell: str, reason: str) -> None:
    _, rejects = read(write(tmp_path / "a.csv", f"puzzle\n{cell}\n"))
    assert reason in rejects[0].reason


MAZE = ("  # ", "S # ", "  G ")
FLAT = "".join(MAZE)
TOKENS = [2, 2, 1, 2, 3, 2, 1, 2, 2, 2, 4, 2]
MAZES: dict[str, str] = {
    "lines.txt": f"{FLAT}\n",
    "block.txt": "\n".join(MAZE),
    "trimmed.txt": "\n".join([MAZE[0], *(row.rstrip() for row in MAZE[1:])]),
    "titles.txt": f"Maze 1\n{chr(10).join(MAZE)}\n\nMaze 2, as before\n{chr(10).join(MAZE)}\n",
    "texts.json": json.dumps([FLAT]),
    "rows.json": json.dumps([list(MAZE)]),
    "objects.jsonl": json.dumps({"maze": FLAT}),
    "cells.csv": 'maze\n"{}"\n'.format("\n".join(MAZE)),
}


@pytest.mark.parametrize("name", MAZES)
def test_every_form_of_mazes_is_the_same_maze(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, MAZES[name])
    with fetch_source(parse_source(str(path), allowed=KINDS)) as source:
        rows, rejects = read_mazes(source, 3, 4)
    assert isinstance(rows, StatedRows)
    assert rows.questions[0].tolist() == TOKENS
    assert [reject.reason for reject in rejects] == (["the same maze as line 2"] if "titles" in name else [])


FREE = ("    ", "S # ", "  G#")
WALLS = ("####", "#SG#", "####")


def mazes(path: Path, rows: int, columns: int) -> tuple[StatedRows, list[Reject]]:
    with fetch_source(parse_source(str(path), allowed=KINDS)) as source:
        return read_mazes(source, rows, columns)


@pytest.mark.parametrize("between", ["", "\n", "Maze 1\n\n", "A title\n"])
def test_a_free_first_row_is_a_row(tmp_path: Path, between: str) -> None:
    grids = [FREE, FREE[::-1], MAZE]
    path = write(tmp_path / "a.txt", between + between.join("\n".join(rows) + "\n" for rows in grids))
    found, rejects = mazes(path, 3, 4)
    assert rejects == []
    marks = dict(zip("# SG", range(1, 5), strict=True))
    assert found.questions.tolist() == [[marks[cell] for row in rows for cell in row] for rows in grids]


SMALLER: dict[str, str] = {
    "blocks.txt": "\n\n".join("\n".join(WALLS) for _ in range(2)),
    "lines.csv": 'maze\n"{}"\n'.format("\n".join(WALLS)),
    "rows.json": json.dumps([{"maze": "\n".join(WALLS)}]),
    "one.txt": "\n".join(WALLS),
}


@pytest.mark.parametrize("grid", [(3, 5), (4, 4), (5, 4), (4, 5), (3, 3)])
@pytest.mark.parametrize("name", SMALLER)
def test_a_maze_of_another_size_is_refused_and_its_size_named(
    tmp_path: Path, name: str, grid: tuple[int, int]
) -> None:
    path = write(tmp_path / name, SMALLER[name])
    try:
        found, rejects = mazes(path, *grid)
        assert (len(found), len(rejects) > 0) == (0, True)
        text = rejects[0].reason
    except SourceError as error:
        text = str(error)
    assert "--grid" in text


BROKEN: dict[str, tuple[str, int]] = {  # text, and the line that is named
    "rules.txt": ("\n####\n".join("\n".join(WALLS) for _ in range(4)), 7),
    "missing_row.txt": ("\n".join([*WALLS, *WALLS[1:], *WALLS, *WALLS]), 1),
    "trimmed_first_row.txt": ("\nS # \n  G#\n\n####\n#SG#\n####\n", 2),
    "trimmed_middle_row.txt": ("S # \n\n  G#\n\n####\n#SG#\n####\n", 1),
    "wide.txt": ("####\n#SG#\n#####\n", 3),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_text_whose_rows_would_shift_is_refused(tmp_path: Path, name: str) -> None:
    text, line = BROKEN[name]
    path = write(tmp_path / name, text)
    if "trimmed" in name:  # blank lines divide the mazes, so the next one is whole
        found, rejects = mazes(path, 3, 4)
        assert rejects[0].line == line
        assert found.questions.tolist() == [[1, 1, 1, 1, 1, 3, 4, 1, 1, 1, 1, 1]]
        return
    with pytest.raises(SourceError) as caught:
        mazes(path, 3, 4)
    assert str(caught.value).startswith(f"{path}:{line}:")


def test_mazes_of_numbers_need_their_symbols(tmp_path: Path) -> None:
    grid = [["# SG".index(cell) for cell in row] for row in MAZE]
    ref = parse_source(str(write(tmp_path / "a.json", json.dumps([{"maze": grid}]))), allowed=KINDS)
    with fetch_source(ref) as source:
        assert "--symbols" in read_mazes(source, 3, 4)[1][0].reason
    with fetch_source(dataclasses.replace(ref, symbols="01234")) as source:
        rows, rejects = read_mazes(source, 3, 4)
    assert (rejects, rows.questions[0].tolist()) == ([], TOKENS)


def test_solutions_below_puzzles_are_not_puzzles(tmp_path: Path) -> None:
    solution = "\n".join(ANSWERS[0][i : i + 4] for i in range(0, 16, 4))
    for name, text in {
        "lines": f"{TEXTS[0]}\n{ANSWERS[0]}\n",
        "blocks": f"{LINES[0]}\n\n{solution}\n",
        "titles": f"Puzzle 1\n{LINES[0]}\nSolution 1\n{solution}\n",
    }.items():
        rows, rejects = read(write(tmp_path / f"{name}.txt", text))
        assert rows.questions.tolist() == NUMBERS[:1], name
        assert ["has no blank cell" in reject.reason for reject in rejects] == [True], name
    with pytest.raises(SourceError, match=r"section \[Answers\]"):
        read(write(tmp_path / "a.sdk", f"[Puzzle]\n{LINES[0]}\n[Answers]\n{solution}\n"))
    side = "\n".join(f"{left}  {right}" for left, right in zip(PUZZLES[0], solution.split(), strict=True))
    with pytest.raises(SourceError, match=r"side.txt:"):
        read(write(tmp_path / "side.txt", f"{LINES[1]}\n\n{side}\n"))


def test_builds_read_them_and_their_digests_are_those_of_lines(tmp_path: Path) -> None:
    root, digests = str(tmp_path / "root"), set[str]()
    for name in ("lines.txt", "drawn.ss", "objects.json"):
        path = write(tmp_path / name, FORMS[name])
        options = ("--box", "2x2", "--size", "1", "--source", str(path), "--name", path.stem, "--root", root)
        done = run_here(main, "build", "sudoku", *options)
        assert done.returncode == 0, done.stderr
        digests.add(read_manifest(resolve_root(root), path.stem).content_digest)
    assert len(digests) == 1


def test_the_shared_cases_are_read(shared_data: Path) -> None:
    """Checks rows and clues of the first puzzle, and the rejects."""
    cases = shared_data.parent / "cases"
    if not cases.is_dir():
        pytest.skip("no shared/cases beside the checkout")
    expected = {
        "03-sdk/one.sdk": (9, 1, 27), "03-sdk/state.sdk": (9, 1, 27), "04-sdm/many.sdm": (9, 40, 27),
        "06-opensudoku/folder.opensudoku": (9, 10, 27), "09-tdoku/out.txt": (9, 20, 27),
        "10-grid-blocks/euler.txt": (9, 20, 27), "11-16x16/ap.csv": (16, 24, 130),
        "11-16x16/grid.txt": (16, 24, 130), "11-16x16/hex0F.csv": (16, 24, 130),
        "11-16x16/hex0F.txt": (16, 24, 130), "11-16x16/lower.txt": (16, 24, 130),
        "11-16x16/numbers.csv": (16, 24, 130), "11-16x16/numbers.txt": (16, 24, 130),
        "14-forms/p.json": (9, 40, 27), "14-forms/p.jsonl": (9, 40, 27), "14-forms/p.parquet": (9, 40, 27),
        "15-excel/quoteapos.csv": (9, 40, 27), "15-excel/sep.csv": (9, 40, 27),
        "15-excel/utf16.csv": (9, 40, 27), "16-compressed/s.csv.bz2": (9, 40, 27),
        "16-compressed/s.csv.xz": (9, 40, 27), "16-compressed/s.csv.zst": (9, 40, 27),
        "16-compressed/gz-no-suffix.csv": (9, 40, 27), "45-sizes/2x5-zero.txt": (10, 12, 75),
        "45-sizes/3x2-zero.txt": (6, 12, 9), "45-sizes/3x4-zero.txt": (12, 12, 109),
        "46-hex1/one.txt": (16, 1, 190),
    }  # fmt: skip
    for name, (side, count, clues) in expected.items():
        rows, rejects = read(cases / name, side)
        assert (len(rows), int(np.count_nonzero(rows.questions[0])), rejects) == (count, clues, []), name


def test_the_shared_cases_of_text_are_read_or_refused(shared_data: Path) -> None:
    """Checks the number of puzzles, answers and ratings, or the start of the message."""
    cases = shared_data.parent / "cases"
    if not (cases / "t4-53-text").is_dir():
        pytest.skip("no shared/cases/t4-* beside the checkout")
    read_rightly = {
        "t4-01-puzzle-space-solution/id.txt": (9, 14, 14, 0),
        "t4-01-puzzle-space-solution/p.txt": (9, 14, 14, 0),
        "t4-01-puzzle-space-solution/rate.txt": (9, 14, 14, 14),
        "t4-01-puzzle-space-solution/tab.txt": (9, 14, 14, 0),
        "t4-02-rating-forms/frac.txt": (9, 14, 0, 14),
        "t4-02-rating-forms/sci.txt": (9, 14, 0, 14),
        "t4-02-rating-forms/semirec.txt": (9, 14, 14, 14),
        "t4-05-reasoning-gym/plain.jsonl": (9, 14, 14, 0),
        "t4-53-text/qqwing.txt": (9, 14, 0, 0),
        "t4-53-text/quoted.txt": (9, 14, 0, 0),
        "t4-54-4x4/space.txt": (4, 12, 12, 0),
        "t4-54-4x4/title.txt": (4, 12, 0, 0),
    }
    for name, (side, *counts) in read_rightly.items():
        rows, rejects = read(cases / name, side)
        found = [len(rows), int(rows.answers.any(axis=1).sum()), int((~np.isnan(rows.ratings)).sum())]
        assert (found, rejects) == (counts, []), name
    refused_rows = {
        "t4-02-rating-forms/ed.txt": (14, "the word 'ED=1.5/1.2/1.2'"),
        "t4-02-rating-forms/first.txt": (14, "'1.5' before the puzzle"),
        "t4-02-rating-forms/neg.txt": (13, "rating '-1'"),
        "t4-02-rating-forms/semi.txt": (14, "the word 'GP'"),
        "t4-53-text/arrow.txt": (14, "the word '=>'"),
        "t4-53-text/eq.txt": (14, "expected 81 characters, got 163"),
        "t4-53-text/euler-sol.txt": (14, "has no blank cell"),
        "t4-55-puzzle-then-solution/grids.txt": (12, "has no blank cell"),
        "t4-55-puzzle-then-solution/solutions-only.txt": (12, "has no blank cell"),
    }
    for name, (count, reason) in refused_rows.items():
        rejects = read(cases / name, 9)[1]
        assert (len(rejects), rejects[0].reason.startswith(reason)) == (count, True), (name, rejects[:1])
    for name, side in (("t4-53-text/side.txt", 9), ("t4-03-fpuzzles/one.json", 9)):
        with pytest.raises(SourceError):
            read(cases / name, side)
    for name in ("line", "one", "tight", "titles"):
        rows = mazes(cases / "t4-32-maze-first-row-free" / f"{name}.txt", 6, 6)[0]
        assert rows.questions[0].tolist() == [2] * 6 + [1, 1, 1, 2, 2, 1, 2, 2, 2, 2, 4, 2, 2, 3, 1, 2, 1, 2, 2, 1] + [
            2, 2, 2, 1, 1, 1, 2, 1, 2, 2
        ], name  # fmt: skip
