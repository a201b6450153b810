"""Drawings as text: headings, and marks after cells."""

from __future__ import annotations

import io

import numpy as np
import pytest

from trm_data.show.drawing import Drawing
from trm_data.show.render import print_drawings

BOXED = Drawing(("1234", "3412", "2143", "4321"), np.zeros((4, 4), np.uint8), ("#ffffff",), box=(2, 2))
LINE = Drawing(("S oG",), np.zeros((1, 4), np.uint8), ("#ffffff",), spaced=False)
TOKENS = np.arange(16, dtype=np.uint8)


def marked() -> Drawing:
    """Return a drawing whose first cell is wrong, second changed, third both."""
    wrong, before = np.zeros(16, bool), TOKENS.copy()
    wrong[[0, 2]] = True
    before[[1, 2]] += 1
    return BOXED.compare((4, 4), TOKENS, TOKENS, wrong=wrong, before=before)


def test_marks_follow_their_cells_between_boxes() -> None:
    assert (
        marked().text() == BOXED.text() == " 1 2 | 3 4 \n 3 4 | 1 2 \n-----+-----\n 2 1 | 4 3 \n 4 3 | 2 1 "
    )
    assert marked().text(marks=True).splitlines()[0] == " 1x2'| 3*4 "


def test_cells_without_a_gap_have_one_where_some_are_marked() -> None:
    assert LINE.text(marks=True) == LINE.text() == "S oG"
    wrong = np.array([False, False, True, False])
    answer = LINE.compare((1, 4), TOKENS[:4], TOKENS[:4], wrong=wrong)
    assert answer.text(marks=True) == "S   oxG"


def test_a_drawing_of_a_part_of_the_grid_has_the_marks_of_that_part() -> None:
    corner = Drawing(("12", "34"), np.zeros((2, 2), np.uint8), ("#ffffff",))
    wrong = np.zeros(16, bool)
    wrong[[1, 5, 15]] = True
    found = corner.compare((4, 4), TOKENS, TOKENS, wrong=wrong).marked
    assert found is not None
    assert found.tolist() == [[False, True], [False, True]]


def test_drawings_have_headings_and_marks_a_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    print_drawings([("given", BOXED), ("answer", marked())])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["given", "answer"]
    assert lines[1].endswith(" 1x2'| 3*4")
    assert lines[-1] == "  after a cell: x wrong, ' changed, * wrong and changed"
    print_drawings([("given", BOXED)])
    assert "after a cell" not in capsys.readouterr().out


class Terminal(io.StringIO):
    """Simulates a terminal on stdout."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """Return True."""
        return True


def test_a_terminal_shows_given_answered_and_wrong_cells_in_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    answer = LINE.compare((1, 4), TOKENS[:4], np.array([0, 1, 9, 9], np.uint8), wrong=np.arange(4) == 3)
    print_drawings([("answer", answer)])
    heading, cells, *_ = terminal.getvalue().splitlines()
    assert heading.strip() == "answer"
    styles = {symbol: cells.split(f"m{symbol}\x1b")[0].rsplit("[", 1)[1] for symbol in "SoG"}
    assert styles["S"].startswith("1;38;2;0;0;0;")  # given: bold, black
    assert styles["o"].startswith("38;2;0;114;178;")  # answered: blue
    assert styles["G"].startswith("1;38;2;213;94;0;")  # wrong: bold, vermilion
