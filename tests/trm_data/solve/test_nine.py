"""Propagation of all digits at once equals propagation one digit after another."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.nine import find_fewest_matchings, load_clues_nine, propagate_nine
from trm_data.kinds.sudoku.propagation import load_clues_any, propagate_any
from trm_data.kinds.sudoku.solve import make_tables, solve
from trm_data.kinds.sudoku.solve_kernels import _find_fewest_matchings
from trm_data.seeds.kernels import U0

WORDS, PLACED = 27, 30
ALL_DIGITS, ALL_BITS = np.uint64(0x1FF), ~U0
State = NDArray[np.uint64]


def _loaded(puzzle: NDArray[np.uint8]) -> State:
    state = np.zeros(PLACED + 1, np.uint64)
    load_clues_any(state, puzzle, 3, 3)
    return state


def _one_after_the_other(state: State, word: int, kept: np.uint64) -> State | None:
    tables, scratch = make_tables(3, 3), np.empty(21, np.uint64)
    result = state.copy()
    result[word] &= kept
    possible = propagate_any(
        result, ALL_DIGITS, tables.shrink, tables.row_cells, tables.column_pairs, scratch, 3, 3
    )
    return result if possible else None


def _open_words(state: State) -> list[int]:
    """Return the words of digits that still have a choice."""
    return [word for word in range(WORDS) if int(state[word]).bit_count() > 3]


def test_the_fixed_point_is_the_same_wherever_a_search_may_go() -> None:
    puzzles, _ = generate(5, 1, 0, 60, 3, 3)
    rng = np.random.default_rng(1)
    reached = impossible = 0
    for puzzle in puzzles:
        puzzle[rng.integers(0, 81, 12)] = 0  # to require more guesses
        state, word, kept = _loaded(puzzle), 0, ALL_BITS
        while True:
            expected = _one_after_the_other(state, word, kept)
            before, result = state.copy(), np.full_like(state, 7)
            assert propagate_nine(state, result, word, kept) == (expected is not None)
            np.testing.assert_array_equal(state, before)
            if expected is None:
                assert (result == 7).all()
                impossible += 1
                break
            np.testing.assert_array_equal(result[:PLACED], expected[:PLACED])
            assert result[PLACED] == 7  # belongs to the search
            reached += 1
            tables = make_tables(3, 3)
            state = expected
            if not (words := _open_words(state)):
                break
            assert find_fewest_matchings(state) == _find_fewest_matchings(
                state, tables.shrink, tables.row_matchings, tables.column_matchings, 3, 3
            )
            word = int(rng.choice(words))
            bit = int(rng.choice([bit for bit in range(27) if int(state[word]) >> bit & 1]))
            row = 0o777 << 9 * (bit // 9)
            excluded = ALL_BITS ^ np.uint64(1 << bit)
            kept = excluded if rng.random() < 0.5 else np.uint64(1 << bit) | ~np.uint64(row)
    assert reached > 300
    assert impossible > 10


def test_a_state_may_be_its_own_result() -> None:
    state = _loaded(generate(5, 1, 0, 1, 3, 3)[0][0])
    expected = _one_after_the_other(state, 0, ALL_BITS)
    assert expected is not None
    assert propagate_nine(state, state, 0, ALL_BITS)
    np.testing.assert_array_equal(state, expected)


def _all_candidates() -> State:
    return np.array([(1 << 27) - 1] * WORDS + [0] * (PLACED + 1 - WORDS), np.uint64)


def _refused(state: State) -> bool:
    by_tables = _one_after_the_other(state, 0, ALL_BITS) is None
    return by_tables and not propagate_nine(state, state.copy(), 0, ALL_BITS)


def test_two_digits_that_have_only_one_cell_of_a_row_are_refused() -> None:
    state = _all_candidates()
    state[[0, 3]] &= ~np.uint64(0o776)  # all of the first row except its first cell
    assert _refused(state)


def test_two_cells_of_a_row_that_have_only_one_digit_are_refused() -> None:
    state = _all_candidates()
    state[3:WORDS:3] &= ~np.uint64(0o003)  # the first two cells have only the first digit
    assert _refused(state)


def test_a_cell_without_digits_is_refused() -> None:
    state = _all_candidates()
    state[0:WORDS:3] &= ~np.uint64(0o001)
    assert _refused(state)


def test_a_digit_without_cells_in_a_row_is_refused() -> None:
    state = _all_candidates()
    state[4] &= ~np.uint64(0o777)
    assert _refused(state)


@pytest.mark.parametrize("seed", range(5))
def test_clues_are_loaded_as_one_after_the_other(seed: int) -> None:
    puzzle = generate(seed, 1, 0, 1, 3, 3)[0][0]
    around = np.full(81 + 64, 9, np.uint8)  # memory around a grid must not matter
    around[32 : 32 + 81] = puzzle
    state = np.full(PLACED + 1, 7, np.uint64)
    load_clues_nine(state, around[32 : 32 + 81])
    np.testing.assert_array_equal(state[:PLACED], _loaded(puzzle)[:PLACED])
    assert state[PLACED] == 7


def test_clues_that_contradict_each_other_have_no_solution() -> None:
    puzzle = generate(5, 1, 0, 1, 3, 3)[0][0]
    for cells in ((0, 8), (0, 72), (0, 20)):  # in a row, a column, a box
        wrong = puzzle.copy()
        wrong[list(cells)] = 5
        found = solve(wrong[None], 3, 3)
        assert found.counts[0] == 0
        assert found.guesses[0] == 0
