"""Progress that nobody reads does not end the work."""

import io

from trm_data.show.progress import LineProgress


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
