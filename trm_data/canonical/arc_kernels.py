"""Canonical forms of ARC examples, compiled.

Input: untranslated rows of tokens. Output: the smallest image of each example, as bytes.
Neighbours: wrapped by `canonical.arc`, which says what the form is.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba decides the types of kernels; their annotations are for readers)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.augment.arc_kernels import image_steps, turns
from trm_data.encode.arc import COLOURS, FIRST_COLOUR
from trm_data.kernel import kernel

_HEAD = 4  # rows and columns of the input, rows and columns of the output


@kernel
def _write_image(
    source: NDArray[np.uint8],
    dihedral: int,
    rows: int,
    columns: int,
    names: NDArray[np.uint8],
    named: int,
    form: NDArray[np.uint8],
    length: int,
) -> tuple[int, int]:
    """Append the cells of one image to a form, naming colours as they come.

    Args:
        source: Tokens of a grid.
        dihedral: Which image.
        rows: Of the grid.
        columns: Of the grid.
        names: New name of each colour, 0 where it has none yet; is written.
        named: How many have one.
        form: Is written from `length`.
        length: Bytes that are there.

    Returns:
        `named` and `length` after it.
    """
    start, row_step, column_step = image_steps(dihedral, rows, columns)
    if turns(dihedral):
        rows, columns = columns, rows
    for i in range(rows):
        for j in range(columns):
            colour = source[start + i * row_step + j * column_step] - FIRST_COLOUR
            if colour > 0 and names[colour] == 0:
                named += 1
                names[colour] = named
            form[length] = names[colour]
            length += 1
    return named, length


@kernel
def canonicalize_many(
    tokens_in: NDArray[np.uint8],
    tokens_out: NDArray[np.uint8],
    sizes: NDArray[np.uint8],
    forms: NDArray[np.uint8],
) -> None:
    """Fill forms[e] with the smallest of the eight images of example e: four sizes, then the cells."""
    form = np.empty(forms.shape[1], np.uint8)
    names = np.empty(COLOURS, np.uint8)
    for e in range(sizes.shape[0]):
        for dihedral in range(8):
            turned = np.int64(turns(dihedral))
            for part in range(_HEAD):
                form[part] = sizes[e, part ^ turned]
            names[:] = 0
            named, length = _write_image(
                tokens_in[e], dihedral, np.int64(sizes[e, 0]), np.int64(sizes[e, 1]), names, 0, form, _HEAD
            )
            named, length = _write_image(
                tokens_out[e],
                dihedral,
                np.int64(sizes[e, 2]),
                np.int64(sizes[e, 3]),
                names,
                named,
                form,
                length,
            )
            smaller = dihedral == 0
            if not smaller:
                for i in range(length):
                    if form[i] != forms[e, i]:
                        smaller = form[i] < forms[e, i]
                        break
            if smaller:
                forms[e, :length] = form[:length]
