"""Tables: complete in a pipe, as much as fits on a terminal, and never a broken name."""

from __future__ import annotations

import io

import pytest

from trm_data.show.render import print_table
from trm_data.show.table import csv_cell, markdown_cell, table_lines

NAME = "sudoku-2x3-generated-500-aug-1000"
DIGEST = "d1d6fc65c165fb7a8e82246eebea457c7079016da05a21bb15c311da3cfccc8d"
COLUMNS = ["dataset", "split", "digest", "count", "seconds"]
ROWS = [(NAME, "train", DIGEST, 500_500, 1.5), ("short", "test", DIGEST[::-1], 7, None)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, width: int, *, terminal: bool = True, **options: bool) -> str:
    output = Terminal() if terminal else io.StringIO()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout", output)
    print_table(COLUMNS, ROWS, **options)
    return output.getvalue()


def test_a_narrow_terminal_has_whole_columns_and_is_told_which_are_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = printed(monkeypatch, 80)
    assert said.splitlines()[1:] == [
        " dataset                            split",
        " " + "─" * 40,
        f" {NAME}  train",
        " short                              test",
        " 3 columns hidden: digest, count, seconds; a pipe (| less -S) has all",
        "",
    ]


@pytest.mark.parametrize("width", [20, 36, 60, 80, 113, 140, 200])
def test_no_name_number_or_hash_is_ever_broken(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    said = printed(monkeypatch, width)
    body = said.splitlines()[3:5]
    allowed = {"short", NAME, "train", "test", DIGEST, DIGEST[::-1], "500500", "7", "1.5", "NULL"}
    assert NAME in body[0]
    assert {word for line in body for word in line.split()} <= allowed
    assert max(map(len, body)) <= max(width, 1 + len(NAME))


def test_wide_and_a_pipe_have_all_columns_in_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = printed(monkeypatch, 40, wide=True)
    assert wide == printed(monkeypatch, 40, terminal=False)
    lines = wide.splitlines()
    assert len(lines) == 6
    assert lines[3] == f" {NAME}   train   {DIGEST}   500500   1.5"
    assert "hidden" not in wide


def test_a_terminal_says_how_many_rows_it_was_spared() -> None:
    rows = [(number,) for number in range(4_159)]
    lines = table_lines(["n"], rows, width=80, most_rows=100, hint="; --wide shows all")
    assert lines[-2:] == [" 99", " 100 of 4,159 rows shown; --wide shows all"]
    assert len(table_lines(["n"], rows, width=80)) == 4_161


def test_words_go_on_in_a_further_line_or_are_cut_while_names_stay_whole() -> None:
    rows = [("name-that-is-long", "VARCHAR", "hash over run, its dataset, step and weights")]
    assert table_lines(["column", "type", "what it says"], rows, width=50)[2:] == [
        " name-that-is-long  VARCHAR  hash over run, its",
        "                             dataset, step and",
        "                             weights",
    ]
    cut = table_lines(["column", "type", "what it says"], rows, width=50, long="cut")
    assert cut[2:] == [" name-that-is-long  VARCHAR  hash over run, its d…"]


def test_two_columns_of_words_share_what_room_there_is() -> None:
    rows = [("a b " * 5, "x", "c d " * 30)]
    lines = table_lines(["first", "n", "second"], rows, width=60)
    assert max(map(len, lines)) <= 60
    assert lines[2].startswith(" a b a b a b a b a b")


def test_a_line_end_in_a_value_makes_no_second_row_and_no_escape_reaches_the_terminal() -> None:
    lines = table_lines(["text"], [("two\nlines\x1b[2J\x9b",)])
    assert lines[2:] == [r" two\nlines\x1b[2J\x9b"]


def test_letters_of_two_places_keep_columns_aligned() -> None:
    lines = table_lines(["name", "n"], [("数独", 1), ("abcd", 2)])
    assert lines[2:] == [" 数独   1", " abcd   2"]


def test_nothing_found_is_said() -> None:
    assert table_lines(["n"], [])[-1] == " (no rows)"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("=1+1", "'=1+1"), ("+cmd|x", "'+cmd|x"), ("@SUM(A1)", "'@SUM(A1)"), ("-2+3", "'-2+3"), ("\t=1", "'\t=1"),
        ("-1.5", "-1.5"), ("-", "-"), ("a=b", "a=b"), (-2, -2), (None, None),
    ],
)  # fmt: skip
def test_text_that_a_spreadsheet_would_run_has_an_apostrophe_in_csv(value: object, written: object) -> None:
    assert csv_cell(value) == written


def test_markdown_has_no_html_and_no_further_columns() -> None:
    assert markdown_cell("a|b <b>&\n[x](y)") == r"a\|b &lt;b&gt;&amp; \[x](y)"
    assert markdown_cell("`x < y` < z") == "`x < y` &lt; z"
    assert markdown_cell("a ` <b>") == r"a \` &lt;b&gt;"
