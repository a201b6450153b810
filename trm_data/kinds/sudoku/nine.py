"""The steps of the solver for grids of 3x3 boxes, for all nine digits and three bands at once, compiled.

Input and output are the states of `kinds.sudoku.propagation`, which has the rules. The fixed point does not depend on
the order of digits and rules. The words of a state are the lanes of a `Vector`: lane 3 * digit + band has the
candidates of a digit in a band, a cell in each of 27 bits, row after row. The other lanes stay empty. Neighbours:
`kinds.sudoku.propagation` and `kinds.sudoku.solve_kernels` call this for 3x3 boxes.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false, reportOperatorIssue=false
# (numba infers the types of kernels; their annotations are for readers)
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from trm_data.kernel import inner_kernel, kernel
from trm_data.kinds.vectors import (
    Vector,
    empty_lanes,
    lane_of_smallest,
    lanes_with_all,
    larger_lanes,
    spread,
    widened,
    zeros,
)
from trm_data.seeds.kernels import U0

BANDS, SIDE = 3, 9
WORDS = SIDE * BANDS
LANES = Vector(32, 32)

_USED_LANES, _ALL_LANES = np.uint64((1 << WORDS) - 1), np.uint64((1 << 32) - 1)
_BAND = np.uint64(0o777_777_777)
_FIRST_OF_ROWS = np.uint64(0o001_001_001)
_LAST_OF_ROWS = np.uint64(0o400_400_400)
_REST_OF_ROWS = np.uint64(0o377_377_377)
_FIRST_OF_BOXES = np.uint64(0o111_111_111)
"""First cell of each row in each box, the bit that represents the pair of this row and this box."""
_FIRST_COLUMNS, _SECOND_COLUMNS, _THIRD_COLUMNS = np.uint64(0o111), np.uint64(0o222), np.uint64(0o444)
"""First, second and third column of each stack, in one row."""
_012, _021, _102, _120, _201, _210 = (
    np.uint64(sum(1 << (9 * row + 3 * box) for row, box in enumerate(order)))
    for order in itertools.permutations(range(3))
)
"""Six ways to assign a different box to each row of a band, as bits of the (row, box) pairs."""


def _pick(builder: Any, value: Any, lanes: list[int]) -> Any:
    """Return a vector of the given lanes of another vector."""
    which = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), which)


def _check_array(array: Any, dtype: Any) -> None:
    """Check at compile time that an array is flat, contiguous and of this dtype."""
    if array.layout != "C" or array.ndim != 1 or array.dtype != dtype:
        raise TypeError(f"a flat array of {dtype} is wanted, got {array}")


def _of_words(builder: Any, data: Any, first: int, count: int) -> Any:
    """Return a pointer to words of a state as a vector of 64-bit integers."""
    kind = ir.VectorType(ir.IntType(64), count)
    return builder.bitcast(builder.gep(data, [ir.Constant(ir.IntType(64), first)]), kind.as_pointer())


@intrinsic
def _load(typing_context: Any, state: Any) -> Any:
    """Load the candidates of a state."""
    _check_array(state, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(state)(context, builder, arguments[0]).data
        parts: list[Any] = []
        for first, count in ((0, 16), (16, 8), (24, 4)):
            words = builder.load(_of_words(builder, data, first, count), align=8)
            part = builder.trunc(words, ir.VectorType(LANES.word, count))
            places = [*range(count), *[count - 1] * (32 - count)]
            parts.append(_pick(builder, part, places))
        low = builder.shuffle_vector(parts[0], parts[1], _numbers([*range(16), *range(32, 40), *range(8)]))
        cells = builder.shuffle_vector(low, parts[2], _numbers([*range(24), *range(32, 36), *range(4)]))
        used = ir.Constant(LANES.llvm, [int(_BAND)] * WORDS + [0] * (32 - WORDS))
        return builder.and_(cells, used)

    return LANES(state), generate


def _numbers(values: list[int]) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(values)), values)


@intrinsic
def _store(typing_context: Any, state: Any, cells: Any, placed: Any) -> Any:
    """Write candidates and placed cells into a state; `placed` has the cells of a band in all of its lanes."""
    _check_array(state, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(state)(context, builder, arguments[0]).data
        lanes = [*range(WORDS), *range(32 + WORDS, 64)]
        words = builder.shuffle_vector(arguments[1], arguments[2], _numbers(lanes))
        for first, count in ((0, 16), (16, 8), (24, 4), (28, 2)):
            part = _pick(builder, words, list(range(first, first + count)))
            wide = builder.zext(part, ir.VectorType(ir.IntType(64), count))
            builder.store(wide, _of_words(builder, data, first, count), align=8)
        return context.get_dummy_value()

    return types.void(state, LANES, LANES), generate


@intrinsic
def _load_clues(typing_context: Any, grid: Any) -> Any:
    """Load from a flat grid of bytes the cells of each digit."""
    _check_array(grid, types.uint8)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(grid)(context, builder, arguments[0]).data
        bytes_32, lane = ir.VectorType(ir.IntType(8), 32), ir.IntType(32)
        cells = zeros(LANES)
        for band in range(BANDS):
            first = min(27 * band, 81 - 32)  # never read beyond the grid
            pointer = builder.gep(data, [ir.Constant(ir.IntType(64), first)])
            values = builder.load(builder.bitcast(pointer, bytes_32.as_pointer()), align=1)
            for digit in range(SIDE):
                equal = builder.icmp_unsigned("==", values, ir.Constant(bytes_32, [digit + 1] * 32))
                found = builder.lshr(builder.bitcast(equal, lane), ir.Constant(lane, 27 * band - first))
                cells = builder.insert_element(cells, found, ir.Constant(lane, BANDS * digit + band))
        return builder.and_(cells, ir.Constant(LANES.llvm, [int(_BAND)] * 32))

    return LANES(grid), generate


@intrinsic
def _other_bands(typing_context: Any, cells: Any) -> Any:
    """Return for each digit and band the digit's cells in the next band, and in the one after it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def turned(by: int) -> Any:
            lanes = [lane - lane % BANDS + (lane + by) % BANDS for lane in range(WORDS)]
            return _pick(builder, arguments[0], [*lanes, *range(WORDS, 32)])

        return context.make_tuple(builder, signature.return_type, [turned(1), turned(2)])

    return types.UniTuple(LANES, 2)(LANES), generate


def _fold(builder: Any, cells: Any, join: Any) -> Any:
    """Join the cells of all digits in a band; the result is in all lanes of the band, and in three after the last."""

    def part(value: list[Any], first: int, count: int) -> list[Any]:
        return [_pick(builder, each, list(range(first, first + count))) for each in value]

    last, value = part(cells, 24, 3), cells
    for digits in (4, 2, 1):
        count = digits * BANDS
        value = join(part(value, 0, count), part(value, count, count))
    value = join(value, last)
    return [_pick(builder, each, [lane % BANDS for lane in range(32)]) for each in value]


@intrinsic
def _any_digit(typing_context: Any, cells: Any) -> Any:
    """Return the cells that are candidates of any digit."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _fold(builder, [arguments[0]], lambda left, right: [builder.or_(left[0], right[0])])[0]

    return LANES(LANES), generate


@intrinsic
def _sum_of_digits(typing_context: Any, numbers: Any) -> Any:
    """Return the sum over all digits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _fold(builder, [arguments[0]], lambda left, right: [builder.add(left[0], right[0])])[0]

    return LANES(LANES), generate


@intrinsic
def _once_and_twice(typing_context: Any, cells: Any) -> Any:
    """Return the cells that are candidates of at least one digit, and of at least two."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def join(left: list[Any], right: list[Any]) -> list[Any]:
            two = builder.or_(builder.or_(left[1], right[1]), builder.and_(left[0], right[0]))
            return [builder.or_(left[0], right[0]), two]

        found = _fold(builder, [arguments[0], zeros(LANES)], join)
        return context.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(LANES, 2)(LANES), generate


@intrinsic
def _by_band(typing_context: Any, first: Any, second: Any, third: Any) -> Any:
    """Return three numbers, each in the lanes of its band."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = zeros(LANES)
        for lane in range(WORDS):
            number = builder.trunc(arguments[lane % BANDS], LANES.word)
            lanes = builder.insert_element(lanes, number, ir.Constant(ir.IntType(32), lane))
        return lanes

    return LANES(types.uint64, types.uint64, types.uint64), generate


@intrinsic
def _keep_in_lane(typing_context: Any, lane: Any, bits: Any) -> Any:
    """Return a mask that keeps `bits` of one lane, and all bits of the others."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = ir.Constant(LANES.llvm, list(range(LANES.lanes)))
        here = builder.icmp_unsigned("==", lanes, spread(builder, LANES, arguments[0]))
        return builder.select(here, spread(builder, LANES, arguments[1]), ir.Constant(LANES.llvm, [-1] * 32))

    return LANES(types.int64, types.uint64), generate


@intrinsic
def _first_lanes(typing_context: Any, numbers: Any) -> Any:
    """Return the numbers of the three bands."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = [
            widened(builder, builder.extract_element(arguments[0], ir.Constant(ir.IntType(32), lane)))
            for lane in range(BANDS)
        ]
        return context.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(types.uint64, 3)(LANES), generate


@inner_kernel(forceinline=True)
def _any(cells: Any) -> bool:
    return empty_lanes(cells) != _ALL_LANES


@kernel(forceinline=True)
def _pairs(cells: Any) -> Any:
    """Return the (row, box) pairs that have candidates."""
    return (cells | cells >> 1 | cells >> 2) & _FIRST_OF_BOXES


@inner_kernel(forceinline=True)
def _match_rows(cells: Any) -> Any:
    """Clear the (row, box) pairs that are in no matching."""
    pairs = _pairs(cells)
    matched = (
        (lanes_with_all(pairs, _012) | lanes_with_all(pairs, _021))
        | (lanes_with_all(pairs, _102) | lanes_with_all(pairs, _120))
        | (lanes_with_all(pairs, _201) | lanes_with_all(pairs, _210))
    )
    return cells & (matched | matched << 1 | matched << 2)


@inner_kernel(forceinline=True)
def _columns(cells: Any) -> Any:
    """Return the columns that have candidates, as cells of the first row of a band."""
    return cells | cells >> 9 | cells >> 18


@inner_kernel(forceinline=True)
def _match_columns(cells: Any) -> Any:
    """Clear the (band, column) pairs that are in no matching: the two other bands must fill the two other columns."""
    second, third = _other_bands(_columns(cells))
    left = (
        (second >> 1 & third >> 2 | second >> 2 & third >> 1) & _FIRST_COLUMNS
        | (second << 1 & third >> 1 | second >> 1 & third << 1) & _SECOND_COLUMNS
        | (second << 2 & third << 1 | second << 1 & third << 2) & _THIRD_COLUMNS
    )
    return cells & (left | left << 9 | left << 18)


@inner_kernel(forceinline=True)
def _rows_with(cells: Any) -> Any:
    """Return all cells of the nonempty rows."""
    last = ((cells & _REST_OF_ROWS) + _REST_OF_ROWS | cells) & _LAST_OF_ROWS
    return last - (last >> 8) | last


@kernel(forceinline=True)
def _alone(cells: Any) -> Any:
    """Return the candidates that are alone in their row.

    After an empty row, one of the next nonempty row may be missing; the next round rejects such a digit.
    """
    return cells & ~_rows_with(cells & (cells - _FIRST_OF_ROWS))


@kernel
def load_clues_nine(state: NDArray[np.uint64], grid: NDArray[np.uint8]) -> None:
    """Set a state to the candidates that the clues of a flat grid leave in their own cells and rows.

    Two equal clues in a row both stay; `propagate_nine` rejects them.
    """
    clues = _load_clues(grid)
    left = clues | ~(_rows_with(clues) | _any_digit(clues)) & _BAND
    _store(state, left, clues ^ clues)


@kernel
def propagate_nine(state: NDArray[np.uint64], result: NDArray[np.uint64], word: int, kept: np.uint64) -> bool:
    """Set `result`, which may be `state`, to the fixed point of a state after masking a word with `kept`.

    Return False if that is impossible; `result` is then unchanged.
    """
    cells = _load(state) & _keep_in_lane(word, kept)
    taken = False  # whether all cells with one digit left are assigned
    while True:
        before = cells
        cells = _match_columns(_match_rows(cells))
        if empty_lanes(cells) & _USED_LANES != U0:
            return False
        # remove from a cell the other digits if one is alone in its row
        alone = _alone(cells)
        placed = _any_digit(alone)
        cells = cells & (alone | ~placed)
        matched = not _any(cells ^ before)
        if matched and taken:
            break
        # assign cells with one digit left
        once, twice = _once_and_twice(cells)
        if _any((once ^ _BAND) & _BAND):
            return False
        naked = cells & ~twice
        rows = _rows_with(naked)
        if _any(naked & (naked - (rows & _FIRST_OF_ROWS))):
            return False  # two cells of a row have only this digit left
        before = cells
        cells = cells & (naked | ~rows)
        taken = not _any(cells ^ before)
        if matched and taken:
            break
    # two digits that are alone in their rows may still claim one cell
    if _any(_once_and_twice(alone)[1]):
        return False
    _store(result, cells, placed)
    return True


@inner_kernel(forceinline=True)
def _row_matchings(cells: Any) -> Any:
    """Return the number of matchings of rows to boxes for each digit in each band."""
    pairs = _pairs(cells)
    return (
        ((lanes_with_all(pairs, _012) & 1) + (lanes_with_all(pairs, _021) & 1))
        + ((lanes_with_all(pairs, _102) >> 3 & 1) + (lanes_with_all(pairs, _120) >> 3 & 1))
        + ((lanes_with_all(pairs, _201) >> 6 & 1) + (lanes_with_all(pairs, _210) >> 6 & 1))
    )


@inner_kernel(forceinline=True)
def _column_matchings(cells: Any) -> Any:
    """Return the number of matchings of bands to columns for each digit in each stack; stacks replace bands."""
    first = _columns(cells)
    second, third = _other_bands(first)
    in_stacks = (  # three bits for each stack, in every band alike
        (
            (first & second >> 1 & third >> 2 & _FIRST_COLUMNS)
            + (first & second >> 2 & third >> 1 & _FIRST_COLUMNS)
        )
        + (
            (first >> 1 & second & third >> 2 & _FIRST_COLUMNS)
            + (first >> 1 & second >> 2 & third & _FIRST_COLUMNS)
        )
        + (
            (first >> 2 & second & third >> 1 & _FIRST_COLUMNS)
            + (first >> 2 & second >> 1 & third & _FIRST_COLUMNS)
        )
    )
    return in_stacks >> _by_band(np.uint64(0), np.uint64(3), np.uint64(6)) & 7


@kernel
def find_fewest_matchings(state: NDArray[np.uint64]) -> tuple[int, int]:
    """Return the band (0 to 2) or stack (3 to 5) with the fewest matchings in total over digits with several.

    Ties take the first. Also return its first digit with the fewest. Some digit must have several matchings.
    """
    cells = _load(state)
    in_bands = larger_lanes(_row_matchings(cells), np.uint64(1))
    in_stacks = larger_lanes(_column_matchings(cells), np.uint64(1))
    totals = _first_lanes(_sum_of_digits(in_bands)), _first_lanes(_sum_of_digits(in_stacks))
    best, place = np.uint64(1 << 20), 0
    for band in range(BANDS):
        if U0 < totals[0][band] < best:
            best, place = totals[0][band], band
    for stack in range(BANDS):
        if U0 < totals[1][stack] < best:
            best, place = totals[1][stack], BANDS + stack
    of_unit = in_bands if place < BANDS else in_stacks
    unit = place % BANDS
    every = ~U0
    where = _by_band(every if unit == 0 else U0, every if unit == 1 else U0, every if unit == 2 else U0)
    return place, lane_of_smallest(of_unit & where) // BANDS
