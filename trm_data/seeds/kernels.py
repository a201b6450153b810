"""The functions of `seeds`, compiled by numba, word for word the same.

Input and output: as in `seeds`; the `next_*` and `*_at` functions read a `stream`, a uint64[STREAM_WORDS] array that
holds key, counter, the words of the current blocks and the place in them.
Neighbours: used by every kernel with random draws, by `kinds.sudoku.kind` and by `loader.plan`.

Everything is unsigned: numba converts a mix of uint64 and int64 to float64, so counts and shifts are
converted before they meet a word.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba infers the types of kernels; their annotations are for readers)
from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from trm_data.kernel import inner_kernel, kernel
from trm_data.seeds.draws import FEISTEL_ROUNDS, check_word

_READY = np.uint64(12)
"""Number of words of a stream that are drawn at once."""
_PLACE = 17
STREAM_WORDS = 18
U0 = np.uint64(0)
U1 = np.uint64(1)
_PHILOX_M0 = np.uint64(0xD2E7470EE14C6C93)
_PHILOX_M1 = np.uint64(0xCA5A826395121157)
_PHILOX_W0 = np.uint64(0x9E3779B97F4A7C15)
_PHILOX_W1 = np.uint64(0xBB67AE8584CAA73B)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_U27, _U30, _U31 = np.uint64(27), np.uint64(30), np.uint64(31)


@intrinsic
def _product(typing_context: Any, left: Any, right: Any) -> Any:
    """Return the upper and the lower 64 bits of the product of two words, from one multiplication."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        return context.make_tuple(builder, signature.return_type, (high, builder.trunc(product, word)))

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), generate


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """Return the index of the lowest set bit of a nonzero word, as uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@intrinsic
def zeros_above(typing_context: Any, word: Any) -> Any:
    """Return the number of zero bits above the highest set bit of a word, as uint64; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def count_bits(typing_context: Any, word: Any) -> Any:
    """Return the number of set bits of a word, as uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@inner_kernel
def open_stream(stream: NDArray[np.uint64], seed: int, purpose: int, a: int, b: int) -> None:
    """Set a uint64[STREAM_WORDS] array to the start of the draw (seed, purpose, a, b)."""
    stream[0] = np.uint64(seed)
    stream[1] = np.uint64(purpose)
    stream[2] = U0
    stream[3] = np.uint64(a)
    stream[4] = np.uint64(b)
    stream[_PLACE] = _READY


@inner_kernel(inline="always")
def _round(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """One round of Philox4x64."""
    high0, low0 = _product(_PHILOX_M0, c0)
    high1, low1 = _product(_PHILOX_M1, c2)
    return high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0


@inner_kernel
def _next_blocks(stream: NDArray[np.uint64]) -> None:
    """Advance the counter by three, filling the stream's words with the ten rounds of Philox4x64 of each.

    A block is one chain of products, each waiting for the previous one; three run in parallel.
    """
    k0, k1 = stream[0], stream[1]
    first = stream[2] + U1
    a0, a1, a2, a3 = first, stream[3], stream[4], U0
    b0, b1, b2, b3 = first + U1, stream[3], stream[4], U0
    c0, c1, c2, c3 = first + U1 + U1, stream[3], stream[4], U0
    stream[2] = c0
    for _ in range(10):
        a0, a1, a2, a3 = _round(a0, a1, a2, a3, k0, k1)
        b0, b1, b2, b3 = _round(b0, b1, b2, b3, k0, k1)
        c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0, k1)
        k0 += _PHILOX_W0
        k1 += _PHILOX_W1
    stream[5], stream[6], stream[7], stream[8] = a0, a1, a2, a3
    stream[9], stream[10], stream[11], stream[12] = b0, b1, b2, b3
    stream[13], stream[14], stream[15], stream[16] = c0, c1, c2, c3
    stream[_PLACE] = U0


@inner_kernel(forceinline=True)
def place_of(stream: NDArray[np.uint64]) -> np.uint64:
    """Return the position of a stream, for `word_at` and `bounded_at`; `leave_at` stores it.

    In between it is in a register, so no word waits for the store of the previous position.
    """
    return stream[_PLACE]


@inner_kernel(forceinline=True)
def leave_at(stream: NDArray[np.uint64], place: np.uint64) -> None:
    """Continue a stream at a position."""
    stream[_PLACE] = place


@inner_kernel(forceinline=True)
def word_at(stream: NDArray[np.uint64], place: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the word of a stream at a position, and the next position."""
    if place == _READY:
        _next_blocks(stream)
        place = U0
    return stream[np.uint64(5) + place], place + U1


@inner_kernel(forceinline=True)
def bounded_at(stream: NDArray[np.uint64], place: np.uint64, bound: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return an unbiased integer in [0, bound) from a position on, and the next position; `bound` is at least 1."""
    word, place = word_at(stream, place)
    high, low = _product(word, bound)
    if low < bound:  # the word can only be rejected in this case, so the division is rare
        threshold = (U0 - bound) % bound
        while low < threshold:
            word, place = word_at(stream, place)
            high, low = _product(word, bound)
    return high, place


@inner_kernel(forceinline=True)
def next_word(stream: NDArray[np.uint64]) -> np.uint64:
    """Return the next word of a stream."""
    word, place = word_at(stream, place_of(stream))
    leave_at(stream, place)
    return word


@inner_kernel(forceinline=True)
def next_bounded(stream: NDArray[np.uint64], bound: np.uint64) -> np.uint64:
    """Return the next unbiased integer in [0, bound); `bound` is a uint64 of at least 1."""
    number, place = bounded_at(stream, place_of(stream), bound)
    leave_at(stream, place)
    return number


@inner_kernel
def shuffle(stream: NDArray[np.uint64], order: NDArray[np.int64]) -> None:
    """Shuffle in place (Fisher-Yates), from the last position to the second."""
    for last in range(order.shape[0] - 1, 0, -1):
        other = next_bounded(stream, np.uint64(last + 1))
        kept = order[last]
        order[last] = order[other]
        order[other] = kept


@kernel
def feistel(keys: NDArray[np.uint64], index: np.uint64, size: np.uint64) -> np.uint64:
    """Return `seeds.draws.feistel` on words."""
    width = U1 + U1
    while width < np.uint64(63) and (size - U1) >> width != U0:
        width += U1
    low_bits = width >> U1
    low_mask = (U1 << low_bits) - U1
    high_mask = (U1 << (width - low_bits)) - U1
    while True:
        low, high = index & low_mask, index >> low_bits
        for number in range(0, FEISTEL_ROUNDS, 2):
            high ^= mix(low + keys[number]) & high_mask
            low ^= mix(high + keys[number + 1]) & low_mask
        index = high << low_bits | low
        if index < size:
            return index


@inner_kernel
def mix(value: np.uint64) -> np.uint64:
    """Mix all bits of a word (the finalizer of splitmix64); 0 stays 0."""
    value = (value ^ (value >> _U30)) * _MIX_A
    value = (value ^ (value >> _U27)) * _MIX_B
    return value ^ (value >> _U31)


@kernel
def _bounded(
    seed: np.uint64, purpose: np.uint64, a: np.uint64, b: np.uint64, bound: np.uint64, out: NDArray[np.int64]
) -> None:
    stream = np.empty(STREAM_WORDS, np.uint64)
    open_stream(stream, seed, purpose, a, b)
    for i in range(out.shape[0]):
        out[i] = np.int64(next_bounded(stream, bound))


@kernel
def _shuffled(
    seed: np.uint64, purpose: np.uint64, a: np.uint64, b: np.uint64, out: NDArray[np.int64]
) -> None:
    stream = np.empty(STREAM_WORDS, np.uint64)
    open_stream(stream, seed, purpose, a, b)
    for i in range(out.shape[0]):
        out[i] = i
    shuffle(stream, out)


@kernel
def _feistel_keys(
    seed: np.uint64, purpose: np.uint64, names: NDArray[np.int64], out: NDArray[np.uint64]
) -> None:
    stream = np.empty(STREAM_WORDS, np.uint64)
    for i in range(names.shape[0]):
        open_stream(stream, seed, purpose, names[i], 0)
        for j in range(out.shape[1]):
            out[i, j] = next_word(stream)


@kernel
def _words(seed: np.uint64, purpose: np.uint64, a: np.uint64, b: np.uint64, out: NDArray[np.uint64]) -> None:
    stream = np.empty(STREAM_WORDS, np.uint64)
    open_stream(stream, seed, purpose, a, b)
    for i in range(out.shape[0]):
        out[i] = next_word(stream)


def _draw(seed: int, purpose: int, a: int, b: int) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Check the four numbers that name a draw; return them as words."""
    return (
        np.uint64(check_word("seed", seed)),
        np.uint64(check_word("purpose", purpose)),
        np.uint64(check_word("a", a)),
        np.uint64(check_word("b", b)),
    )


def words(seed: int, purpose: int, a: int, b: int, count: int) -> NDArray[np.uint64]:
    """Return what `seeds.draws.philox_words` returns."""
    out = np.empty(count, np.uint64)
    _words(*_draw(seed, purpose, a, b), out)
    return out


def bounded(seed: int, purpose: int, a: int, b: int, bound: int, count: int) -> NDArray[np.int64]:
    """Return `count` independent unbiased integers in [0, bound) of the draw (seed, purpose, a, b)."""
    if not 1 <= bound <= 1 << 63:
        raise ValueError(f"bound: got {bound}; expected 1 to 2**63")
    out = np.empty(count, np.int64)
    _bounded(*_draw(seed, purpose, a, b), np.uint64(bound), out)
    return out


def shuffled(seed: int, purpose: int, a: int, b: int, count: int) -> NDArray[np.int64]:
    """Return a uniform permutation of range(count), int64[count], of the draw (seed, purpose, a, b)."""
    out = np.empty(count, np.int64)
    _shuffled(*_draw(seed, purpose, a, b), out)
    return out


def feistel_keys(seed: int, purpose: int, names: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return `seeds.draws.feistel_keys` of each name, uint64 [N, FEISTEL_ROUNDS]."""
    names = np.ascontiguousarray(names, np.int64)
    if len(names) and int(names.min()) < 0:
        raise ValueError(f"names: got {names.min()}; expected 0 and above")
    out = np.empty((len(names), FEISTEL_ROUNDS), np.uint64)
    _feistel_keys(np.uint64(check_word("seed", seed)), np.uint64(purpose), names, out)
    return out
