"""ARC grids as rows of 900 tokens: colours on a 30 x 30 canvas, with an end mark below and to the right.

Input: grids of colours uint8 [R, C], 1 to 30 rows and columns. Output: rows of tokens uint8 [900].
`encode_pair` and `decode_row` are inverses for the same offset. Neighbours: `kinds.arc.source` reads grids,
`kinds.arc.symmetry` makes augmented rows in bulk from the result of `encode_pairs`.

Layout of a row, for a grid at the offset (r, c): colour + 2 on the grid's cells; EOS on the row just below and the
column just right of the grid, along the grid's width and height, if that row or column is on the canvas; PAD
elsewhere, including the corner between the two marks.

Source: the TRM paper and its published code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trm_data.encode import PAD

ARC_EOS = 1
"""Marks the end of a grid's rows and columns."""

FIRST_COLOUR = 2
"""The token of colour 0 (black); colour c is the token c + 2."""

COLOURS = 10
ARC_VOCABULARY = FIRST_COLOUR + COLOURS
ARC_SIDE = 30
ARC_CELLS = ARC_SIDE * ARC_SIDE


class Pair(NamedTuple):
    """One example of a task as colours; `output` is None if the answer is unknown."""

    input: NDArray[np.uint8]
    output: NDArray[np.uint8] | None


def encode_pair(
    input_grid: NDArray[np.uint8],
    output_grid: NDArray[np.uint8] | None,
    row_offset: int = 0,
    column_offset: int = 0,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the two rows of an example, both grids at the same offset; without an output, the second is all PAD."""
    rows = np.full((2, ARC_SIDE, ARC_SIDE), PAD, np.uint8)
    _encode_grid("input", input_grid, row_offset, column_offset, rows[0])
    if output_grid is not None:
        _encode_grid("output", output_grid, row_offset, column_offset, rows[1])
    return rows[0].reshape(ARC_CELLS), rows[1].reshape(ARC_CELLS)


def encode_pairs(
    pairs: Iterable[Pair],
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
    """Return untranslated rows of many examples and the sizes of their grids.

    Returns:
        Inputs [E, 900], outputs [E, 900] (PAD if missing) and sizes [E, 4]: rows and columns of the
        input, rows and columns of the output (0 if missing).
    """
    listed = list(pairs)
    inputs = np.empty((len(listed), ARC_CELLS), np.uint8)
    outputs = np.empty_like(inputs)
    sizes = np.zeros((len(listed), 4), np.uint8)
    for e, (input_grid, output_grid) in enumerate(listed):
        inputs[e], outputs[e] = encode_pair(input_grid, output_grid)
        sizes[e, :2] = input_grid.shape
        if output_grid is not None:
            sizes[e, 2:] = output_grid.shape
    return inputs, outputs, sizes


def decode_row(tokens: NDArray[np.uint8], row_offset: int = 0, column_offset: int = 0) -> NDArray[np.uint8]:
    """Return the grid of a row, uint8 [R, C]; 0 x 0 for a row that is all PAD."""
    if tokens.shape != (ARC_CELLS,):
        raise ValueError(f"row: got shape {tokens.shape}; expected ({ARC_CELLS},)")
    canvas = tokens.reshape(ARC_SIDE, ARC_SIDE)
    if not canvas.any():
        return np.zeros((0, 0), np.uint8)
    if not (0 <= row_offset < ARC_SIDE and 0 <= column_offset < ARC_SIDE):
        raise ValueError(f"offset: got ({row_offset}, {column_offset}); expected 0 to {ARC_SIDE - 1}")
    colours = canvas[row_offset:, column_offset:] >= FIRST_COLOUR
    height, width = _leading(colours[:, 0]), _leading(colours[0])
    tokens_of_grid = canvas[row_offset : row_offset + height, column_offset : column_offset + width]
    expected = np.full_like(canvas, PAD)
    place = f"at offset ({row_offset}, {column_offset})"
    if not (height and width) or (tokens_of_grid < FIRST_COLOUR).any():
        raise ValueError(f"row: no full rectangle of colours {place}")
    grid = tokens_of_grid - np.uint8(FIRST_COLOUR)
    _encode_grid("row", grid, row_offset, column_offset, expected)
    if not np.array_equal(expected, canvas):
        r, c = np.argwhere(expected != canvas)[0]
        raise ValueError(
            f"row: got token {canvas[r, c]} at ({r}, {c}), where a grid of {height}x{width} {place} has "
            f"{expected[r, c]}"
        )
    return grid


def _encode_grid(
    name: str, grid: NDArray[np.uint8], row_offset: int, column_offset: int, canvas: NDArray[np.uint8]
) -> None:
    """Write a grid, uint8 with colours 0 to 9, and its end marks onto a canvas [30, 30] of PAD."""
    if grid.dtype != np.uint8 or grid.ndim != 2:
        raise ValueError(f"{name}: got {grid.dtype} {grid.shape}; expected uint8 [rows, columns]")
    height, width = grid.shape
    if not (1 <= height <= ARC_SIDE and 1 <= width <= ARC_SIDE):
        raise ValueError(f"{name}: got {height}x{width} cells; expected 1x1 to 30x30")
    if int(grid.max()) >= COLOURS:
        raise ValueError(f"{name}: got colour {grid.max()}; expected 0 to {COLOURS - 1}")
    below, right = row_offset + height, column_offset + width
    if row_offset < 0 or column_offset < 0 or below > ARC_SIDE or right > ARC_SIDE:
        raise ValueError(
            f"{name}: a grid of {height}x{width} at offset ({row_offset}, {column_offset}) leaves the "
            f"{ARC_SIDE}x{ARC_SIDE} cells"
        )
    canvas[row_offset:below, column_offset:right] = grid + np.uint8(FIRST_COLOUR)
    canvas[below : below + 1, column_offset:right] = ARC_EOS
    canvas[row_offset:below, right : right + 1] = ARC_EOS


def _leading(flags: NDArray[np.bool_]) -> int:
    """Return the number of true values before the first false one."""
    return len(flags) if flags.all() else int(flags.argmin())
