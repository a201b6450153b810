"""How many Sudokus must be generated for those that are wanted, and how fast that is: for estimates.

Shares were measured over 20,480 random puzzles of each size and 1,024 searched ones; rates on one core of an AMD EPYC.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from trm_data.kinds.needed import candidates_needed
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.specs import DatasetSpec

ZERO = 1e-9
"""Ratings are 0 or at least 1: a share stands from just above 0 on."""
RATED_AT_LEAST: Mapping[tuple[int, str], Mapping[float, float]] = {
    (6, "random"): {0: 1, ZERO: 0.0471, 1: 0.0471, 1.5: 0.0033, 2: 0.0009, 3: 0.0001, 4: 0},
    (9, "random"): {
        0: 1,
        ZERO: 0.467,
        1: 0.467,
        1.5: 0.274,
        2: 0.208,
        3: 0.0952,
        4: 0.0439,
        5: 0.0212,
        7: 0.0057,
        10: 0.0009,
        15: 0.00005,
        20: 0,
    },
    (9, "extreme"): {
        0: 1,
        ZERO: 0.862,
        1: 0.862,
        2: 0.778,
        5: 0.715,
        10: 0.685,
        15: 0.563,
        20: 0.451,
        30: 0.284,
        40: 0.152,
        50: 0.0537,
        70: 0.0078,
        100: 0.001,
        150: 0,
    },
}
"""Share of generated puzzles with a rating of at least so much, by side and difficulty."""
PER_S = {4: 30_000.0, 6: 9_700.0, 8: 3_500.0, 9: 11_000.0, 10: 860.0, 12: 420.0, 15: 40.0, 16: 30.0}
"""Random puzzles that a core makes and rates in a second, by side."""
EXTREME_PER_S = 18.0
"""Searched puzzles that a core makes in a second."""


def shares_of_bins(options: SudokuOptions) -> tuple[float, ...] | None:
    """Share of candidates that fits each bin from which a split takes its puzzles; None where it is not known."""
    low, high = options.min_rating, options.max_rating
    edges = [*options.rating_bins, math.inf]
    if not options.rating_bins:
        edges = [low or 0.0, math.inf if high is None else math.nextafter(high, math.inf)]
    if edges == [0.0, math.inf]:
        return (1.0,)
    known = RATED_AT_LEAST.get((options.side, options.difficulty))
    if known is None:
        return None
    points = np.interp(edges, list(known), list(known.values()))
    return tuple(float(at - above) for at, above in pairwise(points.tolist()))


def choosing_time(spec: DatasetSpec, options: SudokuOptions) -> tuple[float, bool]:
    """Seconds of one core for the puzzles of a specification, and whether that is only the least."""
    if spec.source.kind != "generated":
        return 0.0, False
    extreme = options.difficulty == "extreme"
    per_s = EXTREME_PER_S if extreme else PER_S.get(options.side, min(PER_S.values()))
    shares = shares_of_bins(options)
    made = candidates_needed(spec, shares or (1.0,), slow=extreme or options.side > 9)
    return made / per_s, shares is None
