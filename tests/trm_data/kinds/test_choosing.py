"""Chosen puzzles alternate between buckets; a choice that exceeds memory is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import error_of
from trm_data.building.flow import build_dataset
from trm_data.cli import main
from trm_data.errors import SpecError
from trm_data.kinds import base
from trm_data.kinds.candidates import Candidates
from trm_data.kinds.choosing import interleaved
from trm_data.sources.base import parse_source
from trm_data.specs import BuildRequest
from trm_data.storage.root import resolve_root

CELLS = 4


def candidates(numbers: list[int]) -> Candidates:
    rows = np.array(numbers, np.int64)
    cells = np.repeat(rows[:, None] % 251, CELLS, axis=1).astype(np.uint8)
    texts = np.array([f"class {number}" for number in numbers], np.str_)
    return Candidates(
        cells, cells + 1, rows, texts, rows + 1, {"rating": rows.astype(np.float32), "by": texts}
    )


def in_turn(buckets: list[list[int]]) -> list[int]:
    places = range(max(map(len, buckets), default=0))
    return [bucket[place] for place in places for bucket in buckets if place < len(bucket)]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_buckets_take_turns(counts: list[int]) -> None:
    ends = np.cumsum(counts).tolist()
    buckets = [list(range(end - count, end)) for end, count in zip(ends, counts, strict=True)]
    expected = candidates(in_turn(buckets))
    found = interleaved([candidates(bucket) for bucket in buckets])
    for name, values in expected.columns().items():
        assert found.columns()[name].tolist() == values.tolist(), name


@pytest.mark.parametrize("words", ["--size 5000001", "--size 4999000 --test-size 1001 --val-size 0"])
def test_more_puzzles_than_fit_into_memory_are_refused(tmp_path: Path, words: str) -> None:
    code, line = error_of(main, "build", "sudoku", *words.split(), "--dry-run", "--root", str(tmp_path))
    assert code == 2
    assert "5,000,000" in line
    assert "4.4 GB" in line


def test_all_rows_of_a_file_that_are_too_many_are_refused(
    tmp_path: Path, request_small: Callable[..., BuildRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MOST_PUZZLES", 3)
    rows = "\n".join(f"{i}".rjust(36, ".") for i in range(1, 5))
    (tmp_path / "four.txt").write_text(rows)
    request = request_small(
        source=parse_source(f"txt:{tmp_path / 'four.txt'}"), size=None, val_size=0, test_size=0
    )
    with pytest.raises(SpecError, match="4 base puzzles"):
        build_dataset(request, resolve_root(tmp_path / "root"))
