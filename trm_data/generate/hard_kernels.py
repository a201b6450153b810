"""The walk of the hard Sudoku generator, compiled: swaps clues of a minimal puzzle until its rating fits.

Input: seed, stream, puzzle numbers, the wanted ratings' quantiles, the images that `solve.sudoku.rate` counts
over. Output: puzzles and solutions, written in place.
Neighbours: wrapped by `generate.hard`; starts from `generate.kernels`, searches with `solve.kernels`.

A set of cells in which another grid differs from the solution has to hold a clue. Every search that shows a
clue to be needed finds one such set; a walk keeps them, so most clues are known to be needed without a search.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba decides the types of kernels; their annotations are for readers)
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trm_data.generate.kernels import generate_many
from trm_data.seeds import Purpose
from trm_data.seeds_kernels import STREAM_WORDS, U0, U1, next_bounded, next_word, open_stream, shuffle
from trm_data.solve.branching import PLANES
from trm_data.solve.kernels import FIRST_CELL, FOUND, GUESSES, PAIR, search, store_solution
from trm_data.solve.propagation import load_clues
from trm_data.solve.tables import Tables

_HARDEN = int(Purpose.HARDEN)
_R = 3
_S = 81
_ALL_DIGITS = np.uint64(511)
_MOST_ADDED = 3
_SETS = 1024
_FRACTION = float(1 << 53)


class Work(NamedTuple):
    """Arrays that the steps of a walk share.

    stack, scratch, first, info: of `search`.
    stream: of the puzzle's draw.
    order: int64[81], cells in the order in which clues are tried.
    grid: uint8[81], for other grids and images.
    sets: uint64[_SETS, 2], cells 0..63 and 64..80 of sets that must hold a clue.
    sets_made: int64[1], how many were ever written; the oldest are overwritten.
    """

    stack: NDArray[np.uint64]
    scratch: NDArray[np.uint64]
    first: NDArray[np.uint64]
    info: NDArray[np.int64]
    stream: NDArray[np.uint64]
    order: NDArray[np.int64]
    grid: NDArray[np.uint8]
    sets: NDArray[np.uint64]
    sets_made: NDArray[np.int64]


@njit(cache=True, nogil=True)
def _search(work: Work, tables: Tables, guesses: int, branching: int) -> None:
    """`search` for one solution of what is loaded in work.stack[0]."""
    search(
        work.stack, _ALL_DIGITS, tables.shrink, tables.row_cells, tables.column_pairs, tables.row_matchings,
        tables.column_matchings, work.scratch, _R, _R, 1, guesses, branching, work.stream, work.first, work.info,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def count_guesses(
    puzzle: NDArray[np.uint8],
    cells: NDArray[np.int64],
    digits: NDArray[np.uint8],
    guess_limit: int,
    most: int,
    work: Work,
    tables: Tables,
) -> int:
    """The guesses of all images of a puzzle, or some number above `most` if they are more.

    Image i has digits[i, puzzle[cells[i, j]]] in cell j.
    """
    total = 0
    for i in range(cells.shape[0]):
        for j in range(_S):
            work.grid[j] = digits[i, puzzle[cells[i, j]]]
        load_clues(work.stack[0], work.grid, _R, _R)
        _search(work, tables, guess_limit, PAIR)
        total += work.info[GUESSES]
        if total > most:
            break
    return total


@njit(cache=True, nogil=True)
def _find_needed(clues: tuple[np.uint64, np.uint64], work: Work) -> tuple[np.uint64, np.uint64]:
    """The clues that are the only one in some known set."""
    low, high = U0, U0
    for i in range(min(work.sets_made[0], _SETS)):
        in_low, in_high = work.sets[i, 0] & clues[0], work.sets[i, 1] & clues[1]
        if in_high == U0 and in_low & (in_low - U1) == U0:
            low |= in_low
        if in_low == U0 and in_high & (in_high - U1) == U0:
            high |= in_high
    return low, high


@njit(cache=True, nogil=True)
def _is_needed(
    puzzle: NDArray[np.uint8], solution: NDArray[np.uint8], cell: int, work: Work, tables: Tables
) -> bool:
    """Whether a puzzle, blank in `cell`, has a solution with another digit there; its set is then kept."""
    load_clues(work.stack[0], puzzle, _R, _R)
    word = (np.int64(solution[cell]) - 1) * _R + cell // 27
    work.stack[0, word] &= ~(U1 << np.uint64(cell % 27))
    _search(work, tables, 0, FIRST_CELL)
    if work.info[FOUND] == 0:
        return False
    store_solution(work.first, work.grid, _R, _R)
    place = work.sets_made[0] % _SETS
    work.sets_made[0] += 1
    work.sets[place] = U0
    for i in range(_S):
        if work.grid[i] != solution[i]:
            work.sets[place, i // 64] |= U1 << np.uint64(i % 64)
    return True


@njit(cache=True, nogil=True)
def _minimise(puzzle: NDArray[np.uint8], solution: NDArray[np.uint8], work: Work, tables: Tables) -> None:
    """Blanks each clue, in the order of work.order, without which the solution stays the only one."""
    low, high = U0, U0
    for i in range(_S):
        if puzzle[i] != 0 and i < 64:
            low |= U1 << np.uint64(i)
        elif puzzle[i] != 0:
            high |= U1 << np.uint64(i - 64)
    needed = _find_needed((low, high), work)
    for i in range(_S):
        cell = work.order[i]
        if puzzle[cell] == 0 or (needed[cell // 64] >> np.uint64(cell % 64)) & U1 != U0:
            continue
        puzzle[cell] = 0
        if _is_needed(puzzle, solution, cell, work, tables):
            puzzle[cell] = solution[cell]
            continue
        if cell < 64:
            low &= ~(U1 << np.uint64(cell))
        else:
            high &= ~(U1 << np.uint64(cell - 64))
        needed = _find_needed((low, high), work)


@njit(cache=True, nogil=True)
def _swap_clues(puzzle: NDArray[np.uint8], solution: NDArray[np.uint8], work: Work, tables: Tables) -> None:
    """Adds one to three random clues to a minimal puzzle and minimises it, trying the added clues last."""
    shuffle(work.stream, work.order)
    left = 1 + np.int64(next_bounded(work.stream, np.uint64(_MOST_ADDED)))
    last = _S - 1
    for i in range(_S - 1, -1, -1):
        cell = work.order[i]
        if puzzle[cell] == 0 and left > 0:
            puzzle[cell] = solution[cell]
            work.order[i] = work.order[last]
            work.order[last] = cell
            last -= 1
            left -= 1
    _minimise(puzzle, solution, work, tables)


@njit(cache=True, nogil=True)
def harden_many(
    seed: np.uint64,
    stream_number: np.uint64,
    start: int,
    tables: Tables,
    quantiles: NDArray[np.float64],
    cells: NDArray[np.int64],
    digits: NDArray[np.uint8],
    guess_limit: int,
    tolerance: float,
    grids: int,
    steps: int,
    puzzles: NDArray[np.uint8],
    solutions: NDArray[np.uint8],
    log: NDArray[np.int64],
) -> None:
    work = Work(
        np.empty((_S + 1, 31), np.uint64), np.empty(_R * (PLANES + 2), np.uint64), np.empty(27, np.uint64),
        np.empty(3, np.int64), np.empty(STREAM_WORDS, np.uint64), np.arange(_S), np.empty(_S, np.uint8),
        np.empty((_SETS, 2), np.uint64), np.empty(1, np.int64),
    )  # fmt: skip
    current, trial = np.empty((1, _S), np.uint8), np.empty(_S, np.uint8)
    solution = np.empty((1, _S), np.uint8)
    images = cells.shape[0]
    for i in range(puzzles.shape[0]):
        open_stream(work.stream, seed, _HARDEN, start + i, stream_number)
        place = np.float64(next_word(work.stream) >> np.uint64(11)) / _FRACTION * (quantiles.shape[0] - 1)
        below = np.int64(place)
        wanted = quantiles[below] + (quantiles[below + 1] - quantiles[below]) * (place - below)
        wanted = np.int64(np.round(wanted * images))
        near = np.int64(np.round(wanted * tolerance))
        best = 1 << 40
        taken = 0
        log[i, 3] = wanted
        for walk in range(grids):
            generate_many(
                next_word(work.stream), next_word(work.stream), 0, tables.shrink, tables.row_cells,
                tables.column_pairs, tables.row_matchings, tables.column_matchings, _R, _R, 0, current, solution,
            )  # fmt: skip
            for j in range(_S):
                work.order[j] = j
            work.sets_made[0] = 0
            off = abs(count_guesses(current[0], cells, digits, guess_limit, 1 << 40, work, tables) - wanted)
            step = 0
            while off > near and step < steps:
                step += 1
                trial[:] = current[0]
                _swap_clues(trial, solution[0], work, tables)
                same = True
                for j in range(_S):
                    same = same and trial[j] == current[0, j]
                if same:
                    continue
                guesses = count_guesses(trial, cells, digits, guess_limit, wanted + off, work, tables)
                if abs(guesses - wanted) <= off:
                    off = abs(guesses - wanted)
                    current[0] = trial
            taken += step
            if off < best:
                best = off
                puzzles[i] = current[0]
                solutions[i] = solution[0]
            if off <= near:
                break
        log[i, 0] = walk
        log[i, 1] = taken
        log[i, 2] = best
