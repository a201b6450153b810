"""The symmetries of ARC as values, their numbering, and augmented rows of a dataset.

Input: grids of colours uint8 [R, C], or untranslated rows of tokens. Output: transformed grids; the distinct
augmentations of each task; encoded rows. Neighbours: `symmetry.dihedral` has the eight ids,
`kinds.arc.symmetry_kernels` the bulk work, `kinds.arc.encode` the layout of a row.

An element permutes the colours 1 to 9 (0, black, stays), then turns or flips the grid. Its index is

    index = dihedral + 8 * (rank of the permutation of 1..9 among all in lexicographic order)

so the group has 8 * 9! = 2,903,040 elements and index 0 is the identity. The k-th augmentation of a task is
a keyed permutation of the other indices at k - 1; k = 0 is the task itself. Tasks are often symmetric themselves,
so the images of two k may be equal: `distinct_augmentations` selects the k to keep.

A row's element is undone from its catalog row with `ArcSymmetry.from_index(element).inverse()`, its translation
with `untranslate`, or by `decode_row` at the row's offset.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from trm_data.kinds.arc.encode import ARC_CELLS, ARC_SIDE, COLOURS, Pair, encode_pairs
from trm_data.seeds.draws import FEISTEL_ROUNDS, Purpose, check_word, feistel_keys
from trm_data.symmetry.base import Indices, Made, Tokens
from trm_data.symmetry.dihedral import DIHEDRAL_COUNT, Dihedral

NUM_SYMMETRIES = DIHEDRAL_COUNT * math.factorial(COLOURS - 1)
RETRIES = 5
"""Maximum number of attempts to find new images, as a multiple of the requested augmentations."""

_KEY_BITS = 62


@dataclass(frozen=True)
class ArcSymmetry:
    """One symmetry: `colours[old] = new`, then the dihedral of this id.

    Raises:
        ValueError: The colours are not a permutation of 0..9 that keeps 0, or the id is not 0 to 7.
    """

    dihedral: int
    colours: tuple[int, ...] = tuple(range(COLOURS))

    def __post_init__(self) -> None:
        Dihedral(self.dihedral)
        if self.colours[:1] != (0,) or sorted(self.colours) != list(range(COLOURS)):
            raise ValueError(f"colours: got {self.colours}; expected a permutation of 0..9 that keeps 0")

    @classmethod
    def from_index(cls, index: int) -> Self:
        """Return the element with an index."""
        index = int(index)
        if not 0 <= index < NUM_SYMMETRIES:
            raise ValueError(f"index: got {index}; expected 0 to {NUM_SYMMETRIES - 1}")
        rank, dihedral = divmod(index, DIHEDRAL_COUNT)
        left = list(range(1, COLOURS))
        colours = [0]
        for remaining in range(COLOURS - 2, -1, -1):
            place, rank = divmod(rank, math.factorial(remaining))
            colours.append(left.pop(place))
        return cls(dihedral, tuple(colours))

    def apply(self, grid: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the image of a grid of colours."""
        return np.asarray(Dihedral(self.dihedral).apply(np.array(self.colours, np.uint8)[grid]), np.uint8)

    def inverse(self) -> Self:
        """Return the symmetry that undoes this one."""
        colours = [0] * COLOURS
        for old, new in enumerate(self.colours):
            colours[new] = old
        return type(self)(Dihedral(self.dihedral).inverse().id, tuple(colours))

    def published_name(self, task: str) -> str:
        """Return the published builder's name of this image of a task; for the identity, the task's own name."""
        if not self.dihedral and self.colours == tuple(range(COLOURS)):
            return task
        return f"{task}|||t{self.dihedral}|||{''.join(map(str, self.colours))}"


def colour_maps(elements: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the new colour of each old one for these elements, uint8 [N, 10], as in `ArcSymmetry.colours`."""
    rest = elements // DIHEDRAL_COUNT
    left = np.tile(np.arange(1, COLOURS, dtype=np.uint8), (len(rest), 1))
    colours = np.zeros((len(rest), COLOURS), np.uint8)
    for place in range(1, COLOURS):
        index, rest = np.divmod(rest, math.factorial(COLOURS - 1 - place))
        colours[:, place] = left[np.arange(len(left)), index]
        keep = np.arange(left.shape[1])[None, :] != index[:, None]
        left = left[keep].reshape(len(left), COLOURS - 1 - place)
    return colours


def puzzle_key(name: str) -> int:
    """Return the key of a task for random draws: the first 62 bits of the sha256 of its name.

    So a task has the same augmentations in every dataset of one seed.
    """
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> (64 - _KEY_BITS)


def distinct_augmentations(
    tasks: Sequence[Sequence[Pair]], puzzle_keys: Sequence[int] | NDArray[np.int64], seed: int, aug: int
) -> list[NDArray[np.int32]]:
    """Return for each task the k of its distinct augmentations, ascending from 0, at most 1 + `aug` of them.

    An augmentation is dropped if its images of all pairs together, in any order, equal those of a smaller k.
    Outputs that are None are not compared. Up to 5 * `aug` augmentations are tried. Images are compared by
    64-bit hashes: for the five thousand of a task a false match has a probability of about 1e-12.

    Args:
        tasks: The pairs of each task, training and test, at least one.
        puzzle_keys: `puzzle_key` of each task.
        seed: Seed of the dataset.
        aug: Augmentations wanted besides the original.
    """
    from trm_data.kinds.arc import (
        symmetry_kernels as arc_kernels,  # imports numba, which a symmetry does not need
    )

    if len(puzzle_keys) != len(tasks):
        raise ValueError(f"got {len(tasks)} tasks and {len(puzzle_keys)} keys: not the same")
    if aug < 0:
        raise ValueError(f"aug: got {aug}; expected 0 and above")
    attempts = min(RETRIES * aug, NUM_SYMMETRIES - 1)
    found = np.empty(1 + min(aug, attempts), np.int32)
    table = np.empty(1 << (4 * len(found)).bit_length(), np.uint64)
    lists: list[NDArray[np.int32]] = []
    for i, (pairs, key) in enumerate(zip(tasks, puzzle_keys, strict=True)):
        if not pairs:
            raise ValueError(f"tasks: task {i} has no pairs")
        sums = arc_kernels.colour_words(*encode_pairs(pairs))
        keys = feistel_keys(seed, Purpose.AUGMENT, int(key))
        count = arc_kernels.distinct(sums, keys, attempts, table, found)
        lists.append(found[:count].copy())
    return lists


class ArcAugmenter:
    """Rows of augmented and translated examples, from untranslated ones, in any order.

    Translation: each augmented puzzle (task, k) has one stream of draws (seed, TRANSLATE, puzzle key, k). The
    first draw selects the example that stays at (0, 0). Then every example in order takes two: its row offset,
    uniform over those that keep input and output of the augmented example on the canvas, and its column offset.
    The selected example also takes its two draws, so an example's offset needs only the draws before it.

    Args:
        tokens_in: Inputs at offset (0, 0), [E, 900], as returned by `encode_pairs`.
        tokens_out: Outputs in the same form, PAD if unknown.
        sizes: Rows and columns of the input, then of the output (0 if unknown), [E, 4].
        first_examples: Group g has the examples first_examples[g] to first_examples[g + 1] - 1; [G + 1].
        puzzle_keys: `puzzle_key` of each group's task, [G].
        seed: Seed of the dataset.
        translate: Whether to translate; test rows are not.

    Raises:
        ValueError: Shapes or values do not match.
    """

    def __init__(
        self,
        tokens_in: NDArray[np.uint8],
        tokens_out: NDArray[np.uint8],
        sizes: NDArray[np.uint8],
        first_examples: NDArray[np.int64],
        puzzle_keys: NDArray[np.int64],
        seed: int,
        translate: bool,
    ) -> None:
        count = len(sizes)
        _check_array("tokens_in", tokens_in, (count, ARC_CELLS), np.uint8)
        _check_array("tokens_out", tokens_out, (count, ARC_CELLS), np.uint8)
        _check_array("sizes", sizes, (count, 4), np.uint8)
        if int(sizes.max(initial=0)) > ARC_SIDE or not sizes[:, :2].all():
            raise ValueError(f"sizes: got an input or output beyond 1x1 to {ARC_SIDE}x{ARC_SIDE}")
        _check_array("first_examples", first_examples, (len(puzzle_keys) + 1,), np.int64)
        _check_array("puzzle_keys", puzzle_keys, (len(puzzle_keys),), np.int64)
        if first_examples[0] != 0 or first_examples[-1] != count or (np.diff(first_examples) < 0).any():
            raise ValueError(f"first_examples: got {first_examples}; expected ascending from 0 to {count}")
        if int(puzzle_keys.min(initial=0)) < 0:
            raise ValueError(f"puzzle_keys: got {puzzle_keys.min()}; expected 0 and above")
        if max(int(tokens_in.max(initial=0)), int(tokens_out.max(initial=0))) > COLOURS + 1:
            raise ValueError("tokens: got a token above 11")
        # Writeable, so that the kernel is compiled for one type of array.
        self._tokens_in = np.require(tokens_in, requirements="W")
        self._tokens_out = np.require(tokens_out, requirements="W")
        self._sizes = np.require(sizes, requirements="W")
        self._first_examples = np.require(first_examples, requirements="W")
        self._puzzle_keys = np.require(puzzle_keys, requirements="W")
        self._seed = np.uint64(check_word("seed", seed))
        self._translate = translate
        self._round_keys = np.empty((len(puzzle_keys), FEISTEL_ROUNDS), np.uint64)
        for g, key in enumerate(puzzle_keys.tolist()):
            self._round_keys[g] = feistel_keys(seed, Purpose.AUGMENT, key)

    def fill(self, groups: Indices, ks: Indices, examples: Indices, inputs: Tokens, labels: Tokens) -> Made:
        """Write one row for each slot: example `examples[n]` of group `groups[n]` in its augmentation `ks[n]`.

        Args:
            groups: [N], contiguous.
            ks: [N], contiguous.
            examples: Position within the group, [N], contiguous.
            inputs: [N, 900], contiguous, is overwritten.
            labels: [N, 900], contiguous, is overwritten; all PAD if the output is unknown.

        Returns:
            Elements and offsets.
        """
        from trm_data.kinds.arc import (
            symmetry_kernels as arc_kernels,  # imports numba, which a symmetry does not need
        )

        count = len(groups)
        for name, numbers in (("groups", groups), ("ks", ks), ("examples", examples)):
            _check_array(name, numbers, (count,), np.int64)
        _check_array("inputs", inputs, (count, ARC_CELLS), np.uint8)
        _check_array("labels", labels, (count, ARC_CELLS), np.uint8)
        _check_range("groups", groups, len(self._puzzle_keys))
        _check_range("ks", ks, NUM_SYMMETRIES)
        lengths = np.diff(self._first_examples)[groups]
        if ((examples < 0) | (examples >= lengths)).any():
            n = int(((examples < 0) | (examples >= lengths)).argmax())
            raise ValueError(
                f"examples: got {examples[n]}, but group {groups[n]} has {lengths[n]} examples, from 0"
            )
        elements = np.empty(count, np.int64)
        offsets = np.empty((count, 2), np.uint8)
        arc_kernels.fill(
            self._tokens_in, self._tokens_out, self._sizes, self._first_examples, self._puzzle_keys,
            self._round_keys, self._seed, self._translate, groups, ks, examples, inputs, labels,
            elements, offsets,
        )  # fmt: skip
        return Made(elements, offsets)


def untranslate(
    inputs: NDArray[np.uint8], labels: NDArray[np.uint8], offsets: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return rows with their grids moved back to (0, 0), as new arrays.

    Args:
        inputs: [N, 900], contiguous.
        labels: [N, 900], contiguous; a row may be all PAD.
        offsets: Row and column offset of each row, uint8 [N, 2].
    """
    from trm_data.kinds.arc import (
        symmetry_kernels as arc_kernels,  # imports numba, which a symmetry does not need
    )

    _check_array("inputs", inputs, (len(inputs), ARC_CELLS), np.uint8)
    _check_array("labels", labels, inputs.shape, np.uint8)
    _check_array("offsets", offsets, (len(inputs), 2), np.uint8)
    moved: list[NDArray[np.uint8]] = []
    for name, rows in (("inputs", inputs), ("labels", labels)):
        out = np.empty_like(rows)
        wrong = arc_kernels.untranslate(rows, offsets, name == "labels", out)
        if wrong >= 0:
            at = tuple(offsets[wrong].tolist())
            raise ValueError(f"{name}: row {wrong} is not the encoding of a grid at offset {at}")
        moved.append(out)
    return moved[0], moved[1]


def _check_array(
    name: str, array: NDArray[np.uint8] | NDArray[np.int64], shape: tuple[int, ...], dtype: type[np.generic]
) -> None:
    if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
        allowed = f"contiguous {np.dtype(dtype)} {shape}"
        raise ValueError(f"{name}: got {array.dtype} {array.shape}; expected {allowed}")


def _check_range(name: str, numbers: NDArray[np.int64], stop: int) -> None:
    if len(numbers) and not (int(numbers.min()) >= 0 and int(numbers.max()) < stop):
        raise ValueError(f"{name}: got {numbers.min()} to {numbers.max()}; expected 0 to {stop - 1}")


_HEAD = 4
_HASH_BYTES = 16


def pair_hashes(pairs: Iterable[Pair]) -> list[str]:
    """Return a name for each example that is equal for its images under colours and dihedral: blake2b of 16 bytes over
    its canonical form, in hexadecimal.
    """
    from trm_data.kinds.arc import symmetry_kernels as arc_kernels  # imports numba

    inputs, outputs, sizes = encode_pairs(pairs)
    forms = np.empty((len(sizes), _HEAD + 2 * ARC_CELLS), np.uint8)
    arc_kernels.canonicalize_many(inputs, outputs, sizes, forms)
    numbers = sizes.astype(np.int64)
    lengths = _HEAD + numbers[:, 0] * numbers[:, 1] + numbers[:, 2] * numbers[:, 3]
    return [
        hashlib.blake2b(form[:length].tobytes(), digest_size=_HASH_BYTES).hexdigest()
        for form, length in zip(forms, lengths.tolist(), strict=True)
    ]
