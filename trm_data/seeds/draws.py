"""Keyed random words: every random draw of this package is a function of its purpose.

Input: a seed, a `Purpose` and two numbers (usually puzzle and augmentation, or epoch and group).
Output: raw words of numpy's Philox4x64-10, and integers and permutations made from them by our own rules,
because numpy's Generator methods may change between versions while the raw words are fixed.
Neighbours: this is the plain reference; `seeds.kernels` holds the same functions compiled, tested equal.

A draw is named by the key (seed, purpose) and the counter (block, puzzle, augmentation, 0): two draws that
differ in any of the four never share a block of words, whatever the order in which they are made.
"""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import NDArray

FEISTEL_ROUNDS = 6
_MASK = (1 << 64) - 1
_MIX_A = 0xBF58476D1CE4E5B9
_MIX_B = 0x94D049BB133111EB


class Purpose(enum.IntEnum):
    """Purpose of a draw: half of the Philox key. A value is never reused for another purpose."""

    SELECT = 1
    GENERATE = 2
    AUGMENT = 3
    EPOCH_ORDER = 4
    EPOCH_AUGMENTATION = 5
    EXAMPLE_ORDER = 6
    MIXTURE = 7
    RATE = 8
    TRANSLATE = 9
    HARDEN = 10


def check_word(name: str, value: int) -> int:
    """Check that `value` is an unsigned 64-bit integer; return it as an int."""
    value = int(value)
    if not 0 <= value <= _MASK:
        raise ValueError(f"{name}: got {value}; expected 0 to 2**64 - 1")
    return value


def philox_words(seed: int, purpose: int, puzzle: int, augmentation: int, count: int) -> NDArray[np.uint64]:
    """Return the first `count` raw words of the draw named by the first four arguments.

    numpy advances the counter before the first block, so the block numbers start at 1.
    """
    key = np.array([check_word("seed", seed), check_word("purpose", purpose)], dtype=np.uint64)
    counter = np.array(
        [0, check_word("puzzle", puzzle), check_word("augmentation", augmentation), 0], dtype=np.uint64
    )
    return np.asarray(np.random.Philox(key=key, counter=counter).random_raw(count), dtype=np.uint64)


class WordStream:
    """The words of one draw, one after another, endless until the block number wraps."""

    def __init__(self, seed: int, purpose: int, puzzle: int, augmentation: int) -> None:
        key = np.array([check_word("seed", seed), check_word("purpose", purpose)], dtype=np.uint64)
        counter = np.array(
            [0, check_word("puzzle", puzzle), check_word("augmentation", augmentation), 0], dtype=np.uint64
        )
        self._bits = np.random.Philox(key=key, counter=counter)

    def word(self) -> int:
        """Return the next word."""
        return int(self._bits.random_raw())

    def bounded(self, bound: int) -> int:
        """Return an unbiased integer in [0, bound), 1 <= bound <= 2**63 (Lemire's multiply and reject)."""
        threshold = (1 << 64) % bound
        while True:
            product = self.word() * bound
            if product & _MASK >= threshold:
                return product >> 64


def bounded(seed: int, purpose: int, a: int, b: int, bound: int, count: int) -> NDArray[np.int64]:
    """Return `count` independent unbiased integers in [0, bound) of the draw (seed, purpose, a, b)."""
    stream = WordStream(seed, purpose, a, b)
    return np.array([stream.bounded(bound) for _ in range(count)], dtype=np.int64)


def shuffled(seed: int, purpose: int, a: int, b: int, count: int) -> NDArray[np.int64]:
    """Return a uniform permutation of range(count): Fisher-Yates, from the last place to the second."""
    stream = WordStream(seed, purpose, a, b)
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        other = stream.bounded(last + 1)
        order[last], order[other] = order[other], order[last]
    return np.array(order, dtype=np.int64)


def feistel_keys(seed: int, purpose: int, a: int) -> NDArray[np.uint64]:
    """Return the round keys of the permutation named (seed, purpose, a)."""
    return philox_words(seed, purpose, a, 0, FEISTEL_ROUNDS)


def feistel(keys: NDArray[np.uint64], index: int, size: int) -> int:
    """Return the image of `index` under a keyed bijection of [0, size), 1 <= size <= 2**63.

    A Feistel network on the bits of size - 1 (at least two), whose two halves are changed in turn. Images outside the
    range are mapped again (cycle walking, fewer than two rounds on average, because the network's domain is less than
    twice `size` from size 3 on). It mixes well, but it is not a cipher.
    """
    width = max(2, (size - 1).bit_length())
    low_bits = width // 2
    low_mask = (1 << low_bits) - 1
    high_mask = (1 << (width - low_bits)) - 1
    while True:
        low, high = index & low_mask, index >> low_bits
        for round_number in range(0, FEISTEL_ROUNDS, 2):
            high ^= mix_word((low + int(keys[round_number])) & _MASK) & high_mask
            low ^= mix_word((high + int(keys[round_number + 1])) & _MASK) & low_mask
        index = high << low_bits | low
        if index < size:
            return index


def mix_word(value: int) -> int:
    """Mix all bits of a word (the finalizer of splitmix64); 0 stays 0."""
    value = (value ^ (value >> 30)) * _MIX_A & _MASK
    value = (value ^ (value >> 27)) * _MIX_B & _MASK
    return value ^ (value >> 31)
