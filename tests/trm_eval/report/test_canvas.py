"""Colours, markers and names in figures."""

from __future__ import annotations

import itertools

from trm_eval.report.canvas import COLOURS, MARKERS, look


def test_curves_of_one_colour_have_other_markers_and_neighbours_other_colours() -> None:
    pairs = [(look(number)["color"], look(number)["marker"]) for number in range(len(COLOURS) * len(MARKERS))]
    assert len(set(pairs)) == len(pairs)
    assert all(one[0] != other[0] for one, other in itertools.pairwise(pairs))
    assert pairs[0][1] == "o"
    assert pairs[len(COLOURS)][1] == "s", "a hexagon looks like a circle"
