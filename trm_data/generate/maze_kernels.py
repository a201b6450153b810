"""The maze generator's compiled core: random layouts, weighed by their long pairs.

Input: seed, stream, the range of maze numbers, and the options. Output: mazes, written in place.
Neighbours: wrapped by `generate.maze`, which says what is drawn and why it is exact.

A set of cells is a bitboard: one uint64 a row, bit c for column c, with an empty row above and below, so
that a step in all directions is a few operations on whole rows. A pair is long if its shortest path has at
least `min_path` steps. Pairs are ordered: (S, G) and (G, S) are two.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# pyright: reportAssignmentType=false
# (numba decides the types of kernels; their annotations are for readers)
from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trm_data.encode.vocab import MAZE_FREE, MAZE_GOAL, MAZE_START, MAZE_WALL
from trm_data.seeds.draws import Purpose
from trm_data.seeds.kernels import (
    STREAM_WORDS,
    U0,
    U1,
    count_bits,
    lowest_bit,
    next_bounded,
    next_word,
    open_stream,
)

_GENERATE = int(Purpose.GENERATE)
_SHARE_BITS = 5
FREE, REST, OPEN, FRONT, NEXT, COMPONENT, HALFWAY, RIM, BOARDS = range(9)


@njit(cache=True, nogil=True)
def _step(boards: NDArray[np.uint64], front: int, into: int, rows: int) -> np.uint64:
    """Set boards[into] to the open cells next to boards[front] and close them; return their number."""
    old, new, still = boards[front], boards[into], boards[OPEN]
    count = U0
    for above in range(rows):  # in this form the compiler works on several rows at once
        here = old[above + 1]
        found = (old[above] | old[above + 2] | (here << U1) | (here >> U1)) & still[above + 1]
        new[above + 1] = found
        still[above + 1] ^= found
        count += count_bits(found)
    return count


@njit(cache=True, nogil=True)
def _place(boards: NDArray[np.uint64], source: int, row: int, bit: np.uint64, rows: int) -> None:
    """Open the cells of boards[source], with one cell as the front, closed."""
    for r in range(1, rows + 1):
        boards[OPEN, r] = boards[source, r]
        boards[FRONT, r] = U0
    boards[FRONT, row] = bit
    boards[OPEN, row] ^= bit


@njit(cache=True, nogil=True)
def _size(boards: NDArray[np.uint64], board: int, rows: int) -> int:
    """The number of cells of a board."""
    total = U0
    for row in range(1, rows + 1):
        total += count_bits(boards[board, row])
    return np.int64(total)


@njit(cache=True, nogil=True)
def _draw_layout(
    boards: NDArray[np.uint64], stream: NDArray[np.uint64], rows: int, columns: int, walls: int
) -> None:
    """Set FREE to the cells of a uniformly drawn layout with that number of walls.

    Cells are first made walls independently, with a share in 32nds, which is whole words at a time; given
    their number, every set of walls is as likely. Then uniformly chosen cells are changed until it is right.
    """
    cells = rows * columns
    share = (2 * walls * (1 << _SHARE_BITS) + cells) // (2 * cells)
    share = min(share, (1 << _SHARE_BITS) - 1)
    mask = U0 - U1 if columns == 64 else (U1 << np.uint64(columns)) - U1
    left, bits, count = 0, U0, U0
    for row in range(1, rows + 1):
        if left == 0:
            bits, left = U0, 64 // columns
            started = False
            for place in range(_SHARE_BITS):
                if share >> place & 1:
                    bits |= next_word(stream)
                    started = True
                elif started:
                    bits &= next_word(stream)
        boards[FREE, row] = mask & ~bits
        count += count_bits(mask & bits)
        left -= 1
        if left > 0:
            bits >>= np.uint64(columns)
    wanted, many, across = np.uint64(walls), np.uint64(cells), np.uint64(columns)
    while count != wanted:
        cell = next_bounded(stream, many)
        row, bit = cell // across + U1, U1 << cell % across
        free = boards[FREE, row] & bit != U0
        if free == (count < wanted):
            boards[FREE, row] ^= bit
            count = count + U1 if free else count - U1


@njit(cache=True, nogil=True)
def _find_central(boards: NDArray[np.uint64], board: int, rows: int, columns: int) -> tuple[int, np.uint64]:
    """A cell of a board that is not empty: in the row nearest the middle, near the middle if it can be."""
    middle = (rows + 1) // 2
    row = middle
    for away in range(rows):
        row = middle + away
        if row <= rows and boards[board, row] != U0:
            break
        row = middle - away
        if row >= 1 and boards[board, row] != U0:
            break
    half = np.uint64(columns // 2)
    right = boards[board, row] >> half
    if right != U0:
        return row, (right & (U0 - right)) << half
    word = boards[board, row]
    return row, word & (U0 - word)


@njit(cache=True, nogil=True)
def _first(boards: NDArray[np.uint64], board: int, rows: int) -> tuple[int, np.uint64]:
    """The first cell of a board that is not empty."""
    row = 1
    while row < rows and boards[board, row] == U0:
        row += 1
    word = boards[board, row]
    return row, word & (U0 - word)


@njit(cache=True, nogil=True)
def _count_levels(
    boards: NDArray[np.uint64],
    sizes: NDArray[np.int64],
    source: int,
    row: int,
    bit: np.uint64,
    rows: int,
) -> tuple[int, int]:
    """Set sizes[d] to the number of cells d steps away, within a board; return their last d and front."""
    _place(boards, source, row, bit, rows)
    front, into, level = FRONT, NEXT, 0
    sizes[0] = 1
    found = _step(boards, front, into, rows)
    while found != U0:
        front, into = into, front
        level += 1
        sizes[level] = np.int64(found)
        found = _step(boards, front, into, rows)
    return level, front


@njit(cache=True, nogil=True)
def _bound_pairs(sizes: NDArray[np.int64], last: int, min_path: int) -> int:
    """At most so many pairs are long: two cells are at most as far apart as their ways to the centre."""
    if 2 * last < min_path:
        return 0
    total, beyond, level = 0, 0, last
    for near in range(last + 1):  # beyond: the cells at least min_path - near from the centre
        while level >= 0 and level >= min_path - near:
            beyond += sizes[level]
            level -= 1
        total += sizes[near] * beyond
    return total


@njit(cache=True, nogil=True)
def _find_middle(
    boards: NDArray[np.uint64], row: int, bit: np.uint64, rows: int, sizes: NDArray[np.int64]
) -> tuple[int, np.uint64]:
    """A cell halfway between a cell and the one farthest from it, in COMPONENT."""
    last, front = _count_levels(boards, sizes, COMPONENT, row, bit, rows)
    far_row, far_bit = _first(boards, front, rows)
    for part in range(2):
        start_row, start_bit = (row, bit) if part == 0 else (far_row, far_bit)
        _place(boards, COMPONENT, start_row, start_bit, rows)
        front, into = FRONT, NEXT
        for _ in range(last // 2 if part == 0 else last - last // 2):
            _step(boards, front, into, rows)
            front, into = into, front
        for r in range(1, rows + 1):
            boards[HALFWAY, r] = boards[front, r] & (boards[HALFWAY, r] if part else ~U0)
    return _first(boards, HALFWAY, rows)


@njit(cache=True, nogil=True)
def _reach_far(boards: NDArray[np.uint64], row: int, bit: np.uint64, rows: int, min_path: int) -> int:
    """Leave in OPEN the cells of COMPONENT at least min_path steps away; return whether there may be any."""
    _place(boards, COMPONENT, row, bit, rows)
    front, into = FRONT, NEXT
    for _ in range(min_path - 1):
        if _step(boards, front, into, rows) == U0:
            return 0
        front, into = into, front
    return 1


@njit(cache=True, nogil=True)
def _weigh_component(
    boards: NDArray[np.uint64],
    levels: NDArray[np.uint64],
    sizes: NDArray[np.int64],
    sources: NDArray[np.int64],
    listed: int,
    rows: int,
    min_path: int,
    total: int,
    bound: int,
    needed: int,
) -> tuple[int, int]:
    """Count the long pairs of COMPONENT exactly, unless the total falls short of what is needed.

    `total` bounds the long pairs of all components, of which `bound` belong to this one. A long pair has at
    least one cell not less than half of min_path away from the centre, a rim cell: only these are sources. A
    pair of rim cells is met from each of the two, so it counts once; with another cell a pair counts for both
    orders. Adds to RIM, lists (cell, count) for each source; returns the new total and the length of the list.
    """
    row, bit = _first(boards, COMPONENT, rows)
    row, bit = _find_middle(boards, row, bit, rows, sizes)
    _place(boards, COMPONENT, row, bit, rows)
    front, into, last = FRONT, NEXT, 0
    sizes[0] = 1
    for r in range(1, rows + 1):
        levels[0, r] = boards[FRONT, r]
    found = _step(boards, front, into, rows)
    while found != U0:
        front, into = into, front
        last += 1
        sizes[last] = np.int64(found)
        for r in range(1, rows + 1):
            levels[last, r] = boards[front, r]
        found = _step(boards, front, into, rows)
    total += _bound_pairs(sizes, last, min_path) - bound
    rim = (min_path + 1) // 2
    if total < needed or last < rim:
        return total, listed
    for r in range(1, rows + 1):
        for level in range(rim, last + 1):
            boards[RIM, r] |= levels[level, r]
    for level in range(last, rim - 1, -1):
        allowed = 0  # a source of this level counts at most so much
        for other in range(max(0, min_path - level), last + 1):
            allowed += sizes[other] if other >= rim else 2 * sizes[other]
        for r in range(1, rows + 1):
            word = levels[level, r]
            while word != U0:
                bit = word & (U0 - word)
                word ^= bit
                count = 0
                if _reach_far(boards, r, bit, rows, min_path):
                    for other in range(1, rows + 1):
                        far = boards[OPEN, other]
                        count += np.int64(count_bits(far) + count_bits(far & ~boards[RIM, other]))
                total += count - allowed
                if total < needed:
                    return total, listed
                if count > 0:
                    sources[listed, 0] = r
                    sources[listed, 1] = np.int64(lowest_bit(bit))
                    sources[listed, 2] = count
                    listed += 1
    return total, listed


@njit(cache=True, nogil=True)
def _weigh(
    boards: NDArray[np.uint64],
    levels: NDArray[np.uint64],
    sizes: NDArray[np.int64],
    centres: NDArray[np.int64],
    sources: NDArray[np.int64],
    rows: int,
    columns: int,
    free: int,
    min_path: int,
    needed: int,
) -> tuple[int, int]:
    """The number of long pairs of the layout in FREE if it is `needed` or more, otherwise something less.

    Returns it and the number of sources listed, whose counts add up to it.
    """
    total, components, left = 0, 0, free
    for row in range(1, rows + 1):
        boards[REST, row] = boards[FREE, row]
        boards[RIM, row] = U0
    # From a cell of a component of n cells, at least min_path of them (itself too) are nearer than min_path.
    while left > min_path and total + left * (left - min_path) >= needed:
        row, bit = _find_central(boards, REST, rows, columns)
        last, _ = _count_levels(boards, sizes, REST, row, bit, rows)
        bound = _bound_pairs(sizes, last, min_path)
        if bound > 0:
            centres[components, 0] = row
            centres[components, 1] = np.int64(lowest_bit(bit))
            centres[components, 2] = bound
            components += 1
            total += bound
        for r in range(1, rows + 1):
            boards[REST, r] = boards[OPEN, r]
        left = _size(boards, OPEN, rows)
    listed = 0
    for i in range(components):
        if total < needed:
            break
        _place(boards, FREE, centres[i, 0], U1 << np.uint64(centres[i, 1]), rows)
        front, into = FRONT, NEXT
        while _step(boards, front, into, rows) != U0:
            front, into = into, front
        for r in range(1, rows + 1):
            boards[COMPONENT, r] = boards[FREE, r] & ~boards[OPEN, r]
        total, listed = _weigh_component(
            boards, levels, sizes, sources, listed, rows, min_path, total, centres[i, 2], needed
        )
    return total, listed


@njit(cache=True, nogil=True)
def _write_maze(
    boards: NDArray[np.uint64],
    sources: NDArray[np.int64],
    stream: NDArray[np.uint64],
    rows: int,
    columns: int,
    min_path: int,
    total: int,
    maze: NDArray[np.uint8],
) -> None:
    """Write the layout in FREE with one of its long pairs, uniformly drawn."""
    number = np.int64(next_bounded(stream, np.uint64(total)))
    source = 0
    while number >= sources[source, 2]:
        number -= sources[source, 2]
        source += 1
    row, column = sources[source, 0], sources[source, 1]
    _place(boards, FREE, row, U1 << np.uint64(column), rows)
    front, into = FRONT, NEXT
    while _step(boards, front, into, rows) != U0:
        front, into = into, front
    for r in range(1, rows + 1):
        boards[COMPONENT, r] = boards[FREE, r] & ~boards[OPEN, r]
    _reach_far(boards, row, U1 << np.uint64(column), rows, min_path)
    for r in range(rows):
        for c in range(columns):
            free = boards[FREE, r + 1] >> np.uint64(c) & U1 != U0
            maze[r * columns + c] = MAZE_FREE if free else MAZE_WALL
    start = (row - 1) * columns + column
    for r in range(1, rows + 1):
        far = boards[OPEN, r]
        while far != U0:
            goal = (r - 1) * columns + np.int64(lowest_bit(far))
            # A pair with a rim cell is met from there too; another one counts here for both its orders.
            orders = 1 if boards[RIM, r] >> lowest_bit(far) & U1 != U0 else 2
            if number < orders:
                maze[goal if number == 1 else start] = MAZE_START
                maze[start if number == 1 else goal] = MAZE_GOAL
                return
            number -= orders
            far &= far - U1


@njit(cache=True, nogil=True)
def find_largest_share(
    seed: np.uint64,
    stream_number: np.uint64,
    layouts: int,
    rows: int,
    columns: int,
    min_path: int,
    low: int,
    high: int,
    enough: float,
) -> float:
    """The largest share of long pairs among so many layouts, or one that is `enough`."""
    boards = np.zeros((BOARDS, rows + 2), np.uint64)
    levels = np.empty((rows * columns, rows + 2), np.uint64)
    sizes = np.empty(rows * columns, np.int64)
    centres = np.empty((rows * columns, 3), np.int64)
    sources = np.empty((rows * columns, 3), np.int64)
    stream = np.empty(STREAM_WORDS, np.uint64)
    open_stream(stream, seed, _GENERATE, 0, stream_number)
    largest = 0.0
    for _ in range(layouts):
        walls = low + np.int64(next_bounded(stream, np.uint64(high - low + 1)))
        _draw_layout(boards, stream, rows, columns, walls)
        free = rows * columns - walls
        pairs = free * (free - 1)
        needed = np.int64(largest * pairs) + 1
        total, _ = _weigh(boards, levels, sizes, centres, sources, rows, columns, free, min_path, needed)
        if total >= needed:
            largest = total / pairs
            if largest >= enough:
                break
    return largest


@njit(cache=True, nogil=True)
def generate_many(
    seed: np.uint64,
    stream_number: np.uint64,
    start: int,
    rows: int,
    columns: int,
    min_path: int,
    low: int,
    high: int,
    scale: int,
    most_layouts: int,
    mazes: NDArray[np.uint8],
    shares: NDArray[np.float64],
) -> int:
    """Fill mazes [N, S] with those numbered from `start`, and shares [N] with the share of pairs that are long.

    A layout is accepted with probability min(1, scale * share). Returns how many mazes are written: less than
    N where one is not found within `most_layouts` layouts.
    """
    boards = np.zeros((BOARDS, rows + 2), np.uint64)
    levels = np.empty((rows * columns, rows + 2), np.uint64)
    sizes = np.empty(rows * columns, np.int64)
    centres = np.empty((rows * columns, 3), np.int64)
    sources = np.empty((rows * columns, 3), np.int64)
    stream = np.empty(STREAM_WORDS, np.uint64)
    for i in range(mazes.shape[0]):
        open_stream(stream, seed, _GENERATE, start + i, stream_number)
        layouts, found = 0, False
        while not found:
            if layouts == most_layouts:
                return i
            layouts += 1
            walls = low + np.int64(next_bounded(stream, np.uint64(high - low + 1)))
            free = rows * columns - walls
            # Accepted if scale * long pairs > the draw: drawn first, so that most layouts need many.
            drawn = next_bounded(stream, np.uint64(free * (free - 1)))
            needed = np.int64(drawn) // scale + 1
            _draw_layout(boards, stream, rows, columns, walls)
            total, _ = _weigh(boards, levels, sizes, centres, sources, rows, columns, free, min_path, needed)
            found = total >= needed
        shares[i] = total / (free * (free - 1))
        _write_maze(boards, sources, stream, rows, columns, min_path, total, mazes[i])
    return mazes.shape[0]
