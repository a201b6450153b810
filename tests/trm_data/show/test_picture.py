"""Drawings as pictures: marked cells, and when each frame of an animation is visible."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trm_data.show.drawing import ANSWER_COLOUR, WRONG_COLOUR, Drawing
from trm_data.show.picture import png_row, svg, svg_row, write_animation

SVG = "{http://www.w3.org/2000/svg}"
PLAIN = Drawing(("12", "34"), np.zeros((2, 2), np.uint8), ("#ffffff",))
MARKED = replace(PLAIN, marked=np.array([[False, True], [False, False]]))


def test_cells_are_pointed_out_with_a_frame_and_a_corner() -> None:
    assert WRONG_COLOUR not in svg(PLAIN)
    root = ElementTree.fromstring(svg(MARKED, cell=20))
    (frame,) = (each for each in root.iter(f"{SVG}rect") if each.get("stroke") == WRONG_COLOUR)
    assert 20 < float(frame.get("x", 0)) < 23
    assert 0 < float(frame.get("y", 0)) < 3
    assert len([each for each in root.iter(f"{SVG}path") if each.get("fill") == WRONG_COLOUR]) == 1
    assert MARKED.text() == PLAIN.text()
    assert png_row([("a", MARKED)]) != png_row([("a", PLAIN)])


def test_a_row_scales_with_the_page_that_shows_it() -> None:
    root = ElementTree.fromstring(svg_row([("a <b>", PLAIN), ("c", MARKED)]))
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"


def letters(drawing: Drawing) -> dict[str, tuple[str | None, str | None]]:
    """Return colour and weight of each symbol of a picture."""
    texts = ElementTree.fromstring(svg(drawing)).iter(f"{SVG}text")
    return {each.text or "": (each.get("fill"), each.get("font-weight")) for each in texts}


def test_given_cells_are_bold_and_answered_ones_blue() -> None:
    puzzle, answer = np.array([1, 0, 3, 0], np.uint8), np.array([1, 2, 3, 4], np.uint8)
    found = letters(PLAIN.compare((2, 2), answer, puzzle))
    assert found["1"] == found["3"] == ("#000000", "bold")
    assert found["2"] == found["4"] == (ANSWER_COLOUR, "normal")
    assert letters(PLAIN)["1"] == ("#000000", "normal")


def test_changed_cells_have_a_corner_of_their_own() -> None:
    puzzle, answer = np.zeros(4, np.uint8), np.array([1, 2, 3, 4], np.uint8)
    drawing = PLAIN.compare((2, 2), answer, puzzle, before=np.array([1, 2, 4, 4], np.uint8))
    (corner,) = (each for each in ElementTree.fromstring(svg(drawing, cell=20)).iter(f"{SVG}path"))
    assert (corner.get("fill"), corner.get("d", "").split("V")[0]) == (ANSWER_COLOUR, "M0 34.00")
    plain = PLAIN.compare((2, 2), answer, puzzle)
    assert png_row([("a", drawing)]) != png_row([("a", plain)])


@pytest.mark.parametrize("rows", [2, 30])
def test_symbols_of_own_kinds_are_drawn_whatever_they_are(rows: int) -> None:
    drawing = Drawing((".#",) * rows, np.zeros((rows, 2), np.uint8), ("#ffffff", "#e5e7eb"))
    texts = [each.text for each in ElementTree.fromstring(svg(drawing)).iter(f"{SVG}text")]
    assert texts == [".", "#"] * rows
    empty = replace(drawing, symbols=("  ",) * rows)
    assert png_row([("a", drawing)]) != png_row([("a", empty)])
    silent = replace(drawing, silent=" .#")
    assert png_row([("a", silent)]) == png_row([("a", empty)])


def test_an_animation_is_wide_enough_and_holds_its_last_frame(tmp_path: Path) -> None:
    other = replace(PLAIN, symbols=("43", "21"))
    write_animation([[("a", PLAIN)], [("b", other)]], tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as image:
        assert image.width >= 480
        durations: list[int] = []
        for frame in range(getattr(image, "n_frames", 1)):
            image.seek(frame)
            durations.append(image.info["duration"])
    assert durations == [500, 3000]
