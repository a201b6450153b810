"""Progress without a terminal: a line per stage, more for long stages; a closed output does not stop the work."""

import io
from types import SimpleNamespace

import pytest

from trm_data.show import progress
from trm_data.show.progress import LineProgress
from trm_data.show.progress_bar import rich_progress


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
    assert "1,234" in capsys.readouterr().err
