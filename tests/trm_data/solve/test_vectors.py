"""Vector operations equal numpy's on each lane."""

# pyright: basic, reportCallIssue=false, reportGeneralTypeIssues=false
# (numba passes the first argument of intrinsics)
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from trm_data.kinds import vectors
from trm_data.kinds.vectors import Vector


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, vector: Vector) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(data, vector.llvm.as_pointer())


def _vector_of(array: Any) -> Vector:
    return Vector(8, 32) if array.dtype == types.uint32 else Vector(4, 64)


@intrinsic
def load(typing_context: Any, array: Any) -> Any:
    vector = _vector_of(array)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, array, arguments[0], vector), align=4)

    return vector(array), generate


@intrinsic
def store(typing_context: Any, array: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], _pointer(context, builder, array, arguments[0], value), align=4)
        return context.get_dummy_value()

    return types.void(array, value), generate


@njit
def _run(left: Any, right: Any, number: int, out: Any, found: Any) -> None:
    a, b, bits = load(left), load(right), np.uint64(number)
    store(out[0], a & b)
    store(out[1], a | b)
    store(out[2], a ^ b)
    store(out[3], a + b)
    store(out[4], a - b)
    store(out[5], ~a)
    store(out[6], a << bits)
    store(out[7], a >> bits)
    store(out[8], a << (b & 7))
    store(out[9], vectors.lanes_with_all(a, bits))
    store(out[10], vectors.larger_lanes(a, bits))
    found[0] = vectors.empty_lanes(a)
    found[1] = vectors.any_bit(a)
    found[2] = vectors.lane_of_smallest(a)


@pytest.mark.parametrize("word", [np.uint32, np.uint64])
@pytest.mark.parametrize("zeros", [0, 2, None])
def test_every_operation_is_that_of_the_lanes(word: Any, zeros: int | None) -> None:
    lanes = 8 if word is np.uint32 else 4
    rng = np.random.default_rng(lanes + (zeros or 0))
    left, right = rng.integers(0, np.iinfo(word).max, (2, lanes), word, endpoint=True)
    left[1] = np.iinfo(word).max  # the sign bit, and all other bits
    left[-2:] = 3  # the smallest, twice
    left[:zeros] = 0
    out, found = np.empty((11, lanes), word), np.empty(3, np.int64)
    _run(left, right, 5, out, found)

    expected: list[NDArray[Any]] = [
        left & right,
        left | right,
        left ^ right,
        left + right,
        left - right,
        ~left,
        left << word(5),
        left >> word(5),
        left << (right & word(7)),
        np.where(left & word(5) == 5, word(5), word(0)),
        np.where(left > 5, left, word(0)),
    ]
    for number, (got, wanted) in enumerate(zip(out, expected, strict=True)):
        np.testing.assert_array_equal(got, wanted, err_msg=f"operation {number}")
    assert found[0] == sum(1 << lane for lane in range(lanes) if left[lane] == 0)
    assert found[1] == left.any()
    some = np.flatnonzero(left)
    assert found[2] == (some[np.argmin(left[some])] if len(some) else 0)
