"""A puzzle as a drawing: cells with symbols and colours, and walls between them.

Neighbours: kinds make drawings; `render` shows them in a terminal, `picture` as PNG or SVG, pages as HTML.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # help imports this module
    import numpy as np
    from numpy.typing import NDArray

LETTERED = 22
"""Number of grid rows above which pictures show only colours, if the colours distinguish the cells."""
SHADES = 2
"""Number of colours that only shade boxes or a checkerboard and do not distinguish cells."""
WRONG_COLOUR = "#D55E00"
"""Colour of the frame and the corner of a wrong cell. Source: Okabe and Ito (2008), vermilion."""
ANSWER_COLOUR = "#0072B2"
"""Colour of the text of answered cells, and of the corner of changed ones. Source: Okabe and Ito (2008), blue."""
LIGHT = 0xC0
"""Minimum red, green and blue of a background on which blue text is legible."""
MARKS = {"x": "wrong", "'": "changed", "*": "wrong and changed"}
"""Marks after the cells of a drawing in text."""


@dataclass(frozen=True)
class Drawing:
    """A grid of R x C cells.

    Attributes:
        symbols: One character for each cell, in lines of C characters.
        colours: Index into `palette` for each cell, uint8 [R, C].
        palette: Background colours as `#rrggbb`.
        box: Rows and columns of a box, for lines between boxes; (0, 0) for none.
        spaced: Whether text has spaces between cells, as for digits.
        silent: Symbols that pictures omit: empty cells, and symbols that the colour shows.
        answered: Cells of an answer that differ from the puzzle, bool [R, C]; None for none.
        marked: Wrong cells of an answer, bool [R, C]; None for none.
        changed: Cells of an answer that differ from the previous answer, bool [R, C]; None for none.
    """

    symbols: tuple[str, ...]
    colours: NDArray[np.uint8]
    palette: tuple[str, ...]
    box: tuple[int, int] = (0, 0)
    spaced: bool = True
    silent: str = " "
    answered: NDArray[np.bool_] | None = None
    marked: NDArray[np.bool_] | None = None
    changed: NDArray[np.bool_] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.symbols), len(self.symbols[0]) if self.symbols else 0

    @property
    def lettered(self) -> bool:
        """Whether pictures have symbols: in large grids with several colours, colours alone tell the cells apart."""
        return self.shape[0] <= LETTERED or len(self.palette) <= SHADES

    def compare(
        self,
        grid: tuple[int, int],
        tokens: NDArray[np.uint8],
        puzzle: NDArray[np.uint8],
        *,
        wrong: NDArray[np.bool_] | None = None,
        before: NDArray[np.uint8] | None = None,
    ) -> Drawing:
        """Return the drawing of an answer with its answered, wrong and changed cells.

        Args:
            grid: Rows and columns of the tokens; the drawing may show only their upper left part.
            tokens: Tokens of the answer, uint8 [S].
            puzzle: Tokens of the puzzle, uint8 [S].
            wrong: Wrong cells, bool [S]; None if unknown.
            before: Tokens of the previous answer, uint8 [S].
        """

        def drawn(cells: NDArray[np.bool_]) -> NDArray[np.bool_]:
            return cells.reshape(grid)[: self.shape[0], : self.shape[1]]

        return replace(
            self,
            answered=drawn(tokens != puzzle),
            marked=None if wrong is None else drawn(wrong),
            changed=None if before is None else drawn(tokens != before),
        )

    def mark(self, row: int, column: int) -> str:
        """Return the mark that text shows after a cell, or an empty string."""
        wrong, changed = (
            cells is not None and bool(cells[row, column]) for cells in (self.marked, self.changed)
        )
        return ("*" if changed else "x") if wrong else "'" if changed else ""

    def text(self, *, marks: bool = False) -> str:
        """Return the drawing as plain text, with lines between boxes.

        Args:
            marks: Write a mark after wrong and changed cells.
        """
        return "\n".join("".join(text for text, _ in line) for line in self.lines(marks=marks))

    def lines(
        self, *, marks: bool = False
    ) -> Generator[list[tuple[str, tuple[int, int] | None]], None, None]:
        """Yield the pieces of each text line; a piece that is a cell has its row and column."""
        box_rows, box_columns = self.box
        marks = marks and any(cells is not None and cells.any() for cells in (self.marked, self.changed))
        gap = " " if box_columns or self.spaced or marks else ""
        for row, symbols in enumerate(self.symbols):
            if box_rows and row and row % box_rows == 0:
                bars = ["-" * (2 * box_columns + 1)] * (len(symbols) // box_columns)
                yield [("+".join(bars), None)]
            line: list[tuple[str, tuple[int, int] | None]] = []
            for column, symbol in enumerate(symbols):
                if box_columns and column % box_columns == 0:
                    line.append(("| " if column else " ", None))
                mark = self.mark(row, column) if marks else ""
                last = not box_columns and column == len(symbols) - 1
                line += [(symbol, (row, column)), (mark or ("" if last else gap), None)]
            yield line


def ink(background: str) -> str:
    """Return black for light backgrounds, white for dark ones; both as `#rrggbb`."""
    red, green, blue = (int(background[i : i + 2], 16) for i in (1, 3, 5))
    return "#000000" if 3 * red + 6 * green + blue > 1280 else "#ffffff"


def letter(drawing: Drawing, row: int, column: int) -> tuple[str, str]:
    """Return colour and weight of a symbol; in answers, given cells are bold, and answered ones blue on light cells."""
    background = drawing.palette[int(drawing.colours[row, column])]
    if drawing.answered is None:
        return ink(background), "normal"
    if not drawing.answered[row, column]:
        return ink(background), "bold"
    light = min(int(background[i : i + 2], 16) for i in (1, 3, 5)) >= LIGHT
    return ANSWER_COLOUR if light else ink(background), "normal"
