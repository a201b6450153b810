"""Canvas of all figures of a report: one panel, readable on a phone, as SVG.

The colours are safe for colour-blind readers, and curves have markers too. In HTML the ink follows light or dark mode.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#6b7280")
"""Colours of curves. Source: Okabe and Ito, Color Universal Design (2008), plus a grey."""
MARKERS = "osD^vPXh"
"""Markers of curves. Curve 8 reuses the first colour with the second marker, so that pairs stay distinct."""
INK, GRID, PAPER = "#1f2937", "#d1d5db", "#ffffff"
"""Colours of text, lines and background; a page replaces them with its own (`blocks.py`)."""
SIZE = (4.6, 3.1)
"""Size of a figure in inches: as wide as a phone screen at about its text size."""
LEAST_POINTS = 5.0
"""Minimum range of an axis in percent (points): accuracies that differ by less look the same."""
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "trm",
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
}


def draw(paint: Callable[[Any], None], *, height: float = SIZE[1]) -> bytes:
    """Draw a figure with one panel as SVG; drawing it again gives the same bytes.

    Args:
        paint: Draws on matplotlib's axes.
        height: Height in inches; a legend below the panel is added to it.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    out = io.BytesIO()
    with rc_context(SETTINGS):
        figure = Figure(figsize=(SIZE[0], height), layout="constrained")
        axis = figure.subplots()
        paint(axis)
        limit_percent(axis)
        _legend(figure, axis)
        figure.savefig(out, format="svg", metadata={"Date": None}, facecolor=PAPER)
    return out.getvalue()


def _legend(figure: Any, axis: Any) -> None:
    """Add a legend below the panel, where it hides nothing."""
    handles, names = axis.get_legend_handles_labels()
    if not names:
        return
    widest = max(map(len, names))
    columns = 1 if widest > 30 else 2 if widest > 16 else 3
    lines = -(-len(names) // columns)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.19 * lines + 0.08)
    figure.legend(
        handles, names, loc="outside lower left", ncols=columns, fontsize=8, frameon=False,
        handlelength=1.6, columnspacing=1.2, labelspacing=0.3, borderaxespad=0.2,
    )  # fmt: skip


def limit_percent(axis: Any) -> None:
    """Limit each axis whose label ends in (%) to 0 to 100, with room for markers at the ends."""
    for label, get_limits, set_limits in (
        (axis.get_xlabel(), axis.get_xlim, axis.set_xlim),
        (axis.get_ylabel(), axis.get_ylim, axis.set_ylim),
    ):
        if not label.endswith("(%)"):
            continue
        low, high = (min(max(end, 0.0), 100.0) for end in get_limits())
        wide = max(high - low, LEAST_POINTS)
        low = min(max((low + high - wide) / 2, 0.0), 100.0 - wide)
        room = 0.03 * wide
        set_limits(low - room * (low == 0), low + wide + room * (low + wide == 100))


def looks(names: Sequence[str], most: int = 40) -> list[dict[str, Any]]:
    """Return colour, marker and label of each named curve, for `plot`; pairs repeat after all were used.

    Curves of one name, such as the seeds of an experiment, share colour, marker and legend entry, and are thinner.

    Args:
        names: Name of each curve.
        most: Maximum length of a label.
    """
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    found: list[dict[str, Any]] = []
    for at, name in enumerate(names):
        again, colour = divmod(numbers[name], len(COLOURS))
        several = names.count(name) > 1
        found.append(
            {
                "color": COLOURS[colour],
                "marker": MARKERS[(colour + again) % len(MARKERS)],
                "markersize": 2.5 if several else 4,
                "linewidth": 0.8 if several else 1.3,
                "label": "_" if name in names[:at] else short(name, most),
            }
        )
    return found


def short(text: str, most: int = 40) -> str:
    """Shorten a name and escape it for matplotlib: `$` does not start a formula, and a label may start with `_`."""
    fits = text if len(text) <= most else f"{text[: most - 1]}…"
    return ("\u200b" if fits.startswith("_") else "") + fits.replace("$", r"\$")


def reach(rows: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """Return how far the intervals of accuracies reach below and above (points), for `errorbar`.

    Args:
        rows: Rows with `exact_low`, `exact_accuracy` and `exact_high` (0 to 1).
    """
    below = [100 * max(row["exact_accuracy"] - row["exact_low"], 0.0) for row in rows]
    return [below, [100 * max(row["exact_high"] - row["exact_accuracy"], 0.0) for row in rows]]


def plot_shares(
    axis: Any,
    x: Sequence[float],
    rows: Sequence[Mapping[str, Any]],
    style: Mapping[str, Any],
    alpha: float = 0.12,
) -> None:
    """Draw accuracies (%) over x, with their intervals as a band; rows as in `reach`."""
    axis.plot(x, [100 * row["exact_accuracy"] for row in rows], **style)
    low, high = ([100 * row[end] for row in rows] for end in ("exact_low", "exact_high"))
    axis.fill_between(x, low, high, color=style["color"], alpha=alpha, linewidth=0)
    axis.set_ylabel("exact accuracy, test (%)")
