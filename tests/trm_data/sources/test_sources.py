"""Files: what is read, and what every kind of bad input says."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from trm_data.errors import SourceError, SpecError
from trm_data.sources.base import fetch_source, parse_source
from trm_data.sources.sudoku import PuzzleRows, read_puzzles

# From ../shared/data/sudoku/exchange_diabolical_28_publicdomain.txt (public domain).
PUZZLE = "083020090000800100029300008000098700070000060006740000300006980002005000010030540"
OTHER = "200050006010000090600801003007090600000703000900080002100000005060902010003060200"


def read(path: Path, kind: str = "csv") -> tuple[PuzzleRows, list[tuple[int, str]]]:
    with fetch_source(parse_source(f"{kind}:{path}")) as source:
        rows, rejects = read_puzzles(source, 9)
    assert all(reject.file == str(path) for reject in rejects)
    return rows, [(reject.line, reject.reason) for reject in rejects]


@pytest.fixture
def csv_file(tmp_path: Path):
    def write(*lines: str, header: str = "source,question,answer,rating") -> Path:
        path = tmp_path / "puzzles.csv"
        path.write_text("\n".join([header, *lines]) + "\n")
        return path

    return write


def test_rows_come_with_line_numbers_and_what_they_state(csv_file) -> None:
    rows, rejects = read(csv_file(f"a,{PUZZLE},,", f"b,{OTHER},,7.5"))
    assert not rejects
    np.testing.assert_array_equal(rows.lines, [2, 3])
    assert not rows.answers.any()
    assert np.isnan(rows.ratings[0])
    assert rows.ratings[1] == 7.5
    assert rows.puzzles[0, 1] == 8


def test_columns_may_stand_in_any_order_and_be_missing(csv_file) -> None:
    rows, _ = read(csv_file(f"3,{PUZZLE}", header="rating,question"))
    assert rows.ratings[0] == 3


def test_text_files_have_comments_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "puzzles.txt"
    path.write_text(f"# a list\n\n{PUZZLE} # easy\n{OTHER}\n")
    rows, rejects = read(path, "txt")
    assert not rejects
    np.testing.assert_array_equal(rows.lines, [3, 4])


def test_compressed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "puzzles.csv.gz"
    path.write_bytes(gzip.compress(f"question\n{PUZZLE}\n".encode()))
    rows, _ = read(path)
    assert len(rows) == 1


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (f"a,{PUZZLE[:-1]},,", "expected 81 characters, got 80"),
        (f"a,{PUZZLE[:-1]}x,,", "character 'x' at position 81"),
        (f"a,{PUZZLE},{'1' * 80},", "answer: expected 81 characters, got 80"),
        (f"a,{PUZZLE},{'1' * 80}.,", "answer: blank"),
        (f"a,{PUZZLE},,hard", "rating 'hard': expected a number"),
        (f"a,{PUZZLE},,-1", "rating '-1': expected a number of 0 or more"),
        (f"a,{PUZZLE},,nan", "rating 'nan'"),
        ("a", "expected 81 characters, got 0"),
    ],
)
def test_bad_rows_are_named_by_line_and_reason(csv_file, row: str, reason: str) -> None:
    rows, rejects = read(csv_file(f"a,{OTHER},,", row))
    assert len(rows) == 1
    assert rejects[0][0] == 3
    assert reason in rejects[0][1]


def test_an_exact_duplicate_names_the_first(csv_file) -> None:
    _, rejects = read(csv_file(f"a,{PUZZLE},,", f"b,{OTHER},,", f"c,{PUZZLE},,"))
    assert rejects == [(4, "the same puzzle as line 2")]


def test_a_missing_column_names_what_was_found(csv_file) -> None:
    with pytest.raises(SourceError, match=r"puzzles.csv:1: has no column 'question'; found source, puzzle"):
        read(csv_file(f"a,{PUZZLE}", header="source,puzzle"))


def test_an_empty_file_and_one_without_rows(tmp_path: Path, csv_file) -> None:
    (tmp_path / "empty.csv").write_bytes(b"")
    with pytest.raises(SourceError, match="empty"):
        read(tmp_path / "empty.csv")
    with pytest.raises(SourceError, match="has no rows"):
        read(csv_file())


def test_gzip_under_another_name_and_the_reverse(tmp_path: Path) -> None:
    packed, plain = tmp_path / "packed.csv", tmp_path / "plain.csv.gz"
    packed.write_bytes(gzip.compress(b"question\n"))
    plain.write_text("question\n")
    with pytest.raises(SourceError, match=r"rename it to .*packed.csv.gz"):
        read(packed)
    with pytest.raises(SourceError, match="is not gzip-compressed"):
        read(plain)


def test_a_gzip_file_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "short.csv.gz"
    path.write_bytes(gzip.compress(f"question\n{PUZZLE}\n".encode() * 50)[:40])
    with pytest.raises(SourceError, match="broken gzip"):
        read(path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.csv"
    path.write_bytes(b"question\n\xff\xfe\x00\x81\n")
    with pytest.raises(SourceError, match="not UTF-8"):
        read(path)


def test_a_missing_file() -> None:
    with (
        pytest.raises(SourceError, match="no such file"),
        fetch_source(parse_source("csv:/nowhere/at/all.csv")),
    ):
        pass


def test_urls_are_read_through_fsspec(tmp_path: Path) -> None:
    import fsspec

    with fsspec.open("memory://puzzles/remote.csv", "wb") as file:
        file.write(f"question\n{PUZZLE}\n".encode())
    with fetch_source(parse_source("csv:memory://puzzles/remote.csv")) as source:
        rows, _ = read_puzzles(source, 9)
    assert len(rows) == 1
    assert source.spec.name == "remote.csv"


@pytest.mark.parametrize("text", ["csv", "csv:", "generated:x", "xml:a", "", "hf:"])
def test_other_forms_of_sources_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="allowed are"):
        parse_source(text, "--test-source")
