"""Drawings as pictures: PNG or SVG files, and SVG text for pages and notebooks, also animated.

SVG is written here; PNG comes from matplotlib.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trm_data.errors import SpecError
from trm_data.show.drawing import ANSWER_COLOUR, WRONG_COLOUR, Drawing, letter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL = 18
MARGIN = 8
FORMATS = (".png", ".svg")
TITLE_INCH = 0.065
"""Approximate width of a character of a title, in inches."""
GIF_WIDTH, HOLD_S, FRAMES_PER_S = 480, 3.0, 2
"""Of an animation: minimum width in pixels, display time of the last frame in seconds, frames a second."""


def svg(drawing: Drawing, *, cell: int = CELL) -> str:
    """Return a drawing as one SVG element."""
    rows, columns = drawing.shape
    width, height = columns * cell, rows * cell
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 2}" height="{height + 2}" '
        f'viewBox="-1 -1 {width + 2} {height + 2}" shape-rendering="crispEdges" '
        f'font-family="sans-serif" font-size="{cell * 0.62:.1f}">'
    ]
    for row in range(rows):
        line = drawing.colours[row].tolist()
        starts = [column for column in range(columns) if not column or line[column] != line[column - 1]]
        for start, stop in zip(starts, [*starts[1:], columns], strict=True):
            parts.append(
                f'<rect x="{start * cell}" y="{row * cell}" width="{(stop - start) * cell}" height="{cell}" '
                f'fill="{drawing.palette[line[start]]}"/>'
            )
        for column, symbol in enumerate(drawing.symbols[row] if drawing.lettered else ""):
            if symbol not in drawing.silent:
                colour, weight = letter(drawing, row, column)
                parts.append(
                    f'<text x="{(column + 0.5) * cell:.1f}" y="{(row + 0.72) * cell:.1f}" text-anchor="middle" '
                    f'fill="{colour}" font-weight="{weight}">{escape(symbol)}</text>'
                )
    if drawing.lettered:
        parts += _lines(rows, columns, cell, 1, 1, 0.5, "#9ca3af")
    box_rows, box_columns = drawing.box
    if box_rows and box_columns:
        parts += _lines(rows, columns, cell, box_rows, box_columns, 2, "#111827")
    if drawing.marked is not None:
        parts += [_mark(int(row), int(column), cell) for row, column in np.argwhere(drawing.marked)]
    if drawing.changed is not None:
        parts += [_change(int(row), int(column), cell) for row, column in np.argwhere(drawing.changed)]
    parts.append(
        f'<rect x="0" y="0" width="{width}" height="{height}" fill="none" stroke="#111827" stroke-width="1.5"/></svg>'
    )
    return "".join(parts)


def _change(row: int, column: int, cell: int) -> str:
    """Return the filled lower left corner of a cell."""
    x, y, corner = column * cell, (row + 1) * cell, cell * 0.3
    return f'<path d="M{x} {y - corner:.2f}V{y}H{x + corner:.2f}Z" fill="{ANSWER_COLOUR}"/>'


def _mark(row: int, column: int, cell: int) -> str:
    """Return a frame inside a cell with a filled upper right corner, visible also without colours."""
    x, y, corner = column * cell, row * cell, cell * 0.36
    right = x + cell
    return (
        f'<rect x="{x + 1.25}" y="{y + 1.25}" width="{cell - 2.5}" height="{cell - 2.5}" fill="none" '
        f'stroke="{WRONG_COLOUR}" stroke-width="2.5"/>'
        f'<path d="M{right - corner:.2f} {y}H{right}V{y + corner:.2f}Z" fill="{WRONG_COLOUR}"/>'
    )


def _lines(
    rows: int, columns: int, cell: int, down: int, across: int, width: float, colour: str
) -> list[str]:
    style = f'stroke="{colour}" stroke-width="{width}"'
    horizontal = [
        f'<line x1="0" y1="{row * cell}" x2="{columns * cell}" y2="{row * cell}" {style}/>'
        for row in range(down, rows, down)
    ]
    vertical = [
        f'<line x1="{column * cell}" y1="0" x2="{column * cell}" y2="{rows * cell}" {style}/>'
        for column in range(across, columns, across)
    ]
    return horizontal + vertical


def write_picture(drawings: Sequence[tuple[str, Drawing]], path: Path, *, across: int | None = None) -> None:
    """Write titled drawings side by side into one file, in the format of its extension.

    Args:
        drawings: Drawings in reading order.
        path: The file.
        across: Drawings per row; None puts all into one row.
    """
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise SpecError(f"--out {path}: expected {', '.join(FORMATS)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if ending == ".svg":
        path.write_text(svg_row(drawings, across), "utf-8")
    else:
        path.write_bytes(png_row(drawings, across))


def _in_rows(
    drawings: Sequence[tuple[str, Drawing]], across: int | None
) -> list[Sequence[tuple[str, Drawing]]]:
    each = across or len(drawings)
    return [drawings[start : start + each] for start in range(0, len(drawings), each)]


def svg_row(drawings: Sequence[tuple[str, Drawing]], across: int | None = None) -> str:
    """Return titled drawings side by side as an SVG file, `across` per row, aligned in columns."""
    title, lines = 20, _in_rows(drawings, across)
    widths = [
        max(max(drawing.shape[1] * CELL + 2, 7 * len(name)) for name, drawing in column)
        for column in ([line[at] for line in lines if at < len(line)] for at in range(len(lines[0])))
    ]
    parts: list[str] = []
    y = 0
    for line in lines:
        x = MARGIN
        for (name, drawing), width in zip(line, widths, strict=False):
            parts.append(
                f'<text x="{x}" y="{y + MARGIN + 12}" font-family="sans-serif" font-size="12">{escape(name)}</text>'
            )
            parts.append(f'<g transform="translate({x},{y + MARGIN + title})">{svg(drawing)}</g>')
            x += width + 2 * MARGIN
        y += max(drawing.shape[0] for _, drawing in line) * CELL + title + 2 * MARGIN + 2
    wide = MARGIN + sum(width + 2 * MARGIN for width in widths)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{y}" viewBox="0 0 {wide} {y}">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def write_animation(frames: Sequence[Sequence[tuple[str, Drawing]]], path: Path) -> None:
    """Write frames of titled drawings side by side as a GIF; all frames have drawings of the same shapes.

    The last frame stays for `HOLD_S`.
    """
    from matplotlib.animation import PillowWriter

    if path.suffix.lower() != ".gif":
        raise SpecError(f"--out {path}: animations need .gif")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = _figure(max(frames, key=lambda frame: max(len(name) for name, _ in frame)))
    figure.set_dpi(max(figure.dpi, math.ceil(GIF_WIDTH / figure.get_figwidth())))
    writer = PillowWriter(fps=FRAMES_PER_S)
    with writer.saving(figure, str(path), dpi=figure.dpi):
        for frame in [*frames, *[frames[-1]] * round(HOLD_S * FRAMES_PER_S - 1)]:
            figure.clear()
            _fill_figure(figure, frame)
            writer.grab_frame()


def png_row(drawings: Sequence[tuple[str, Drawing]], across: int | None = None) -> bytes:
    """Return titled drawings side by side as a PNG file, `across` per row, aligned in columns."""
    figure, out = _figure(drawings, across), io.BytesIO()
    _fill_figure(figure, drawings, across)
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _figure(drawings: Sequence[tuple[str, Drawing]], across: int | None = None) -> Figure:
    """Return an empty figure with space for drawings of these shapes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = _in_rows(drawings, across)
    columns, rows = _most_columns(lines), _most_rows(lines)
    inch = 0.26 if any(drawing.lettered for _, drawing in drawings) else 0.13
    # A title starts at its drawing and may be wider.
    titles = max(
        len(name) * TITLE_INCH * sum(columns) / wide
        for line in lines
        for (name, _), wide in zip(line, columns, strict=False)
    )
    width = max(sum(columns) * inch, titles) + 0.5 * len(columns)
    height = sum(rows) * inch + 0.6 * len(rows)
    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _most_columns(lines: Sequence[Sequence[tuple[str, Drawing]]]) -> list[int]:
    """Return the width in cells of each column of drawings."""
    return [max(line[at][1].shape[1] for line in lines if at < len(line)) for at in range(len(lines[0]))]


def _most_rows(lines: Sequence[Sequence[tuple[str, Drawing]]]) -> list[int]:
    """Return the height in cells of each row of drawings."""
    return [max(drawing.shape[0] for _, drawing in line) for line in lines]


def _fill_figure(figure: Figure, drawings: Sequence[tuple[str, Drawing]], across: int | None = None) -> None:
    """Draw the drawings side by side."""
    lines = _in_rows(drawings, across)
    grid = figure.subplots(
        len(lines),
        len(lines[0]),
        squeeze=False,
        width_ratios=_most_columns(lines),
        height_ratios=_most_rows(lines),
    )
    places = list(grid.flat)
    for axis in places[len(drawings) :]:
        axis.set_axis_off()
    for axis, (name, drawing) in zip(places, drawings, strict=False):
        _fill_axis(axis, name, drawing)


def _fill_axis(axis: Axes, name: str, drawing: Drawing) -> None:
    """Draw one drawing under its title."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Polygon, Rectangle

    high, wide = drawing.shape
    palette = ListedColormap(list(drawing.palette))
    axis.imshow(drawing.colours, cmap=palette, vmin=-0.5, vmax=len(drawing.palette) - 0.5)
    axis.set_title(name, fontsize=8, loc="left")
    axis.set_xticks([])
    axis.set_yticks([])
    if drawing.lettered:
        for row in range(high):
            for column in range(wide):
                symbol = drawing.symbols[row][column]
                if symbol not in drawing.silent:
                    colour, weight = letter(drawing, row, column)
                    axis.text(
                        column, row, symbol, ha="center", va="center", fontsize=9, color=colour, weight=weight
                    )
        axis.hlines([r - 0.5 for r in range(1, high)], -0.5, wide - 0.5, colors="#9ca3af", linewidth=0.4)
        axis.vlines([c - 0.5 for c in range(1, wide)], -0.5, high - 0.5, colors="#9ca3af", linewidth=0.4)
    box_rows, box_columns = drawing.box
    if box_rows and box_columns:
        downs, acrosses = range(box_rows, high, box_rows), range(box_columns, wide, box_columns)
        axis.hlines([r - 0.5 for r in downs], -0.5, wide - 0.5, colors="#111827", linewidth=1.6)
        axis.vlines([c - 0.5 for c in acrosses], -0.5, high - 0.5, colors="#111827", linewidth=1.6)
    if drawing.marked is not None:
        for row, column in np.argwhere(drawing.marked):
            frame = Rectangle((column - 0.43, row - 0.43), 0.86, 0.86, fill=False, ec=WRONG_COLOUR, lw=1.8)
            corner = Polygon(
                [(column + 0.14, row - 0.5), (column + 0.5, row - 0.5), (column + 0.5, row - 0.14)],
                color=WRONG_COLOUR,
            )
            axis.add_patch(frame)
            axis.add_patch(corner)
    if drawing.changed is not None:
        for row, column in np.argwhere(drawing.changed):
            x, y = column - 0.5, row + 0.5
            axis.add_patch(Polygon([(x, y - 0.3), (x, y), (x + 0.3, y)], color=ANSWER_COLOUR))
