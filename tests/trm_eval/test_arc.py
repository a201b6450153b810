"""Votes over augmentations: cropping, undoing, counting and ranking."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trm_data.kinds.arc.encode import ARC_EOS, Pair, encode_pairs
from trm_data.kinds.arc.symmetry import NUM_SYMMETRIES, ArcSymmetry, colour_maps
from trm_eval.votes import (
    NO_GRID,
    Ranking,
    VoteCounter,
    attempts,
    cells_of,
    crop_sizes,
    grid_of,
    pass_at_k,
    right_ranks,
    undo,
)

SIDES = st.integers(1, 30)
SEEDS = st.integers(0, 2**32 - 1)


def canvas(lines: Sequence[str]) -> np.ndarray:
    """Return a row of tokens: digits are colours, `+` is EOS, a space is PAD."""
    tokens = np.zeros((1, 30, 30), np.uint8)
    for i, line in enumerate(lines):
        for j, cell in enumerate(line):
            tokens[0, i, j] = {"+": ARC_EOS, " ": 0}.get(cell, ord(cell) - ord("0") + 2)
    return tokens.reshape(1, 900)


@pytest.mark.parametrize(
    ("lines", "size"),
    [
        (["12+", "34+", "++"], (2, 2)),
        (["1234+", "12+"], (1, 4)),  # of 1x4 and 2x2, the one with fewer rows
        (["1234", "123", "12"], (2, 3)),
        (["1", "1", "1234"], (3, 1)),
        (["12 4", "12+4", "1234"], (3, 2)),
        (["+123"], (0, 0)),
        ([" "], (0, 0)),
        (["1" * 30] * 30, (30, 30)),
        (["1" * 30] * 29 + ["+"], (29, 30)),
    ],
)
def test_the_largest_rectangle_of_colours_at_the_top_left(lines: list[str], size: tuple[int, int]) -> None:
    assert tuple(crop_sizes(canvas(lines))[0].tolist()) == size


def test_what_begins_with_no_colour_is_a_grid_of_no_cells() -> None:
    assert undo(canvas(["+12"]), np.array([1]), np.arange(10, dtype=np.uint8)[None]) == [NO_GRID]
    assert cells_of(NO_GRID).tolist() == []
    assert undo(np.zeros((0, 900), np.uint8), np.zeros(0, np.int64), np.zeros((0, 10), np.uint8)) == []


@settings(deadline=None, max_examples=60)
@given(SEEDS, st.lists(st.tuples(SIDES, SIDES, st.integers(0, NUM_SYMMETRIES - 1)), min_size=1, max_size=8))
def test_undoing_an_augmentation_gives_the_grid_back(seed: int, shapes: list[tuple[int, int, int]]) -> None:
    draws = np.random.default_rng(seed)
    grids = [draws.integers(0, 10, (rows, columns)).astype(np.uint8) for rows, columns, _ in shapes]
    elements = np.array([element for _, _, element in shapes])
    images = [
        ArcSymmetry.from_index(element).apply(grid)
        for grid, element in zip(grids, elements.tolist(), strict=True)
    ]
    tokens, _, _ = encode_pairs([Pair(image, None) for image in images])
    assert undo(tokens, elements % 8, colour_maps(elements)) == [grid_of(grid) for grid in grids]


@given(SEEDS, SIDES, SIDES)
def test_a_grid_and_its_value(seed: int, rows: int, columns: int) -> None:
    cells = np.random.default_rng(seed).integers(0, 10, (rows, columns)).astype(np.uint8)
    np.testing.assert_array_equal(cells_of(grid_of(cells)), cells)


VOTES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from([-2.0, -0.3, 0.0, 0.1, 1.7])),
    max_size=60,
)
"""Test input, grid and halting logit of each prediction."""


def ballot(votes: list[tuple[int, int, float]], cuts: Sequence[int] = ()) -> Ranking:
    """Return the ranking of votes that are added in several parts."""
    taken = VoteCounter()
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(votes)], strict=True):
        part = votes[start:stop]
        taken.add(
            np.array([test for test, _, _ in part], np.int64),
            [bytes((1, 1, grid)) for _, grid, _ in part],
            np.array([q for _, _, q in part], np.float32),
            np.arange(start, start + len(part)),
        )
    return taken.ranked()


@given(VOTES, st.data())
def test_votes_do_not_depend_on_the_parts_they_come_in(
    votes: list[tuple[int, int, float]], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(votes)), max_size=5))
    whole, parted = ballot(votes), ballot(votes, cuts)
    assert whole.grids == parted.grids
    for name in ("test_inputs", "ranks", "votes", "mean_q", "first_rows"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parted, name))  # bit for bit


def slow_ranking(votes: list[tuple[int, int, float]]) -> list[tuple[int, int, int, float, bytes]]:
    """Rank by the rule of the reference: votes, then mean of sigmoid; Python's sort is stable."""
    found: list[tuple[int, int, int, float, bytes]] = []
    for test in sorted({test for test, _, _ in votes}):
        stats: dict[bytes, list[float]] = {}
        for other, grid, q in votes:
            if other == test:
                entry = stats.setdefault(bytes((1, 1, grid)), [0, 0.0])
                entry[0] += 1
                entry[1] += 1 / (1 + np.exp(-np.float64(np.float32(q))))
        means = {grid: (count, total / count) for grid, (count, total) in stats.items()}
        for place, (grid, (count, mean)) in enumerate(
            sorted(means.items(), key=lambda item: item[1], reverse=True), start=1
        ):
            found.append((test, place, int(count), mean, grid))
    return found


@given(VOTES)
def test_the_ranking_is_that_of_the_plain_rule(votes: list[tuple[int, int, float]]) -> None:
    got, expected = ballot(votes), slow_ranking(votes)
    assert list(zip(got.test_inputs, got.ranks, got.votes, got.grids, strict=True)) == [
        (test, place, count, grid) for test, place, count, _, grid in expected
    ]
    np.testing.assert_allclose(got.mean_q, [mean for _, _, _, mean, _ in expected], rtol=1e-14)


@given(st.permutations(range(4)))
def test_of_equal_candidates_the_first_seen_leads(order: list[int]) -> None:
    assert [grid[2] for grid in ballot([(0, grid, 0.5) for grid in order]).grids] == order


def test_more_votes_beat_a_surer_network_which_beats_an_earlier_row() -> None:
    votes = [(0, 1, -1.0), (0, 2, 0.0), (0, 3, -5.0), (0, 3, -5.0)]
    ranking = ballot(votes)
    assert [grid[2] for grid in ranking.grids] == [3, 2, 1]
    assert ranking.first_rows.tolist() == [2, 1, 0]


def test_pass_at_k_is_the_mean_over_tasks_of_the_mean_over_their_test_inputs() -> None:
    ranks, tasks = np.array([1, 0, 3, 2]), np.array([7, 7, 7, 9])
    assert pass_at_k(ranks, tasks, 1) == pytest.approx((1 / 3 + 0) / 2)
    assert pass_at_k(ranks, tasks, 2) == pytest.approx((1 / 3 + 1) / 2)
    assert pass_at_k(ranks, tasks, 1000) == pytest.approx((2 / 3 + 1) / 2)
    assert np.isnan(pass_at_k(ranks[:0], tasks[:0], 1))


def test_the_right_grid_is_found_where_it_is() -> None:
    ranking = ballot([(0, 1, 0.0), (0, 2, 1.0), (2, 3, 0.0)])
    solutions = [bytes((1, 1, 1)), bytes((1, 1, 9)), None]
    assert right_ranks(ranking, solutions).tolist() == [2, 0, 0]


def test_attempts_repeat_an_only_candidate_and_keep_the_place_of_none() -> None:
    one, two = bytes((1, 2, 5, 6)), bytes((1, 1, 3))
    assert attempts([one, two, two]) == {"attempt_1": [[5, 6]], "attempt_2": [[3]]}
    assert attempts([one]) == {"attempt_1": [[5, 6]], "attempt_2": [[5, 6]]}
    assert attempts([]) == {"attempt_1": [], "attempt_2": []}
