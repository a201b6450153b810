"""The Sudoku generator's compiled core: a random full grid, then clues removed in random order.

Input: seed, stream and the range of puzzle numbers. Output: puzzles and solutions, written in place.
Neighbours: wrapped by `kinds.sudoku.generate`; searches with `kinds.sudoku.solve_kernels`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import inner_kernel, kernel
from trm_data.kinds.sudoku.propagation import load_clues
from trm_data.kinds.sudoku.solve import Tables
from trm_data.kinds.sudoku.solve_kernels import (
    FIRST_CELL,
    FOUND,
    GUESSES,
    HIT,
    PAIR,
    PLANES,
    RANDOM_CELL,
    search,
    store_solution,
)
from trm_data.seeds.draws import Purpose
from trm_data.seeds.kernels import STREAM_WORDS, U0, U1, next_bounded, next_word, open_stream, shuffle

_GENERATE = int(Purpose.GENERATE)
_FILL_GUESSES = 1000


@inner_kernel
def _start_grid(
    grid: NDArray[np.uint8],
    digits: NDArray[np.int64],
    stream: NDArray[np.uint64],
    box_rows: int,
    box_columns: int,
) -> None:
    """Start a blank grid with random boxes on the diagonal, which share no row, column or box, so any content fits."""
    side = box_rows * box_columns
    for cell in range(side * side):
        grid[cell] = 0
    for box in range(box_rows):
        for i in range(side):
            digits[i] = i + 1
        shuffle(stream, digits)
        for i in range(side):
            row = box * box_rows + i // box_columns
            grid[row * side + box * box_columns + i % box_columns] = digits[i]


@kernel
def generate_many(
    seed: np.uint64,
    stream_number: np.uint64,
    start: int,
    shrink: NDArray[np.uint8],
    row_cells: NDArray[np.uint64],
    column_pairs: NDArray[np.uint16],
    row_matchings: NDArray[np.uint8],
    column_matchings: NDArray[np.uint8],
    box_rows: int,
    box_columns: int,
    node_limit: int,
    puzzles: NDArray[np.uint8],
    solutions: NDArray[np.uint8],
) -> None:
    """Fill puzzles and solutions [N, S] with the puzzles numbered from `start`; boxes of R <= C.

    `node_limit` limits each test of uniqueness: if it is reached, the clue stays.
    """
    side = box_rows * box_columns
    cells = side * side
    stack = np.empty((cells + 1, side * box_columns + box_columns + 1), np.uint64)
    scratch = np.empty(box_columns * (PLANES + 2), np.uint64)
    first = np.empty(side * box_columns, np.uint64)
    info = np.empty(3, np.int64)
    stream = np.empty(STREAM_WORDS, np.uint64)
    digits = np.empty(side, np.int64)
    order = np.empty(cells, np.int64)
    all_digits = (U1 << np.uint64(side)) - U1
    for i in range(puzzles.shape[0]):
        puzzle, solution = puzzles[i], solutions[i]
        open_stream(stream, seed, _GENERATE, start + i, stream_number)
        info[FOUND] = 0
        while info[FOUND] == 0:  # a long search is aborted and redrawn
            _start_grid(solution, digits, stream, box_rows, box_columns)
            load_clues(stack[0], solution, box_rows, box_columns)
            search(
                stack, all_digits, shrink, row_cells, column_pairs, row_matchings, column_matchings, scratch,
                box_rows, box_columns, np.int64(1), np.int64(_FILL_GUESSES), np.int64(RANDOM_CELL), stream, first, info,
            )  # fmt: skip
        store_solution(first, solution, box_rows, box_columns)
        for cell in range(cells):
            order[cell] = cell
            puzzle[cell] = solution[cell]
        shuffle(stream, order)
        done, step = 0, cells // 2
        # Several clues are tried at once while that works. The result is that of one at a time, because a puzzle that
        # is unique without all of them is unique without some of them.
        while done < cells:
            step = min(step, cells - done)
            for j in range(done, done + step):
                puzzle[order[j]] = 0
            load_clues(stack[0], puzzle, box_rows, box_columns)
            limit = 2
            if step == 1:  # unique if and only if no solution has another digit in the cell
                limit = 1
                cell = order[done]
                band, bit = cell // (box_rows * side), cell % (box_rows * side)
                stack[0, (solution[cell] - 1) * box_columns + band] &= ~(U1 << np.uint64(bit))
            search(
                stack, all_digits, shrink, row_cells, column_pairs, row_matchings, column_matchings, scratch,
                box_rows, box_columns, np.int64(limit), node_limit, np.int64(FIRST_CELL), stream, first, info,
            )  # fmt: skip
            if info[FOUND] < limit and info[HIT] == 0:
                done += step
                continue
            for j in range(done, done + step):
                puzzle[order[j]] = solution[order[j]]
            if step == 1:
                done += 1
            else:
                step = (step + 1) // 2 if step > 3 else 1


_HARDEN = int(Purpose.HARDEN)
_R = 3
_CELLS = 81
_ALL_DIGITS = np.uint64(511)
_MOST_ADDED = 4  # clues that a step adds
_NEAR = 20  # a walk ends within 1 / 20 of the wanted rating
_WORST_LOSS = 30  # percent of the progress that a step may lose
_FEWEST_CLUES = 24  # no step below; the hard puzzles of Sudoku-Extreme have about 24
_GRIDS = 4
_STEPS = 4000
_SETS = 512
_ANY = 1 << 40
_BLOCKS = 1 << 62  # puzzle numbers are below, the draws of their blocks above


class Images(NamedTuple):
    """The images of a puzzle over which its rating counts guesses.

    Image i has digits[i, puzzle[cells[i, j]]] in cell j; its count ends at `guess_limit`.

    cells: int64[8, 81]. digits: uint8[8, 10], 0 for a blank.
    """

    cells: NDArray[np.int64]
    digits: NDArray[np.uint8]
    guess_limit: int


class Work(NamedTuple):
    """The arrays of a walk: those of `search`, and its own.

    order: int64[81], the cells, in the order in which clues are tried.
    grid: uint8[81], an image.
    solution: uint64[31], the words of the solved state.
    other: uint64[3], the cells of each band in which another solution differs.
    sets: uint64[2, _SETS], sets of cells of which one must be a clue; cell c is bit c % 64 of sets[c // 64].
    sets_found: int64[1], number of sets written; the newest replace the oldest.
    """

    stack: NDArray[np.uint64]
    scratch: NDArray[np.uint64]
    stream: NDArray[np.uint64]
    first: NDArray[np.uint64]
    info: NDArray[np.int64]
    order: NDArray[np.int64]
    grid: NDArray[np.uint8]
    solution: NDArray[np.uint64]
    other: NDArray[np.uint64]
    sets: NDArray[np.uint64]
    sets_found: NDArray[np.int64]


@inner_kernel
def _search_one(branching: int, guess_limit: int, work: Work, tables: Tables) -> None:
    """Search one solution of the state work.stack[0]."""
    search(
        work.stack, _ALL_DIGITS, tables.shrink, tables.row_cells, tables.column_pairs, tables.row_matchings,
        tables.column_matchings, work.scratch, _R, _R, 1, guess_limit, branching, work.stream, work.first,
        work.info,
    )  # fmt: skip


@inner_kernel
def _count_guesses(
    puzzle: NDArray[np.uint8], least: int, most: int, images: Images, work: Work, tables: Tables
) -> int:
    """Return the guesses over all images, which is the rating before division.

    If they exceed `most`, return some number above it. If the first images have less than half of their share of
    `least`, return some number below that.
    """
    total, count = 0, images.cells.shape[0]
    for i in range(count):
        for j in range(_CELLS):
            work.grid[j] = images.digits[i, puzzle[images.cells[i, j]]]
        load_clues(work.stack[0], work.grid, _R, _R)
        _search_one(PAIR, images.guess_limit, work, tables)
        total += work.info[GUESSES]
        if total > most or 2 * count * total < least * (i + 1):
            break
    return total


@inner_kernel
def _find_needed(clues: tuple[np.uint64, np.uint64], work: Work) -> tuple[np.uint64, np.uint64]:
    """Return the clues that are the only clue of a known set; cells are bits of two words."""
    low, high = U0, U0
    for i in range(min(work.sets_found[0], _SETS)):  # without branches, so that it is vectorized
        in_low, in_high = work.sets[0, i] & clues[0], work.sets[1, i] & clues[1]
        low |= in_low if (in_low & (in_low - U1)) | in_high == U0 else U0
        high |= in_high if (in_high & (in_high - U1)) | in_low == U0 else U0
    return low, high


@inner_kernel
def _is_needed(
    puzzle: NDArray[np.uint8], solution: NDArray[np.uint8], cell: int, work: Work, tables: Tables
) -> bool:
    """Return whether the puzzle without `cell` has a solution with another digit there; record where it differs."""
    load_clues(work.stack[0], puzzle, _R, _R)
    word = (np.int64(solution[cell]) - 1) * _R + cell // 27
    work.stack[0, word] &= ~(U1 << np.uint64(cell % 27))
    _search_one(FIRST_CELL, 0, work, tables)
    if work.info[FOUND] == 0:
        return False
    place = work.sets_found[0] % _SETS
    work.sets_found[0] += 1
    other = work.other
    for band in range(_R):
        other[band] = U0
        for digit in range(_R * _R):
            other[band] |= work.first[digit * _R + band] & ~work.solution[digit * _R + band]
    work.sets[0, place] = other[0] | other[1] << np.uint64(27) | other[2] << np.uint64(54)
    work.sets[1, place] = other[2] >> np.uint64(10)
    return True


@inner_kernel
def _exchange(puzzle: NDArray[np.uint8], solution: NDArray[np.uint8], work: Work, tables: Tables) -> None:
    """Add random clues to a minimal puzzle, then remove clues in random order, the added ones last.

    Each clue is removed if the solution stays unique, so the puzzle is minimal again.
    """
    order = work.order
    shuffle(work.stream, order)
    added, first_added = 1 + np.int64(next_bounded(work.stream, np.uint64(_MOST_ADDED))), _CELLS
    low, high = U0, U0
    for i in range(_CELLS - 1, -1, -1):
        cell = order[i]
        if puzzle[cell] == 0 and _CELLS - first_added < added:
            puzzle[cell] = solution[cell]
            first_added -= 1
            order[i], order[first_added] = order[first_added], cell
        if puzzle[cell] != 0 and cell < 64:
            low |= U1 << np.uint64(cell)
        elif puzzle[cell] != 0:
            high |= U1 << np.uint64(cell - 64)
    needed = _find_needed((low, high), work)
    for i in range(_CELLS):
        cell = order[i]
        if puzzle[cell] == 0 or (needed[cell // 64] >> np.uint64(cell % 64)) & U1 != U0:
            continue
        puzzle[cell] = 0
        if _is_needed(puzzle, solution, cell, work, tables):
            puzzle[cell] = solution[cell]
            continue
        if cell < 64:
            low ^= U1 << np.uint64(cell)
        else:
            high ^= U1 << np.uint64(cell - 64)
        needed = _find_needed((low, high), work)


@kernel
def _walk(
    puzzle: NDArray[np.uint8],
    solution: NDArray[np.uint8],
    wanted: int,
    images: Images,
    work: Work,
    tables: Tables,
) -> int:
    """Change a minimal puzzle in place until it has about `wanted` guesses; return how many it has.

    A step away from `wanted` is accepted if it loses at most a share of the progress; the share is drawn for each
    step.
    """
    trial = np.empty(_CELLS, np.uint8)
    for i in range(_CELLS):
        work.order[i] = i
    work.sets_found[0] = 0
    load_clues(work.solution, solution, _R, _R)
    guesses = _count_guesses(puzzle, 0, _ANY, images, work, tables)
    for _ in range(_STEPS):
        score = wanted - abs(guesses - wanted)
        if wanted - score <= wanted // _NEAR:
            break
        trial[:] = puzzle
        _exchange(trial, solution, work, tables)
        clues = np.count_nonzero(trial)
        if (trial == puzzle).all() or (clues < _FEWEST_CLUES and clues < np.count_nonzero(puzzle)):
            continue
        percent = np.int64(next_bounded(work.stream, np.uint64(_WORST_LOSS + 1)))
        least = score - max(score, 0) * percent // 100
        count = _count_guesses(trial, least, 2 * wanted - least, images, work, tables)
        if least <= count <= 2 * wanted - least:
            guesses = count
            puzzle[:] = trial
    return guesses


@kernel
def harden_many(
    seed: np.uint64,
    stream_number: np.uint64,
    start: int,
    quantiles: NDArray[np.int64],
    images: Images,
    tables: Tables,
    puzzles: NDArray[np.uint8],
    solutions: NDArray[np.uint8],
    guesses: NDArray[np.int64],
) -> None:
    """Fill puzzles and solutions [N, 81] with those numbered from `start`, and guesses [N] over all images.

    `quantiles` are those of the wanted guesses over all images, at P + 1 equidistant probabilities from 0 to 1. In
    a block of P puzzles (from a multiple of P) one is drawn from each part, in random order. If `_STEPS` steps on
    each of `_GRIDS` grids do not come near the drawn number, the nearest final puzzle is used.
    """
    work = Work(
        np.empty((_CELLS + 1, 31), np.uint64), np.empty(_R * (PLANES + 2), np.uint64),
        np.empty(STREAM_WORDS, np.uint64), np.empty(27, np.uint64), np.empty(3, np.int64),
        np.empty(_CELLS, np.int64), np.empty(_CELLS, np.uint8), np.empty(31, np.uint64),
        np.empty(_R, np.uint64), np.empty((2, _SETS), np.uint64),
        np.empty(1, np.int64),
    )  # fmt: skip
    puzzle, solution = np.empty((1, _CELLS), np.uint8), np.empty((1, _CELLS), np.uint8)
    parts = quantiles.shape[0] - 1
    part_order = np.empty(parts, np.int64)
    for i in range(puzzles.shape[0]):
        number = start + i
        for j in range(parts):
            part_order[j] = j
        open_stream(work.stream, seed, _HARDEN, _BLOCKS + number // parts, stream_number)
        shuffle(work.stream, part_order)
        part = part_order[number % parts]
        open_stream(work.stream, seed, _HARDEN, number, stream_number)
        width = quantiles[part + 1] - quantiles[part] + 1
        wanted = quantiles[part] + np.int64(next_bounded(work.stream, np.uint64(width)))
        guesses[i] = _ANY
        for _ in range(_GRIDS):
            generate_many(  # with a seed and a stream number drawn from this puzzle's own stream
                next_word(work.stream), next_word(work.stream), 0, tables.shrink, tables.row_cells,
                tables.column_pairs, tables.row_matchings, tables.column_matchings, _R, _R, 0,
                puzzle, solution,
            )  # fmt: skip
            count = _walk(puzzle[0], solution[0], wanted, images, work, tables)
            if abs(count - wanted) < abs(guesses[i] - wanted):
                puzzles[i], solutions[i], guesses[i] = puzzle[0], solution[0], count
            if abs(count - wanted) <= wanted // _NEAR:
                break
