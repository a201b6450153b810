"""Augmented ARC rows in bulk, compiled: from augmentation numbers to encoded, translated tokens.

Input: untranslated rows of tokens, and the augmentations to make. Output: rows of tokens, written in place;
and for each task the augmentations whose images are new.
Neighbours: wrapped by `kinds.arc.symmetry`, which checks the arguments; tested there against `ArcSymmetry` and
`encode_pair`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import inner_kernel, kernel
from trm_data.kinds.arc.encode import ARC_CELLS, ARC_EOS, ARC_SIDE, ARC_VOCABULARY, COLOURS, FIRST_COLOUR
from trm_data.seeds.draws import Purpose
from trm_data.seeds.kernels import STREAM_WORDS, U0, U1, feistel, mix, next_bounded, open_stream

_TRANSLATE = int(Purpose.TRANSLATE)
_DIHEDRALS = 8
_OTHERS = np.uint64(_DIHEDRALS * 362_880 - 1)  # elements but the identity
_U3, _U4, _U7, _U15 = np.uint64(3), np.uint64(4), np.uint64(7), np.uint64(15)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@inner_kernel
def image_steps(dihedral: int, rows: int, columns: int) -> tuple[int, int, int]:
    """Return from where the image of an R x C grid on a canvas of 30 columns reads its cells.

    Returns:
        Start, step per row and step per column: cell (i, j) of the image is canvas cell start + i * row step +
        j * column step.
    """
    last_row, last_column = (rows - 1) * ARC_SIDE, columns - 1
    if dihedral == 0:
        return 0, ARC_SIDE, 1
    if dihedral == 1:
        return last_column, -1, ARC_SIDE
    if dihedral == 2:
        return last_row + last_column, -ARC_SIDE, -1
    if dihedral == 3:
        return last_row, 1, -ARC_SIDE
    if dihedral == 4:
        return last_column, ARC_SIDE, -1
    if dihedral == 5:
        return last_row, -ARC_SIDE, 1
    if dihedral == 6:
        return 0, 1, ARC_SIDE
    return last_row + last_column, -1, -ARC_SIDE


@kernel
def turns(dihedral: int) -> bool:
    """Return whether rows become columns."""
    return dihedral == 1 or dihedral == 3 or dihedral >= 6


@inner_kernel
def _decode_colours(rank: np.uint64, places: NDArray[np.uint64], tokens: NDArray[np.uint8]) -> None:
    """Fill the table from token to token for the colour permutation of this rank.

    The digits of the rank in the factorial base select from the remaining colours, stored as nibbles.
    """
    for radix in range(1, COLOURS):
        places[COLOURS - 1 - radix] = rank % np.uint64(radix)
        rank //= np.uint64(radix)
    for token in range(FIRST_COLOUR + 1):
        tokens[token] = token
    left = np.uint64(0x987654321)
    for old in range(COLOURS - 1):
        shift = places[old] * _U4
        tokens[FIRST_COLOUR + 1 + old] = np.uint8((left >> shift) & _U15) + np.uint8(FIRST_COLOUR)
        below = (U1 << shift) - U1
        left = (left & below) | ((left >> _U4) & ~below)


@inner_kernel
def _write_grid(
    source: NDArray[np.uint8],
    start: int,
    row_step: int,
    column_step: int,
    rows: int,
    columns: int,
    tokens: NDArray[np.uint8],
    row_offset: int,
    column_offset: int,
    target: NDArray[np.uint8],
) -> None:
    """Write a whole row: a grid of `rows` x `columns` read from `source`, its end marks, PAD elsewhere."""
    target[:] = 0
    for i in range(rows):
        at = np.uint64((row_offset + i) * ARC_SIDE + column_offset)
        read = start + i * row_step
        for j in range(columns):
            target[at + np.uint64(j)] = tokens[source[np.uint64(read)]]
            read += column_step
        if column_offset + columns < ARC_SIDE:
            target[at + np.uint64(columns)] = ARC_EOS
    if row_offset + rows < ARC_SIDE:
        at = np.uint64((row_offset + rows) * ARC_SIDE + column_offset)
        for j in range(columns):
            target[at + np.uint64(j)] = ARC_EOS


@inner_kernel
def _draw_offset(
    stream: NDArray[np.uint64], sizes: NDArray[np.uint8], example: int, turned: bool
) -> tuple[int, int]:
    """Return the offset of one example of a puzzle, given the sizes of its examples; see `ArcAugmenter`."""
    fixed = np.int64(next_bounded(stream, np.uint64(sizes.shape[0])))
    row_offset, column_offset = 0, 0
    for e in range(example + 1):
        height = max(sizes[e, 0], sizes[e, 2])
        width = max(sizes[e, 1], sizes[e, 3])
        if turned:
            height, width = width, height
        row_offset = np.int64(next_bounded(stream, np.uint64(ARC_SIDE + 1 - height)))
        column_offset = np.int64(next_bounded(stream, np.uint64(ARC_SIDE + 1 - width)))
    if example == fixed:
        return 0, 0
    return row_offset, column_offset  # pyright: ignore[reportReturnType]


@kernel
def fill(
    tokens_in: NDArray[np.uint8],
    tokens_out: NDArray[np.uint8],
    sizes: NDArray[np.uint8],
    first_examples: NDArray[np.int64],
    puzzle_keys: NDArray[np.int64],
    round_keys: NDArray[np.uint64],
    seed: np.uint64,
    translate: bool,
    groups: NDArray[np.int64],
    ks: NDArray[np.int64],
    examples: NDArray[np.int64],
    inputs: NDArray[np.uint8],
    labels: NDArray[np.uint8],
    elements: NDArray[np.int64],
    offsets: NDArray[np.uint8],
) -> None:
    """Write the rows of `augment.arc.ArcAugmenter.fill`, which has checked its arguments."""
    stream = np.empty(STREAM_WORDS, np.uint64)
    places = np.empty(COLOURS - 1, np.uint64)
    tokens = np.empty(ARC_VOCABULARY, np.uint8)
    for n in range(groups.shape[0]):
        g = groups[n]
        element = U0
        if ks[n] > 0:
            element = U1 + feistel(round_keys[g], np.uint64(ks[n] - 1), _OTHERS)
        elements[n] = np.int64(element)
        dihedral = np.int64(element & _U7)
        turned = turns(dihedral)
        _decode_colours(element >> _U3, places, tokens)
        row_offset, column_offset = 0, 0
        if translate:
            open_stream(stream, seed, _TRANSLATE, puzzle_keys[g], ks[n])
            row_offset, column_offset = _draw_offset(
                stream, sizes[first_examples[g] : first_examples[g + 1]], examples[n], turned
            )
        offsets[n, 0] = row_offset
        offsets[n, 1] = column_offset
        e = first_examples[g] + examples[n]
        for side in range(2):
            rows, columns = np.int64(sizes[e, 2 * side]), np.int64(sizes[e, 2 * side + 1])
            start, row_step, column_step = image_steps(dihedral, rows, columns)
            if turned:
                rows, columns = columns, rows
            _write_grid(
                tokens_out[e] if side else tokens_in[e], start, row_step, column_step, rows, columns, tokens,
                row_offset, column_offset, labels[n] if side else inputs[n],
            )  # fmt: skip


@kernel
def untranslate(
    rows: NDArray[np.uint8], offsets: NDArray[np.uint8], may_be_empty: bool, out: NDArray[np.uint8]
) -> int:
    """Write each row with its grid moved to the corner.

    Returns:
        The first row that is not the encoding of a grid at its offset, -1 if there is none.
    """
    same = np.arange(ARC_VOCABULARY).astype(np.uint8)
    again = np.empty(ARC_CELLS, np.uint8)
    for n in range(rows.shape[0]):
        row = rows[n]
        row_offset, column_offset = np.int64(offsets[n, 0]), np.int64(offsets[n, 1])
        if row_offset >= ARC_SIDE or column_offset >= ARC_SIDE:
            return n
        start = row_offset * ARC_SIDE + column_offset
        height = 0
        while row_offset + height < ARC_SIDE and row[start + height * ARC_SIDE] >= FIRST_COLOUR:
            height += 1
        width = 0
        while column_offset + width < ARC_SIDE and row[start + width] >= FIRST_COLOUR:
            width += 1
        if height == 0 and not may_be_empty:
            return n
        for i in range(height):
            for j in range(width):
                token = row[start + i * ARC_SIDE + j]
                if token < FIRST_COLOUR or token >= ARC_VOCABULARY:
                    return n
        _write_grid(row, start, ARC_SIDE, 1, height, width, same, row_offset, column_offset, again)
        for cell in range(ARC_CELLS):
            if row[cell] != again[cell]:
                return n
        _write_grid(row, start, ARC_SIDE, 1, height, width, same, 0, 0, out[n])
    return -1


@inner_kernel
def _word(number: int) -> np.uint64:
    """Return a fixed random word."""
    return mix(np.uint64(number + 1) * _GOLDEN)


@kernel
def colour_words(
    tokens_in: NDArray[np.uint8], tokens_out: NDArray[np.uint8], sizes: NDArray[np.uint8]
) -> NDArray[np.uint64]:
    """Return for each example, dihedral and colour the sum of the random words of the image cells of that colour.

    The hash of an image is the sum over the colours of these sums, each times the word of its new colour. So the
    image under a colour permutation costs ten products. Input and output cells have separate words.

    Returns:
        uint64 [E, 8, 10].
    """
    words = np.empty(2 * ARC_CELLS, np.uint64)
    for i in range(2 * ARC_CELLS):
        words[i] = _word(COLOURS + i)
    sums = np.zeros((sizes.shape[0], _DIHEDRALS, COLOURS), np.uint64)
    for e in range(sizes.shape[0]):
        for side in range(2):
            source = tokens_out[e] if side else tokens_in[e]
            for dihedral in range(_DIHEDRALS):
                rows, columns = np.int64(sizes[e, 2 * side]), np.int64(sizes[e, 2 * side + 1])
                start, row_step, column_step = image_steps(dihedral, rows, columns)
                if turns(dihedral):
                    rows, columns = columns, rows
                for i in range(rows):
                    for j in range(columns):
                        colour = source[start + i * row_step + j * column_step] - FIRST_COLOUR
                        sums[e, dihedral, colour] += words[side * ARC_CELLS + i * ARC_SIDE + j]
    return sums


@inner_kernel
def _insert(table: NDArray[np.uint64], word: np.uint64) -> bool:
    """Add a word to a hash table of 2**b slots, 0 for a free slot; return whether it was new."""
    word |= U1
    mask = np.uint64(table.shape[0] - 1)
    place = (word >> U1) & mask
    while table[place] != U0:
        if table[place] == word:
            return False
        place = (place + U1) & mask
    table[place] = word
    return True


@kernel
def distinct(
    sums: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    attempts: int,
    table: NDArray[np.uint64],
    ks: NDArray[np.int32],
) -> int:
    """Write the augmentations of one task whose set of images is new, in order, until `ks` is full.

    Args:
        sums: `colour_words` of the task's examples, [E, 8, 10].
        keys: Round keys of the task's augmentations.
        attempts: The largest k to try.
        table: A power of two of slots, more than the length of `ks`; is overwritten.
        ks: Is overwritten; ks[0] is 0.

    Returns:
        Number of augmentations written.
    """
    table[:] = U0
    colours = np.empty(COLOURS, np.uint64)
    for colour in range(COLOURS):
        colours[colour] = _word(colour)
    places = np.empty(COLOURS - 1, np.uint64)
    tokens = np.empty(ARC_VOCABULARY, np.uint8)
    count = 0
    for k in range(attempts + 1):
        element = U0
        if k > 0:
            element = U1 + feistel(keys, np.uint64(k - 1), _OTHERS)
        _decode_colours(element >> _U3, places, tokens)
        images = U0
        for e in range(sums.shape[0]):
            image = U0
            for colour in range(COLOURS):
                image += (
                    sums[e, element & _U7, colour] * colours[tokens[colour + FIRST_COLOUR] - FIRST_COLOUR]
                )
            images += mix(image)
        if _insert(table, images):
            ks[count] = k
            count += 1
            if count == ks.shape[0]:
                break
    return count


_HEAD = 4  # rows and columns of the input, rows and columns of the output


@inner_kernel
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
    """Append the cells of one image to a form, numbering colours in order of appearance.

    Args:
        source: Tokens of a grid.
        dihedral: Dihedral id of the image.
        rows: Rows of the grid.
        columns: Columns of the grid.
        names: New name of each colour, 0 if it has none yet; is updated.
        named: Number of named colours.
        form: Is written from `length`.
        length: Bytes already written.

    Returns:
        The updated `named` and `length`.
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
