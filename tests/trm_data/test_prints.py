"""Fingerprints of rows find exactly the equal rows of two splits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trm_data.records import Rows
from trm_data.verify.checker import row_prints, shared_rows


def _rows(cells: np.ndarray) -> Rows:
    numbers = np.zeros(len(cells), np.int32)
    half = cells.shape[1] // 2
    return Rows(cells[:, :half].copy(), cells[:, half:].copy(), numbers, numbers, numbers, numbers)


@given(
    counts=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    width=st.integers(1, 20),
    tokens=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_of_two_splits_are_shared_where_all_their_cells_are(
    counts: tuple[int, int], width: int, tokens: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    first, second = (random.integers(0, tokens, (count, 2 * width)).astype(np.uint8) for count in counts)
    rows, others = shared_rows(row_prints(_rows(first)), row_prints(_rows(second)))
    texts, other_texts = [row.tobytes() for row in first], [row.tobytes() for row in second]
    shared = set(texts) & set(other_texts)
    assert len(rows) == len(others) == len(shared)
    found = {
        texts[row]: (int(row), int(other)) for row, other in zip(rows.tolist(), others.tolist(), strict=True)
    }
    assert found == {text: (texts.index(text), other_texts.index(text)) for text in shared}


def test_numbers_that_only_begin_alike_are_not_equal() -> None:
    numbers = np.arange(1000, dtype=np.uint64)
    rows, others = shared_rows(numbers, numbers + np.uint64(990))
    assert rows.tolist() == list(range(990, 1000))
    assert others.tolist() == list(range(10))
