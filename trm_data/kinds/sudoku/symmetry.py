"""The symmetries of Sudoku as values, their numbering, and canonical forms; `SudokuAugmenter` makes rows of a dataset.

Input: grids uint8, 0 for blank. Output: transformed grids, or encoded rows for the shard writer.
Neighbours: `kinds.sudoku.symmetry_kernels` makes the same rows in bulk; `kinds.sudoku` uses `SudokuAugmenter`. A row's
symmetry is undone from its catalog row with `SudokuSymmetry.from_index(element, R, C).inverse()`, which applies
to cell values (token - 1).

The symmetries of boxes R x C: transpose (only where R == C), permute the C bands, the R rows in each, the R
stacks, the C columns in each, and the n digits (blanks stay). An element has an index:

    index = transpose + T * (rows + ROWS * (columns + COLUMNS * digits)),  T = 2 if R == C, else 1

`digits` is the rank of the digit permutation among all in lexicographic order; `rows` is
bands + C! * (inner_0 + R! * (inner_1 + ...)) with the ranks of the order of bands and of the rows in each new
band, `columns` likewise. Index 0 is the identity.

Above 2**62 elements (16x16 and some others) the indices stop at Q * STRUCTURE <= 2**62, with STRUCTURE =
T * ROWS * COLUMNS: all structures, and for each of them Q digit permutations of ranks (q * (n! // Q) +
mix(structure)) mod n!, so elements are distinct, spread over all of them, and index 0 is the identity.

Two canonical forms are equal if and only if a symmetry maps the puzzles to each other. A form is an image of the puzzle
under the group, chosen by a rule that gives the same form for every image. It is not the smallest image in reading
order. `kinds.sudoku.kind` keeps splits disjoint by hashes of the forms, `verify` checks them.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trm_data.seeds.draws import Purpose, mix_word
from trm_data.symmetry.base import Indices, Made, Tokens

_MAX_INDICES = 1 << 62
_LARGEST_TABLE = 1 << 17


class Radices(NamedTuple):
    """The mixed radix of an index; see the module docstring."""

    transpose: int
    rows: int
    columns: int
    digits: int
    """Q: number of digit permutations that indices can reach for one structure."""
    digit_stride: int
    """n! // Q; 1 if every element has an index."""

    @property
    def structure(self) -> int:
        """The number of elements that leave the digits alone."""
        return self.transpose * self.rows * self.columns


@functools.cache
def radices(box_rows: int, box_columns: int) -> Radices:
    """Return the radices for a box shape."""
    side = check_boxes(box_rows, box_columns)
    transpose = 2 if box_rows == box_columns else 1
    rows = math.factorial(box_columns) * math.factorial(box_rows) ** box_columns
    columns = math.factorial(box_rows) * math.factorial(box_columns) ** box_rows
    digits = min(math.factorial(side), _MAX_INDICES // (transpose * rows * columns))
    return Radices(transpose, rows, columns, digits, math.factorial(side) // digits)


def num_symmetries(box_rows: int, box_columns: int) -> int:
    """Return the number of symmetries: 1,218,998,108,160 for 9x9."""
    shape = radices(box_rows, box_columns)
    return shape.structure * math.factorial(box_rows * box_columns)


def num_elements(box_rows: int, box_columns: int) -> int:
    """Return the number of elements that have an index: all symmetries, or at most 2**62 of it."""
    shape = radices(box_rows, box_columns)
    return shape.structure * shape.digits


@dataclass(frozen=True)
class SudokuSymmetry:
    """One symmetry: new[i][j] = digits[(old.T if transpose else old)[rows[i]][columns[j]]], blank stays.

    `digits[v - 1]` is the new digit of old digit v; `rows` and `columns` count from 0.
    """

    box_rows: int
    box_columns: int
    transpose: bool
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    digits: tuple[int, ...]

    @classmethod
    def from_index(cls, index: int, box_rows: int, box_columns: int) -> Self:
        """Return the element of an index."""
        shape = radices(box_rows, box_columns)
        index = int(index)
        if not 0 <= index < num_elements(box_rows, box_columns):
            raise ValueError(f"index: got {index}; expected 0 to {num_elements(box_rows, box_columns) - 1}")
        side = box_rows * box_columns
        q, structure = divmod(index, shape.structure)
        rest, transpose = divmod(structure, shape.transpose)
        columns, rows = divmod(rest, shape.rows)
        # Without an index for every element, each structure begins at another digit permutation.
        offset = 0 if shape.digit_stride == 1 else mix_word(structure)
        rank = (q * shape.digit_stride + offset) % math.factorial(side)
        return cls(
            box_rows,
            box_columns,
            bool(transpose),
            _lines_from_rank(rows, box_rows, box_columns),
            _lines_from_rank(columns, box_columns, box_rows),
            tuple(value + 1 for value in _permutation_from_rank(rank, side)),
        )

    def apply(self, grids: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the images of one flat grid [S] or several [N, S], 0 for blank."""
        side = self.box_rows * self.box_columns
        single = np.ndim(grids) == 1
        checked = check_grids("grids", np.atleast_2d(grids), self.box_rows, self.box_columns)
        squares = checked.reshape(-1, side, side)
        if self.transpose:
            squares = squares.transpose(0, 2, 1)
        moved = squares[:, np.array(self.rows)[:, None], np.array(self.columns)[None, :]]
        image = np.array((0, *self.digits), np.uint8)[moved].reshape(-1, side * side)
        return image[0] if single else image

    def inverse(self) -> Self:
        """Return the symmetry that undoes this one."""
        rows, columns = _inverted(self.rows), _inverted(self.columns)
        if self.transpose:
            rows, columns = columns, rows
        digits = tuple(value + 1 for value in _inverted(tuple(value - 1 for value in self.digits)))
        return type(self)(self.box_rows, self.box_columns, self.transpose, rows, columns, digits)


class SudokuAugmenter:
    """Rows of Sudoku puzzles: tokens value + 1, blank 1, digits from 2.

    Row n is the image of puzzle `groups[n]` and its solution under an element (`symmetry.base.keyed_elements`). Each
    puzzle is stored as its S packed cells.

    Args:
        puzzles: [G, S]; each clue equals the solution's value.
        solutions: [G, S], complete.
        keys: [G], names of the puzzles, at least 0.
        seed: Seed of the dataset.
        box_rows: R.
        box_columns: C.

    Raises:
        ValueError: Shapes or values do not match.
    """

    def __init__(
        self,
        puzzles: NDArray[np.uint8],
        solutions: NDArray[np.uint8],
        keys: NDArray[np.int64],
        seed: int,
        box_rows: int,
        box_columns: int,
    ) -> None:
        from trm_data.kinds.sudoku import (
            symmetry_kernels as sudoku_kernels,  # imports numba, which a symmetry does not need
        )
        from trm_data.seeds.kernels import feistel_keys as keys_of_all

        puzzles = check_grids("puzzles", puzzles, box_rows, box_columns)
        solutions = check_grids("solutions", solutions, box_rows, box_columns)
        if puzzles.shape != solutions.shape or len(keys) != len(puzzles):
            raise ValueError(
                f"got {len(puzzles)} puzzles, {len(solutions)} solutions, {len(keys)} keys: not the same"
            )
        if (solutions == 0).any() or ((puzzles != 0) & (puzzles != solutions)).any():
            raise ValueError("solutions: a cell is blank, or differs from the puzzle's clue")
        self._box = box_rows, box_columns
        self._packed = np.empty_like(puzzles)
        sudoku_kernels.pack(puzzles, solutions, self._packed)
        self._keys = keys_of_all(seed, Purpose.AUGMENT, keys)
        self._radices = np.array(radices(box_rows, box_columns), np.int64)
        self._tables = _line_tables(box_rows, box_columns)

    def fill(self, groups: Indices, ks: Indices, examples: Indices, inputs: Tokens, labels: Tokens) -> Made:
        """Write one row for each slot: its group under the symmetry of its k."""
        from trm_data.kinds.sudoku import symmetry_kernels as sudoku_kernels

        groups = np.ascontiguousarray(groups, np.int64)
        ks = np.ascontiguousarray(ks, np.int64)
        shape = (len(groups), self._packed.shape[1])
        for name, out in (("inputs", inputs), ("labels", labels)):
            if out.shape != shape or out.dtype != np.uint8 or not out.flags.c_contiguous:
                raise ValueError(f"{name}: got {out.dtype} {out.shape}; expected contiguous uint8 {shape}")
        if len(ks) != len(groups):
            raise ValueError(f"got {len(groups)} groups and {len(ks)} ks: not the same")
        elements = np.empty(len(groups), np.int64)
        if not len(groups):
            return Made(elements)
        count = num_elements(*self._box)
        for name, values, allowed in (("groups", groups, len(self._packed)), ("ks", ks, count)):
            if int(values.min()) < 0 or int(values.max()) >= allowed:
                raise ValueError(f"{name}: got {values.min()} to {values.max()}; expected 0 to {allowed - 1}")
        sudoku_kernels.augment_rows(
            self._packed, self._keys, groups, ks, self._radices, *self._tables, *self._box, inputs, labels, elements
        )  # fmt: skip
        return Made(elements)


@functools.cache
def _line_tables(
    box_rows: int, box_columns: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
    """Return tables for the kernel: permutations of R and of C in order, and, if small, all rows and columns."""
    from trm_data.kinds.sudoku import symmetry_kernels as sudoku_kernels

    shape = radices(box_rows, box_columns)
    of_rows = np.array(list(itertools.permutations(range(box_rows))), np.uint8)
    of_columns = np.array(list(itertools.permutations(range(box_columns))), np.uint8)
    side = box_rows * box_columns
    rows = np.empty((shape.rows if shape.rows <= _LARGEST_TABLE else 0, side), np.uint8)
    sudoku_kernels.fill_lines(rows, of_rows, of_columns)
    columns = np.empty((shape.columns if shape.columns <= _LARGEST_TABLE else 0, side), np.uint8)
    sudoku_kernels.fill_lines(columns, of_columns, of_rows)
    return of_rows, of_columns, rows, columns


def _lines_from_rank(rank: int, size: int, bands: int) -> tuple[int, ...]:
    """Return the order of `bands` bands (or stacks) of `size` lines each."""
    rank, outer = divmod(rank, math.factorial(bands))
    lines: list[int] = []
    for band in _permutation_from_rank(outer, bands):
        rank, inner = divmod(rank, math.factorial(size))
        lines += [band * size + line for line in _permutation_from_rank(inner, size)]
    return tuple(lines)


def _permutation_from_rank(rank: int, size: int) -> tuple[int, ...]:
    """Return the permutation of range(size) with this rank in lexicographic order."""
    left = list(range(size))
    order: list[int] = []
    for remaining in range(size - 1, -1, -1):
        place, rank = divmod(rank, math.factorial(remaining))
        order.append(left.pop(place))
    return tuple(order)


def _inverted(order: tuple[int, ...]) -> tuple[int, ...]:
    inverse = [0] * len(order)
    for i, value in enumerate(order):
        inverse[value] = i
    return tuple(inverse)


MAX_SIDE = 16


def check_boxes(box_rows: int, box_columns: int) -> int:
    """Return the side n of grids with these boxes."""
    if box_rows < 2 or box_columns < 2 or box_rows * box_columns > MAX_SIDE:
        raise ValueError(
            f"boxes: got {box_rows}x{box_columns}; expected sides of at least 2 with "
            f"rows * columns at most {MAX_SIDE}"
        )
    return box_rows * box_columns


def check_grids(name: str, grids: ArrayLike, box_rows: int, box_columns: int) -> NDArray[np.uint8]:
    """Check `grids`; return them as a contiguous uint8 [N, S] array."""
    side = check_boxes(box_rows, box_columns)
    array = np.asarray(grids)
    if array.ndim != 2 or array.shape[1] != side * side:
        raise ValueError(f"{name}: got shape {array.shape}; expected [N, {side * side}]")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name}: got type {array.dtype}; expected integers")
    if array.size and (int(array.min()) < 0 or int(array.max()) > side):
        raise ValueError(f"{name}: got values {array.min()} to {array.max()}; expected 0 to {side}")
    return np.ascontiguousarray(array, dtype=np.uint8)


@dataclass(frozen=True)
class Canonical:
    """Canonical forms, one for each puzzle."""

    forms: NDArray[np.uint8]
    """Canonical forms, uint8 [N, S]."""
    automorphisms: NDArray[np.int64]
    """Number of group elements that map the puzzle to itself, int64 [N], at least 1."""


def canonicalize(
    puzzles: NDArray[np.uint8], solutions: NDArray[np.uint8], box_rows: int, box_columns: int
) -> Canonical:
    """Return the canonical form of each puzzle under transposition, line and digit permutations.

    Args:
        puzzles: [N, S]; each has exactly one solution, otherwise forms of equivalent puzzles may differ.
        solutions: [N, S], that solution.
        box_rows: R.
        box_columns: C.
    """
    from trm_data.kinds.sudoku import symmetry_kernels as sudoku_kernels

    puzzles = check_grids("puzzles", puzzles, box_rows, box_columns)
    solutions = check_grids("solutions", solutions, box_rows, box_columns)
    if puzzles.shape != solutions.shape:
        raise ValueError(f"got {len(puzzles)} puzzles and {len(solutions)} solutions: not the same")
    wrong = (solutions == 0) | ((puzzles != 0) & (puzzles != solutions))
    if wrong.any():
        raise ValueError(f"solutions: row {int(wrong.any(axis=1).argmax())} is not a solution of its puzzle")
    forms = np.empty_like(puzzles)
    automorphisms = np.empty(len(puzzles), np.int64)
    sudoku_kernels.canonicalize_many(puzzles, solutions, box_rows, box_columns, forms, automorphisms)
    return Canonical(forms=forms, automorphisms=automorphisms)


def canonical_hashes(forms: NDArray[np.uint8], box_rows: int, box_columns: int) -> list[str]:
    """Return a name for each form: blake2b of 16 bytes over R, C and the form's bytes, in hexadecimal."""
    forms = check_grids("forms", forms, box_rows, box_columns)
    start = hashlib.blake2b(bytes((box_rows, box_columns)), digest_size=16)
    names: list[str] = []
    for form in forms:
        state = start.copy()
        state.update(form.tobytes())
        names.append(state.hexdigest())
    return names
