"""The curve through a group's accuracies over what it varies, with a band, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from trm_eval.errors import StatisticsError
from trm_eval.statistics import Band, Fit, band, choose_fit, saturation

POINTS = 60
"""Places at which a curve is drawn."""
RESAMPLES = 400


@dataclass(frozen=True)
class Trend:
    """A curve of the exact accuracy (%) over a quantity.

    Attributes:
        fit: The curve, chosen by AICc; None without.
        band: Its 95% band, from curves fitted to drawn runs.
        left: What it leaves, root mean square (points).
        saturated: Smallest value that was run within a point of its ceiling; None where none is, or it has no ceiling.
        refused: Why there is no curve; empty where there is one.
    """

    fit: Fit | None = None
    band: Band | None = None
    left: float = 0.0
    saturated: float | None = None
    refused: str = ""

    def says(self, quantity: str) -> str:
        """What the curve says, in a sentence; `quantity` is called x in it."""
        if self.fit is None:
            return f"no curve over {quantity} is fitted: {self.refused}."
        said = (
            f"fitted over {quantity} (x, exact % is y): {self.fit.text}, which leaves {self.left:.1f} points"
        )
        if self.fit.offset is None:
            said += f"; {_points(float(self.fit.b * np.log10(2)))} for each doubling"
        elif self.fit.ceiling is not None:
            said += f"; its ceiling is {self.fit.ceiling:.1f}%"
            said += "" if self.saturated is None else f", within a point of it from {self.saturated:,.4g} on"
        if self.band is not None and ((curve := self.fit.at(self.band.x)) > 100).any():
            said += f"; it passes 100% from {self.band.x[curve > 100].min():,.4g} on, which no accuracy can"
        return f"{said}."


def _points(slope: float) -> str:
    return "less than 0.1 points either way" if abs(slope) < 0.1 else f"{slope:+.1f} points"


def trend_of(values: Sequence[float], exact: Sequence[float]) -> Trend:
    """The curve through runs.

    Args:
        values: Of the quantity, one for each run.
        exact: Exact accuracies (0 to 1).
    """
    frame = pl.DataFrame({"x": values, "y": [100 * share for share in exact]})
    try:
        best = choose_fit(frame, "x", "y")
        at = np.geomspace(min(values), max(values), POINTS).clip(min(values), max(values))
        around = band(frame, "x", "y", best.form, at.tolist(), seed=0, resamples=RESAMPLES)
    except StatisticsError as error:
        return Trend(refused=str(error))
    left = float(np.sqrt(best.rss / best.count))
    return Trend(best, around, left, saturation(best, sorted(set(values)), point=1.0))
