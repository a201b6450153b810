"""Progress without a terminal: a line per stage, more for long stages; a closed output does not stop the work.

Fingerprints of rows find exactly the equal rows of two splits.
"""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trm_data.records import Rows
from trm_data.show import progress
from trm_data.show.progress import LineProgress, rich_progress
from trm_data.verify.checker import row_prints, shared_rows


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_reader_that_has_gone_is_no_error() -> None:
    lines = LineProgress(Closed())
    lines.start("write rows", 10, "examples")
    lines.advance(10)
    lines.start("write catalog", 9, "tables")
    lines.finish()


def test_a_line_for_each_stage() -> None:
    stream = io.StringIO()
    lines = LineProgress(stream)
    lines.start("write rows", 10, "examples")
    lines.advance(8)
    lines.advance(2)
    lines.finish()
    assert stream.getvalue().startswith("write rows: 10 examples in ")


def test_a_long_stage_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now, stream = [100.0], io.StringIO()
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    lines = LineProgress(stream)
    lines.start("compile kernels", 4, "modules")
    for second in range(1, 25):
        now[0] = 100.0 + second
        lines.advance(1 if second in (4, 15) else 0)
    lines.finish()
    assert stream.getvalue().splitlines() == [
        "compile kernels: 1 of 4 modules after 5 s",
        "compile kernels: 1 of 4 modules after 10 s",
        "compile kernels: 2 of 4 modules after 20 s",
        "compile kernels: 2 modules in 24.0 s",
    ]
    lines.advance(1)  # from a late thread
    assert len(stream.getvalue().splitlines()) == 4


def test_a_bar_counts_where_the_end_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    with rich_progress() as bars:
        bars.start("read rows", None, "rows")
        bars.advance(1_234)
    assert "1234/?" in capsys.readouterr().err


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
