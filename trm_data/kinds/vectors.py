"""Vectors of machine words (SIMD) in compiled kernels.

Numba has no such type, and loops vectorized by its compiler go through memory at every step. A `Vector` lives in
registers. `&`, `|`, `^`, `~`, `<<`, `>>`, `+` and `-` take two vectors of the same type, or a vector and, on its
right, a number for all lanes. Lanes are unsigned, like numpy's words; a shift by at least the bits of a lane is
undefined, as in C. LLVM chooses the instructions, so the code also runs, more slowly, on narrow registers.
Neighbours: `kinds.sudoku.nine` has the digits of a Sudoku in the lanes, `kinds.maze.boards` the rows of a maze.
"""

# pyright: basic, reportGeneralTypeIssues=false
# (numba infers the types of intrinsics)
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable


class Vector(types.Type):
    """The numba type of `lanes` words of `bits` bits."""

    def __init__(self, lanes: int, bits: int) -> None:
        self.lanes, self.bits = lanes, bits
        super().__init__(f"Vector({lanes}, {bits})")

    @property
    def word(self) -> ir.IntType:
        """The LLVM type of a lane."""
        return ir.IntType(self.bits)

    @property
    def llvm(self) -> ir.VectorType:
        """The LLVM type of all lanes."""
        return ir.VectorType(self.word, self.lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.llvm)


def zeros(vector: Vector) -> ir.Constant:
    """Return the vector of zeros."""
    return ir.Constant(vector.llvm, None)


def spread(builder: Any, vector: Vector, number: Any) -> Any:
    """Return the vector with all lanes equal to an integer, which has 64 bits or those of a lane."""
    lane = number if number.type == vector.word else builder.trunc(number, vector.word)
    first = builder.insert_element(zeros(vector), lane, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        first, zeros(vector), ir.Constant(ir.VectorType(ir.IntType(32), vector.lanes), None)
    )


def over_lanes(builder: Any, name: str, vector: Vector, value: Any, result: Any) -> Any:
    """Call an LLVM function of a vector."""
    kind = ir.FunctionType(result, [vector.llvm])
    full_name = f"llvm.{name}.v{vector.lanes}i{vector.bits}"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, full_name), [value])


def widened(builder: Any, number: Any) -> Any:
    """Extend a number of at most 64 bits to 64 bits."""
    return number if number.type.width == 64 else builder.zext(number, ir.IntType(64))


def _give(sign: Callable[..., Any], generate: str) -> None:
    """Make a Python operator accept vectors, as an LLVM instruction."""

    def type_operator(context: Any) -> Any:
        def typed(left: Any, right: Any) -> Any:
            fits = right == left or isinstance(right, types.Integer)
            return left if isinstance(left, Vector) and fits else None

        return typed

    def of_vectors(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, generate)(*arguments)

    def of_number(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = context.cast(builder, arguments[1], signature.args[1], types.uint64)
        return getattr(builder, generate)(arguments[0], spread(builder, signature.args[0], number))

    type_callable(sign)(type_operator)
    lower_builtin(sign, Vector, Vector)(of_vectors)
    lower_builtin(sign, Vector, types.Integer)(of_number)


_give(operator.and_, "and_")
_give(operator.or_, "or_")
_give(operator.xor, "xor")
_give(operator.add, "add")
_give(operator.sub, "sub")
_give(operator.lshift, "shl")
_give(operator.rshift, "lshr")


@type_callable(operator.invert)
def _type_invert(context: Any) -> Any:
    def typed(vector: Any) -> Any:
        return vector if isinstance(vector, Vector) else None

    return typed


@lower_builtin(operator.invert, Vector)
def _invert(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.not_(arguments[0])


def _flags(builder: Any, flags: Any, lanes: int) -> Any:
    """Return a bit for each lane, as a 64-bit number."""
    return widened(builder, builder.bitcast(flags, ir.IntType(lanes)))


@intrinsic
def empty_lanes(typing_context: Any, vector: Any) -> Any:
    """Return a bit for each lane, set if the lane is 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        empty = builder.icmp_unsigned("==", arguments[0], zeros(vector))
        return _flags(builder, empty, vector.lanes)

    return types.uint64(vector), generate


@intrinsic
def any_bit(typing_context: Any, vector: Any) -> Any:
    """Return whether any bit is set in any lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        met = over_lanes(builder, "vector.reduce.or", vector, arguments[0], vector.word)
        return builder.icmp_unsigned("!=", met, ir.Constant(vector.word, 0))

    return types.boolean(vector), generate


@intrinsic
def lanes_with_all(typing_context: Any, vector: Any, bits: Any) -> Any:
    """Return these bits in the lanes that have all of them, 0 in the other lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wanted = spread(builder, vector, arguments[1])
        there = builder.icmp_unsigned("==", builder.and_(arguments[0], wanted), wanted)
        return builder.select(there, wanted, zeros(vector))

    return vector(vector, types.uint64), generate


@intrinsic
def larger_lanes(typing_context: Any, vector: Any, number: Any) -> Any:
    """Return the lanes greater than a number (unsigned), 0 in the other lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        more = builder.icmp_unsigned(">", arguments[0], spread(builder, vector, arguments[1]))
        return builder.select(more, arguments[0], zeros(vector))

    return vector(vector, types.uint64), generate


@intrinsic
def lane_of_smallest(typing_context: Any, vector: Any) -> Any:
    """Return the first lane with the smallest nonzero number; 0 if all are 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one = ir.Constant(vector.llvm, [1] * vector.lanes)
        below = builder.sub(arguments[0], one)  # so that 0 is the largest
        smallest = over_lanes(builder, "vector.reduce.umin", vector, below, vector.word)
        first = builder.icmp_unsigned("==", below, spread(builder, vector, smallest))
        return builder.cttz(_flags(builder, first, vector.lanes), ir.Constant(ir.IntType(1), 0))

    return types.int64(vector), generate
