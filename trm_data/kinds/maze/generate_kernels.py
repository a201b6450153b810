"""The maze generator's compiled core: random layouts, weighted by their long pairs.

Input: seed, stream, the range of maze numbers, and the options. Output: mazes, written in place.
Neighbours: wrapped by `kinds.maze.generate`, which explains what is drawn and why it is exact; `kinds.maze.boards` has
the steps of a search.

A set of cells is a board: a word for each row, bit c for column c. A pair is long if its shortest path has at
least `min_path` steps. Pairs are ordered: (S, G) and (G, S) are two pairs.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# pyright: reportAssignmentType=false
# (numba infers the types of kernels; their annotations are for readers)
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.encode import MAZE_FREE, MAZE_GOAL, MAZE_START, MAZE_WALL
from trm_data.kernel import inner_kernel, kernel
from trm_data.kinds.maze.boards import (
    count_in,
    lane_of,
    lanes_for,
    load,
    next_to,
    one_cell,
    rows_of,
    store,
    without_ends,
)
from trm_data.kinds.vectors import any_bit
from trm_data.seeds.draws import Purpose
from trm_data.seeds.kernels import (
    STREAM_WORDS,
    U0,
    U1,
    bounded_at,
    count_bits,
    leave_at,
    lowest_bit,
    next_bounded,
    open_stream,
    place_of,
    word_at,
    zeros_above,
)

_GENERATE = int(Purpose.GENERATE)
_SHARE_BITS = 5
_INVERSE_BITS = np.uint64(32)  # of 1 / columns, as a fraction
_ROUNDS = 8  # rounds that remove dead ends
_LAST_BIT = np.uint64(1 << 63)
FREE, REST, CORE, OPEN, FRONT, COMPONENT, HALFWAY, RIM, BOARDS = range(9)

Words = NDArray[np.uint32] | NDArray[np.uint64]


def empty_boards(rows: int, columns: int) -> Words:
    """Return the work memory of the kernels, for mazes of a size: BOARDS empty boards."""
    lanes, word = lanes_for(rows, columns)
    return np.zeros((BOARDS, lanes), word)


@inner_kernel(forceinline=True)
def _flood(left: Any, front: Any, most: int) -> tuple[Any, Any, int]:
    """Search breadth-first from the cells of `front` within the board `left`, for at most `most` steps.

    Return the cells not reached, those reached last, and the distance of the latter.
    """
    level = 0
    while level < most:
        found = next_to(front) & left
        if not any_bit(found):
            break
        front, left = found, left ^ found
        level += 1
    return left, front, level


@inner_kernel
def _search(boards: Words, within: Words, row: int, bit: np.uint64, most: int) -> int:
    """Search breadth-first from a cell within a board, for at most `most` steps.

    Leave in OPEN the cells not reached and in FRONT those reached last; return the distance of the latter.
    """
    board = load(within)
    start = one_cell(board, row, bit)
    left, front, level = _flood(board ^ start, start, most)
    store(boards[OPEN], left)
    store(boards[FRONT], front)
    return level


@inner_kernel
def _search_all(
    boards: Words, levels: Words, sizes: NDArray[np.int64], within: Words, row: int, bit: np.uint64
) -> int:
    """Search from a cell within a board until no cell is left to reach.

    Set levels[d] and sizes[d] to the cells at distance d and to their number; return the last d.
    """
    left, level = load(within), 0
    front = one_cell(left, row, bit)
    left = left ^ front
    sizes[0] = 1
    store(levels[0], front)
    while True:
        front = next_to(front) & left
        if not any_bit(front):
            return level
        left = left ^ front
        level += 1
        sizes[level] = count_in(front)
        store(levels[level], front)


@inner_kernel
def _draw_layout(boards: Words, stream: NDArray[np.uint64], rows: int, columns: int, walls: int) -> None:
    """Set FREE to the cells of a uniformly drawn layout with that number of walls.

    First, each cell becomes a wall independently, with a probability in 32nds, whole words at a time. Given the
    number of walls, every set of walls is equally likely. Then uniformly drawn cells are flipped to correct the number.
    """
    cells = rows * columns
    share = (2 * walls * (1 << _SHARE_BITS) + cells) // (2 * cells)
    share = min(share, (1 << _SHARE_BITS) - 1)
    mask = U0 - U1 if columns == 64 else (U1 << np.uint64(columns)) - U1
    left, bits, count = 0, U0, U0
    lanes, place = boards.shape[1], place_of(stream)
    for row in range(rows):
        if left == 0:
            bits, left = U0, 64 // columns
            started = False
            for digit in range(_SHARE_BITS):
                if share >> digit & 1:
                    word, place = word_at(stream, place)
                    bits |= word
                    started = True
                elif started:
                    word, place = word_at(stream, place)
                    bits &= word
        boards[FREE, lane_of(row, lanes)] = mask & ~bits
        count += count_bits(mask & bits)
        left -= 1
        if left > 0:
            bits >>= np.uint64(columns)
    wanted, many, across = np.uint64(walls), np.uint64(cells), np.uint64(columns)
    changed = U0 if count < wanted else U1  # the bit of a cell that must not change
    missing = wanted - count if count < wanted else count - wanted
    # cell // across without a division: there are at most 4,096 cells
    inverse = (U1 << _INVERSE_BITS) // across + U1
    while missing != U0:  # without a branch on the cell, which would be unpredictable
        cell, place = bounded_at(stream, place, many)
        row = cell * inverse >> _INVERSE_BITS
        column = cell - row * across
        lane = lane_of(np.int64(row), lanes)
        word = np.uint64(boards[FREE, lane])
        change = (word >> column ^ changed) & U1
        boards[FREE, lane] = word ^ change << column
        missing -= change
    leave_at(stream, place)


@inner_kernel(forceinline=True)
def _find_central(words: Words, rows: int, columns: int) -> tuple[int, np.uint64]:
    """Return a cell of a nonempty board: in the nonempty row nearest the middle, near the middle column if possible."""
    middle, half = np.uint64((rows - 1) // 2), np.uint64(columns // 2)
    filled = rows_of(load(words))
    after = lowest_bit(filled >> middle | _LAST_BIT)
    before = zeros_above(filled << (np.uint64(63) - middle))
    row = np.int64(middle + after if after <= before else middle - before)
    word = np.uint64(words[lane_of(row, words.shape[0])])
    right = word >> half << half
    word = right if right != U0 else word
    return row, word & (U0 - word)


@kernel
def _first(words: Words, rows: int) -> tuple[int, np.uint64]:
    """Return the first cell of a nonempty board."""
    row, lanes = 0, words.shape[0]
    while row < rows - 1 and words[lane_of(row, lanes)] == U0:
        row += 1
    word = np.uint64(words[lane_of(row, lanes)])
    return row, word & (U0 - word)


@inner_kernel
def _bound_pairs(sizes: NDArray[np.int64], last: int, min_path: int) -> int:
    """Return an upper bound of the number of long pairs: two cells are at most as far apart as through the centre."""
    if 2 * last < min_path:
        return 0
    total, beyond, level = 0, 0, last
    for near in range(last + 1):  # beyond: the cells at least min_path - near from the centre
        while level >= 0 and level >= min_path - near:
            beyond += sizes[level]
            level -= 1
        total += sizes[near] * beyond
    return total


@inner_kernel
def _find_middle(boards: Words, row: int, bit: np.uint64, rows: int, cells: int) -> tuple[int, np.uint64]:
    """Return a cell halfway between a cell and the farthest cell from it, in COMPONENT."""
    last = _search(boards, boards[COMPONENT], row, bit, cells)
    far_row, far_bit = _first(boards[FRONT], rows)
    _search(boards, boards[COMPONENT], row, bit, last // 2)
    for lane in range(boards.shape[1]):  # a slice assignment takes long to compile
        boards[HALFWAY, lane] = boards[FRONT, lane]
    _search(boards, boards[COMPONENT], far_row, far_bit, last - last // 2)
    store(boards[HALFWAY], load(boards[HALFWAY]) & load(boards[FRONT]))
    return _first(boards[HALFWAY], rows)


@inner_kernel
def _take_component(boards: Words, row: int, bit: np.uint64, cells: int) -> None:
    """Set COMPONENT to the cells of FREE that are connected to a cell."""
    _search(boards, boards[FREE], row, bit, cells)
    store(boards[COMPONENT], load(boards[FREE]) ^ load(boards[OPEN]))


@inner_kernel
def _weigh_component(
    boards: Words,
    levels: Words,
    sizes: NDArray[np.int64],
    sources: NDArray[np.int64],
    listed: int,
    rows: int,
    cells: int,
    min_path: int,
    total: int,
    bound: int,
    needed: int,
) -> tuple[int, int]:
    """Count the long pairs of COMPONENT exactly, or stop if the total falls below `needed`.

    `total` bounds the long pairs of all components, of which `bound` belong to this one. A long pair has at
    least one rim cell, at a distance of at least half of min_path from the centre: only these are sources. A
    pair of two rim cells is found from both, so it counts once; a pair with another cell counts for both
    orders. Add to RIM, and list (cell, count) for each source; return the new total and the length of the list.
    """
    row, bit = _first(boards[COMPONENT], rows)
    row, bit = _find_middle(boards, row, bit, rows, cells)
    last = _search_all(boards, levels, sizes, boards[COMPONENT], row, bit)
    total += _bound_pairs(sizes, last, min_path) - bound
    rim = (min_path + 1) // 2
    if total < needed or last < rim:
        return total, listed
    edge = load(boards[RIM])
    for level in range(rim, last + 1):
        edge = edge | load(levels[level])
    store(boards[RIM], edge)
    for level in range(last, rim - 1, -1):
        allowed = 0  # upper bound of the count of a source of this level
        for other in range(max(0, min_path - level), last + 1):
            allowed += sizes[other] if other >= rim else 2 * sizes[other]
        for r in range(rows):
            word = np.uint64(levels[level, lane_of(r, boards.shape[1])])
            while word != U0:
                bit = word & (U0 - word)
                word ^= bit
                count = 0
                if _search(boards, boards[COMPONENT], r, bit, min_path - 1) == min_path - 1:
                    far = load(boards[OPEN])
                    count = 2 * count_in(far) - count_in(far & edge)
                total += count - allowed
                if total < needed:
                    return total, listed
                if count > 0:
                    sources[listed, 0] = r
                    sources[listed, 1] = np.int64(lowest_bit(bit))
                    sources[listed, 2] = count
                    listed += 1
    return total, listed


@inner_kernel
def _may_reach(
    boards: Words,
    levels: Words,
    sizes: NDArray[np.int64],
    rows: int,
    columns: int,
    free: int,
    min_path: int,
    needed: int,
) -> bool:
    """Return whether an upper bound of the long pairs of the layout in FREE is at least `needed`, which is rare.

    Look at one component after another, and skip most pockets. Removing dead ends several times keeps some
    cells only of components with a path of twice as many cells, so pockets have no cells left.
    """
    rest = load(boards[FREE])
    core = rest
    for _ in range(min(_ROUNDS, min_path // 2)):
        core = without_ends(core)
    total, left = 0, free
    # From a cell of a component of n cells, at least min_path of them (itself too) are nearer than min_path.
    while left > min_path and total + left * (left - min_path) >= needed and any_bit(core):
        store(boards[CORE], core)
        row, bit = _find_central(boards[CORE], rows, columns)
        start = one_cell(rest, row, bit)
        unseen, _, level = _flood(rest ^ start, start, rows * columns)
        if 2 * level >= min_path:
            store(boards[REST], rest)
            last = _search_all(boards, levels, sizes, boards[REST], row, bit)
            total += _bound_pairs(sizes, last, min_path)
            if total >= needed:
                return True
        rest = unseen
        core = core & rest
        left = count_in(rest)
    return False


@inner_kernel
def _weigh(
    boards: Words,
    levels: Words,
    sizes: NDArray[np.int64],
    centres: NDArray[np.int64],
    sources: NDArray[np.int64],
    rows: int,
    columns: int,
    free: int,
    min_path: int,
    needed: int,
) -> tuple[int, int]:
    """Return the number of long pairs of the layout in FREE if it is at least `needed`, else a smaller number.

    Also return the number of listed sources, whose counts add up to it.
    """
    if not _may_reach(boards, levels, sizes, rows, columns, free, min_path, needed):
        return 0, 0
    cells = rows * columns
    total, components, left = 0, 0, free
    for lane in range(boards.shape[1]):
        boards[REST, lane] = boards[FREE, lane]
    boards[RIM] = 0
    # From a cell of a component of n cells, at least min_path of them (itself too) are nearer than min_path.
    while left > min_path and total + left * (left - min_path) >= needed:
        row, bit = _find_central(boards[REST], rows, columns)
        if 2 * _search(boards, boards[REST], row, bit, cells) >= min_path:
            last = _search_all(boards, levels, sizes, boards[REST], row, bit)
            bound = _bound_pairs(sizes, last, min_path)
            if bound > 0:
                centres[components, 0] = row
                centres[components, 1] = np.int64(lowest_bit(bit))
                centres[components, 2] = bound
                components += 1
                total += bound
        rest = load(boards[OPEN])
        store(boards[REST], rest)
        left = count_in(rest)
    listed = np.int64(0)
    for i in range(components):
        if total < needed:
            break
        _take_component(boards, centres[i, 0], U1 << np.uint64(centres[i, 1]), cells)
        total, listed = _weigh_component(
            boards, levels, sizes, sources, listed, rows, cells, min_path, total, centres[i, 2], needed
        )
    return total, listed


@inner_kernel
def _write_maze(
    boards: Words,
    sources: NDArray[np.int64],
    stream: NDArray[np.uint64],
    rows: int,
    columns: int,
    min_path: int,
    total: int,
    maze: NDArray[np.uint8],
) -> None:
    """Write the layout in FREE with one of its long pairs, drawn uniformly."""
    number, lanes = np.int64(next_bounded(stream, np.uint64(total))), boards.shape[1]
    source = 0
    while number >= sources[source, 2]:
        number -= sources[source, 2]
        source += 1
    row, column = sources[source, 0], sources[source, 1]
    _take_component(boards, row, U1 << np.uint64(column), rows * columns)
    _search(boards, boards[COMPONENT], row, U1 << np.uint64(column), min_path - 1)
    for r in range(rows):
        for c in range(columns):
            free = np.uint64(boards[FREE, lane_of(r, lanes)]) >> np.uint64(c) & U1 != U0
            maze[r * columns + c] = MAZE_FREE if free else MAZE_WALL
    start = row * columns + column
    for r in range(rows):
        far = np.uint64(boards[OPEN, lane_of(r, lanes)])
        while far != U0:
            goal = r * columns + np.int64(lowest_bit(far))
            # A pair of rim cells is also found from the other cell; another pair counts here for both orders.
            orders = 1 if np.uint64(boards[RIM, lane_of(r, lanes)]) >> lowest_bit(far) & U1 != U0 else 2
            if number < orders:
                maze[goal if number == 1 else start] = MAZE_START
                maze[start if number == 1 else goal] = MAZE_GOAL
                return
            number -= orders
            far &= far - U1


@kernel
def find_largest_share(
    boards: Words,
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
    """Return the largest share of long pairs among a number of layouts, or the first share of at least `enough`."""
    levels = np.empty((rows * columns, boards.shape[1]), boards.dtype)
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


@kernel
def generate_many(
    boards: Words,
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
    """Fill mazes [N, S] with those numbered from `start`, and shares [N] with the share of their pairs that are long.

    A layout is accepted with probability min(1, scale * share). Return the number of mazes written: less than
    N if `most_layouts` layouts gave no maze.
    """
    levels = np.empty((rows * columns, boards.shape[1]), boards.dtype)
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
            # Accepted if scale * long pairs > drawn; drawn first, so that a cheap bound rejects most layouts.
            drawn = next_bounded(stream, np.uint64(free * (free - 1)))
            needed = np.int64(drawn) // scale + 1
            _draw_layout(boards, stream, rows, columns, walls)
            total, _ = _weigh(boards, levels, sizes, centres, sources, rows, columns, free, min_path, needed)
            found = total >= needed
        shares[i] = total / (free * (free - 1))
        _write_maze(boards, sources, stream, rows, columns, min_path, total, mazes[i])
    return mazes.shape[0]
