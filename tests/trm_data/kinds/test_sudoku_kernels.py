"""Propagation of all digits at once equals propagation one digit after another.

The solver against brute force, public-domain puzzles, and the lists next to the checkout if present.
"""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.nine import find_fewest_matchings, load_clues_nine, propagate_nine
from trm_data.kinds.sudoku.propagation import load_clues_any, propagate_any
from trm_data.kinds.sudoku.solve import make_tables, rate, solve
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


@pytest.mark.parametrize(
    ("words", "excluded"),
    [
        pytest.param([0, 3], 0o776, id="two digits with one cell of a row"),
        pytest.param(slice(3, WORDS, 3), 0o003, id="two cells of a row with one digit"),
        pytest.param(slice(0, WORDS, 3), 0o001, id="a cell without digits"),
        pytest.param([4], 0o777, id="a digit without cells in a row"),
    ],
)
def test_a_state_without_solution_is_refused(words: list[int] | slice, excluded: int) -> None:
    state = np.array([(1 << 27) - 1] * WORDS + [0] * (PLACED + 1 - WORDS), np.uint64)
    state[words] &= ~np.uint64(excluded)
    assert _one_after_the_other(state, 0, ALL_BITS) is None
    assert not propagate_nine(state, state.copy(), 0, ALL_BITS)


@pytest.mark.parametrize("seed", range(5))
def test_clues_are_loaded_as_one_after_the_other(seed: int) -> None:
    puzzle = generate(seed, 1, 0, 1, 3, 3)[0][0]
    around = np.full(81 + 64, 9, np.uint8)  # memory around a grid must not matter
    around[32 : 32 + 81] = puzzle
    state = np.full(PLACED + 1, 7, np.uint64)
    load_clues_nine(state, around[32 : 32 + 81])
    np.testing.assert_array_equal(state[:PLACED], _loaded(puzzle)[:PLACED])
    assert state[PLACED] == 7


SUDOKU = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "sudoku"
needs_lists = pytest.mark.skipif(not SUDOKU.is_dir(), reason=f"no puzzle lists at {SUDOKU}")

DIABOLICAL = [
    "083020090000800100029300008000098700070000060006740000300006980002005000010030540",
    "200050006010000090600801003007090600000703000900080002100000005060902010003060200",
    "590000007040010083008034900001402000069000820000109300004670200980040030700000016",
]


def parse(lines):
    text = "".join(lines).replace(".", "0")
    return (np.frombuffer(text.encode(), np.uint8) - ord("0")).reshape(len(lines), -1)


def load(name):
    lines = (SUDOKU / name).read_text().splitlines()
    return parse([line.split()[0] for line in lines if line and not line.startswith("#")])


def all_small_grids():
    """Return the 288 grids of 2x2 boxes, found by trying all rows."""
    rows = list(itertools.permutations(range(1, 5)))
    grids = []
    for four in itertools.product(rows, repeat=4):
        grid = np.array(four)
        boxes = grid.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(4, 4)
        if all(len(set(unit)) == 4 for unit in [*grid.T, *boxes]):
            grids.append(grid.ravel())
    return np.array(grids, np.uint8)


def is_valid(grid, box_rows, box_columns):
    side = box_rows * box_columns
    square = grid.reshape(side, side)
    boxes = square.reshape(box_columns, box_rows, box_rows, box_columns).swapaxes(1, 2).reshape(side, side)
    return all(sorted(unit) == list(range(1, side + 1)) for unit in [*square, *square.T, *boxes])


def test_counts_equal_brute_force_on_small_grids():
    grids = all_small_grids()
    assert len(grids) == 288
    rng = np.random.default_rng(0)
    puzzles = [np.zeros(16, np.uint8)]
    for _ in range(600):
        puzzle = grids[rng.integers(288)] * (rng.random(16) < rng.uniform(0, 0.7)).astype(np.uint8)
        if rng.random() < 0.3:  # a wrong clue: often no solution at all
            puzzle[rng.integers(16)] = rng.integers(1, 5)
        puzzles.append(puzzle)
    puzzles = np.array(puzzles)
    solved = solve(puzzles, 2, 2, limit=1000)
    for puzzle, count, solution in zip(puzzles, solved.counts, solved.solutions, strict=True):
        fitting = grids[((grids == puzzle) | (puzzle == 0)).all(axis=1)]
        assert count == len(fitting)
        assert solution.tolist() in fitting.tolist() if count else not solution.any()
    assert (solved.counts == 0).any()
    assert (solved.counts > 1).any()


def test_public_puzzles_have_one_solution():
    puzzles = parse(DIABOLICAL)
    solved = solve(puzzles, 3, 3)
    assert solved.counts.tolist() == [1] * len(puzzles)
    for puzzle, solution in zip(puzzles, solved.solutions, strict=True):
        assert is_valid(solution, 3, 3)
        assert ((puzzle == 0) | (puzzle == solution)).all()


def test_two_solutions_are_told_from_one():
    solution = solve(parse(DIABOLICAL), 3, 3).solutions[0].reshape(9, 9)
    for top, bottom in itertools.combinations(range(9), 2):  # a rectangle of two digits can be swapped
        for left, right in itertools.combinations(range(9), 2):
            corners = solution[[top, top, bottom, bottom], [left, right, left, right]]
            inside = (top // 3 == bottom // 3) != (left // 3 == right // 3)
            if inside and corners[0] == corners[3] and corners[1] == corners[2]:
                puzzle = solution.copy()
                puzzle[[top, top, bottom, bottom], [left, right, left, right]] = 0
                assert solve(puzzle.reshape(1, 81), 3, 3).counts[0] == 2
                assert solve(puzzle.reshape(1, 81), 3, 3, limit=1).counts[0] == 1
                return
    pytest.fail("no rectangle in the grid: choose another puzzle")


@pytest.mark.parametrize(
    "boxes", [(2, 2), (2, 3), (3, 2), (3, 3), (3, 4), (4, 3), (4, 4), (2, 5), (5, 2), (2, 8)]
)
def test_blank_grids_are_filled(boxes):
    side = boxes[0] * boxes[1]
    solved = solve(np.zeros((1, side * side), np.uint8), *boxes, limit=1)
    assert solved.counts[0] == 1
    assert is_valid(solved.solutions[0], *boxes)


@pytest.mark.parametrize("boxes", [(2, 3), (3, 3), (4, 4), (2, 5)])
def test_contradictions_have_no_solution(boxes):
    side = boxes[0] * boxes[1]
    for second in (1, side, side + 1):  # same row, same column, same box
        puzzle = np.zeros((1, side * side), np.uint8)
        puzzle[0, [0, second]] = 1
        assert solve(puzzle, *boxes).counts[0] == 0


def test_a_cell_without_candidates_has_no_solution():
    puzzle = np.zeros((1, 81), np.uint8)
    puzzle[0, 1:9] = np.arange(1, 9)
    puzzle[0, 72] = 9
    assert solve(puzzle, 3, 3).counts[0] == 0


def test_rating_is_zero_for_what_propagation_solves():
    solution = solve(parse(DIABOLICAL), 3, 3).solutions
    almost = solution.copy()
    almost[:, ::5] = 0
    assert (rate(almost, 3, 3) == 0).all()
    ratings = rate(parse(DIABOLICAL), 3, 3)
    assert ratings.dtype == np.float32
    np.testing.assert_array_equal(ratings, rate(parse(DIABOLICAL), 3, 3))


@pytest.mark.parametrize(
    "arguments",
    [(np.zeros((1, 80), int), 3, 3), (np.full((1, 81), 10), 3, 3), (np.zeros((1, 25), int), 1, 5)],
)
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(ValueError, match="expected"):
        solve(*arguments)
    with pytest.raises(ValueError, match="limit"):
        solve(np.zeros((1, 81), np.uint8), 3, 3, limit=0)


@needs_lists
def test_sudoku_extreme_rows():
    with (SUDOKU / "sudoku_extreme_1k.csv").open() as file:
        rows = list(csv.DictReader(file))
    puzzles = parse([row["question"] for row in rows])
    solved = solve(puzzles, 3, 3)
    assert (solved.counts == 1).all()
    np.testing.assert_array_equal(solved.solutions, parse([row["answer"] for row in rows]))
    theirs = np.array([float(row["rating"]) for row in rows])
    ours = rate(puzzles, 3, 3)
    assert ((ours == 0) == (theirs == 0)).mean() > 0.99  # the same propagation strength
    assert spearman(ours, theirs) > 0.70


def spearman(left, right):
    """Return the rank correlation, with ties averaged."""
    ranks = []
    for values in (left, right):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(counts) - counts / 2)[inverse])
    return float(np.corrcoef(*ranks)[0, 1])


@needs_lists
def test_lists_have_one_solution_and_the_negative_list_two():
    for name in ("forum_hardest_1106.txt", "royle_17_clue.txt"):
        assert (solve(load(name), 3, 3).counts == 1).all()
    assert (solve(load("serg_multi_solution_10000.txt"), 3, 3).counts == 2).all()
