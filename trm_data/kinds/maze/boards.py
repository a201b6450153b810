"""Sets of cells as one vector of machine words, for compiled kernels.

A board stores each row of cells in a lane and each column in a bit: 32 lanes of 32 bits, or 64 of 64 for larger
grids. Consecutive rows are at the same position of consecutive registers (`lane_of`), so a step up or down reads
another register, and only one register is shuffled. A board is a `solve.vectors.Vector` with the operators `&`, `|`
and `^`; all cells take a step in all directions within nanoseconds. In memory it is an array uint32 [32] or uint64
[64]; the dtype tells which.
Neighbours: `kinds.maze.generate_kernels` searches with boards.

These are numba intrinsics: call them from compiled functions only. Rows and columns outside the grid must be empty
in the board that limits a step.
"""

# pyright: basic, reportGeneralTypeIssues=false
# (numba decides the types of intrinsics)
from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import DTypeLike

from trm_data.kernel import kernel
from trm_data.kinds.vectors import Vector, over_lanes, spread, widened, zeros

SMALL, LARGE = 32, 64
_WORD = 8
"""Minimum alignment of arrays, in bytes."""


def lanes_for(rows: int, columns: int) -> tuple[int, DTypeLike]:
    """Return the lanes of the boards for grids of a size of at most 64x64, and the type of their words."""
    return (SMALL, np.uint32) if max(rows, columns) <= SMALL else (LARGE, np.uint64)


@kernel(forceinline=True)
def lane_of(row: int, lanes: int) -> int:
    """Return the lane of a row: in 256-bit registers, 4 for a small board and 16 for a large one, one after another."""
    if lanes == SMALL:
        return (row & 3) << 3 | row >> 2
    return (row & 15) << 2 | row >> 4


def _rows_of_lanes(lanes: int) -> list[int]:
    """Return the row of each lane."""
    return sorted(range(lanes), key=lambda row: lane_of.py_func(row, lanes))


def _board_of(array: Any) -> Vector:
    lanes = SMALL if array.dtype == types.uint32 else LARGE
    return Vector(lanes, lanes)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, board: Vector) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(data, board.llvm.as_pointer())


@intrinsic
def load(typing_context: Any, array: Any) -> Any:
    """Load a board from an array with one word for each lane."""
    board = _board_of(array)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], board)
        return builder.load(pointer, align=_WORD)

    return board(array), generate


@intrinsic
def store(typing_context: Any, array: Any, board: Any) -> Any:
    """Store a board in an array with one word for each lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], board)
        builder.store(arguments[1], pointer, align=_WORD)
        return context.get_dummy_value()

    return types.void(array, board), generate


@intrinsic
def one_cell(typing_context: Any, like: Any, row: Any, bit: Any) -> Any:
    """Return a board with one cell: a column bit in a row. Its type is that of another board."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = ir.Constant(like.llvm, _rows_of_lanes(like.lanes))
        here = builder.icmp_unsigned("==", spread(builder, like, arguments[1]), rows)
        return builder.select(here, spread(builder, like, arguments[2]), zeros(like))

    return like(like, types.int64, types.uint64), generate


def _neighbours(builder: Any, board: Vector, cells: Any) -> tuple[Any, Any, Any, Any]:
    """Return the cells moved by one row down and up, and by one column right and left."""
    lanes = board.lanes
    zero, one = zeros(board), ir.Constant(board.llvm, [1] * lanes)
    places = ir.VectorType(ir.IntType(32), lanes)  # number `lanes` is a lane of zero
    rows = _rows_of_lanes(lanes)
    lane_by_row = {row: lane for lane, row in enumerate(rows)}
    down = builder.shuffle_vector(
        cells, zero, ir.Constant(places, [lane_by_row.get(row - 1, lanes) for row in rows])
    )
    up = builder.shuffle_vector(
        cells, zero, ir.Constant(places, [lane_by_row.get(row + 1, lanes) for row in rows])
    )
    return down, up, builder.shl(cells, one), builder.lshr(cells, one)


@intrinsic
def next_to(typing_context: Any, board: Any) -> Any:
    """Return the cells above, below, left and right of a board's cells."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        down, up, right, left = _neighbours(builder, board, arguments[0])
        return builder.or_(builder.or_(down, up), builder.or_(right, left))

    return board(board), generate


@intrinsic
def without_ends(typing_context: Any, board: Any) -> Any:
    """Return the cells of a board that have at least two neighbours in it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        cells = arguments[0]
        down, up, right, left = _neighbours(builder, board, cells)
        turn = builder.and_(builder.or_(down, up), builder.or_(right, left))
        straight = builder.or_(builder.and_(down, up), builder.and_(right, left))
        return builder.and_(cells, builder.or_(turn, straight))

    return board(board), generate


@intrinsic
def count_in(typing_context: Any, board: Any) -> Any:
    """Return the number of cells of a board, as int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bytes_ = Vector(board.lanes * board.bits // 8, 8)
        counts = over_lanes(builder, "ctpop", bytes_, builder.bitcast(arguments[0], bytes_.llvm), bytes_.llvm)
        # at most 8 in each byte, so a byte can hold the sum over 16 registers
        while bytes_.lanes > 32:
            half = bytes_.lanes // 2
            lanes = ir.VectorType(ir.IntType(32), half)
            low = builder.shuffle_vector(counts, counts, ir.Constant(lanes, list(range(half))))
            high = builder.shuffle_vector(counts, counts, ir.Constant(lanes, list(range(half, 2 * half))))
            bytes_ = Vector(half, 8)
            counts = builder.add(low, high)
        wide = Vector(32, 64)
        return over_lanes(builder, "vector.reduce.add", wide, builder.zext(counts, wide.llvm), wide.word)

    return types.int64(board), generate


@intrinsic
def rows_of(typing_context: Any, board: Any) -> Any:
    """Return a bit for each row, set if the board has a cell in it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = [lane_of.py_func(row, board.lanes) for row in range(board.lanes)]
        found = builder.icmp_unsigned("!=", arguments[0], zeros(board))
        places = ir.Constant(ir.VectorType(ir.IntType(32), board.lanes), lanes)
        in_order = builder.shuffle_vector(found, found, places)
        return widened(builder, builder.bitcast(in_order, ir.IntType(board.lanes)))

    return types.uint64(board), generate
