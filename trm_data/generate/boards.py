"""Sets of cells as one vector of machine words, for compiled kernels.

A `Board` has a row of cells in each lane, and a column in each bit: 32 lanes of 32 bits, or 64 of 64 for larger
grids. It lives in vector registers, so that all cells take a step in all directions within some nanoseconds; in
memory it is an array uint32 [32] or uint64 [64], whose type says which of the two it is.
Neighbours: `generate.maze_kernels` searches with them.

These are numba intrinsics: to be called from compiled functions only. Rows and columns that a grid does not have
must be empty in the board that a step is limited to.
"""

# pyright: basic, reportGeneralTypeIssues=false
# (numba decides the types of intrinsics)
from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model
from numpy.typing import DTypeLike

SMALL, LARGE = 32, 64
_WORD = 8
"""Bytes to which arrays are aligned at least."""


class Board(types.Type):
    """The numba type of a set of cells of at most `lanes` rows and columns."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(f"Board({lanes})")


@register_model(Board)
class _BoardModel(models.PrimitiveModel):
    def __init__(self, manager: Any, board: Board) -> None:
        super().__init__(manager, board, _vector(board))


def lanes_for(rows: int, columns: int) -> tuple[int, DTypeLike]:
    """Return the lanes of the boards for grids of a size of at most 64x64, and the type of their words."""
    return (SMALL, np.uint32) if max(rows, columns) <= SMALL else (LARGE, np.uint64)


def _vector(board: Board) -> ir.VectorType:
    return ir.VectorType(ir.IntType(board.lanes), board.lanes)


def _board_of(array: Any) -> Board:
    return Board(SMALL if array.dtype == types.uint32 else LARGE)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, board: Board) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(data, _vector(board).as_pointer())


def _over_lanes(builder: Any, name: str, board: Board, vector: Any, result: Any) -> Any:
    """Call an LLVM function of a vector."""
    kind = ir.FunctionType(result, [_vector(board)])
    full_name = f"llvm.{name}.v{board.lanes}i{board.lanes}"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, full_name), [vector])


def _widened(builder: Any, board: Board, number: Any) -> Any:
    return number if board.lanes == LARGE else builder.zext(number, ir.IntType(64))


@intrinsic
def load(typing_context: Any, array: Any) -> Any:
    """The board that an array of as many words as lanes holds."""
    board = _board_of(array)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], board)
        return builder.load(pointer, align=_WORD)

    return board(array), generate


@intrinsic
def store(typing_context: Any, array: Any, board: Any) -> Any:
    """Write a board into an array of as many words as lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], board)
        builder.store(arguments[1], pointer, align=_WORD)
        return context.get_dummy_value()

    return types.void(array, board), generate


@intrinsic
def one_cell(typing_context: Any, like: Any, row: Any, bit: Any) -> Any:
    """The board of one cell: the bit of its column in a row. Of the kind of another board."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes, word = like.lanes, ir.IntType(like.lanes)
        vector, zero = _vector(like), ir.Constant(_vector(like), None)

        def spread(number: Any) -> Any:
            lane = number if lanes == LARGE else builder.trunc(number, word)
            first = builder.insert_element(zero, lane, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(
                first, zero, ir.Constant(ir.VectorType(ir.IntType(32), lanes), None)
            )

        rows = ir.Constant(vector, list(range(lanes)))
        here = builder.icmp_unsigned("==", spread(arguments[1]), rows)
        return builder.select(here, spread(arguments[2]), zero)

    return like(like, types.int64, types.uint64), generate


def _operation(name: str, says: str) -> Any:
    def typed(typing_context: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, name)(*arguments)

        return left(left, right), generate

    typed.__doc__ = says
    return intrinsic(typed)


both = _operation("and_", "The cells that are in both boards.")
either = _operation("or_", "The cells that are in one board or the other, or in both.")
differ = _operation("xor", "The cells that are in exactly one of two boards.")


def _neighbours(builder: Any, board: Board, cells: Any) -> tuple[Any, Any, Any, Any]:
    """The cells moved by one row down and up, and by one column right and left."""
    lanes = board.lanes
    zero, one = ir.Constant(_vector(board), None), ir.Constant(_vector(board), [1] * lanes)
    places = ir.VectorType(ir.IntType(32), lanes)  # number `lanes` is a lane of zero
    down = builder.shuffle_vector(cells, zero, ir.Constant(places, [lanes, *range(lanes - 1)]))
    up = builder.shuffle_vector(cells, zero, ir.Constant(places, [*range(1, lanes), lanes]))
    return down, up, builder.shl(cells, one), builder.lshr(cells, one)


@intrinsic
def next_to(typing_context: Any, board: Any) -> Any:
    """The cells above, below, left and right of those of a board."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        down, up, right, left = _neighbours(builder, board, arguments[0])
        return builder.or_(builder.or_(down, up), builder.or_(right, left))

    return board(board), generate


@intrinsic
def without_ends(typing_context: Any, board: Any) -> Any:
    """The cells of a board that have at least two neighbours in it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        cells = arguments[0]
        down, up, right, left = _neighbours(builder, board, cells)
        turn = builder.and_(builder.or_(down, up), builder.or_(right, left))
        straight = builder.or_(builder.and_(down, up), builder.and_(right, left))
        return builder.and_(cells, builder.or_(turn, straight))

    return board(board), generate


@intrinsic
def any_in(typing_context: Any, board: Any) -> Any:
    """Whether a board has any cell."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(board.lanes)
        met = _over_lanes(builder, "vector.reduce.or", board, arguments[0], word)
        return builder.icmp_unsigned("!=", met, ir.Constant(word, 0))

    return types.boolean(board), generate


@intrinsic
def count_in(typing_context: Any, board: Any) -> Any:
    """The number of cells of a board, as int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        counts = _over_lanes(builder, "ctpop", board, arguments[0], _vector(board))
        total = _over_lanes(builder, "vector.reduce.add", board, counts, ir.IntType(board.lanes))
        return _widened(builder, board, total)

    return types.int64(board), generate
