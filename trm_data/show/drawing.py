"""A puzzle as a drawing: cells with a symbol, a colour and walls between them, whoever shows it.

Neighbours: kinds make drawings; `render` shows them in a terminal, `picture` as PNG or SVG, pages as HTML.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Drawing:
    """A grid of R x C cells.

    Attributes:
        symbols: One character a cell, lines of C characters.
        colours: Index into `palette` for each cell, uint8 [R, C].
        palette: Background colours as `#rrggbb`.
        box: Rows and columns between which a line is drawn; (0, 0) for none.
        spaced: Whether cells of text stand apart, as digits do.
        marked: Cells that are pointed out in pictures, such as wrong ones, bool [R, C]; None for none.
    """

    symbols: tuple[str, ...]
    colours: NDArray[np.uint8]
    palette: tuple[str, ...]
    box: tuple[int, int] = (0, 0)
    spaced: bool = True
    marked: NDArray[np.bool_] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.symbols), len(self.symbols[0]) if self.symbols else 0

    def text(self) -> str:
        """Plain lines, with lines between boxes."""
        box_rows, box_columns = self.box
        lines: list[str] = []
        for row, symbols in enumerate(self.symbols):
            if box_rows and row and row % box_rows == 0:
                bars = ["-" * (2 * box_columns + 1)] * (len(symbols) // box_columns)
                lines.append("+".join(bars))
            if box_columns:
                boxes = (symbols[i : i + box_columns] for i in range(0, len(symbols), box_columns))
                lines.append("|".join(f" {' '.join(box)} " for box in boxes))
            else:
                lines.append((" " if self.spaced else "").join(symbols))
        return "\n".join(lines)


def ink(background: str) -> str:
    """Black on light colours, white on dark ones; both as `#rrggbb`."""
    red, green, blue = (int(background[i : i + 2], 16) for i in (1, 3, 5))
    return "#000000" if 3 * red + 6 * green + blue > 1280 else "#ffffff"
