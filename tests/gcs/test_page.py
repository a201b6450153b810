"""docs/buckets-and-hosts.md: its commands run one after another, on a loopback bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.documents.blocks import Line, Marker, read_blocks
from tests.documents.test_commands import SHORT, reader_in
from tests.gcs.conftest import URL
from trm_data.storage.root import Layout
from trm_train.runs.record import list_runs

SMALL = "sudoku-2x3-generated-500-aug-1000"


def test_its_commands_do_what_they_say(
    bucket: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First build the quickstart's dataset, with fewer test puzzles; training is cut to a few steps."""
    reader = reader_in(tmp_path, monkeypatch)
    sizes = "--size 500 --aug 1000 --val-size 20 --test-size 40"
    reader.type(Line(f"trm-data build sudoku --box 2x3 {sizes} --root {URL}", 0, Marker()))
    blocks = read_blocks(PROJECT / "docs" / "buckets-and-hosts.md")
    block = next(block for block in blocks if block.language == "sh" and "TRM_ROOT" in block.lines[0].text)
    typed = 0
    for line in block.lines:
        text = line.text.replace("gs://my-bucket/trm", URL).replace("NAME", SMALL)
        if "trm-train run" in text:
            text = f"{text} {SHORT}"
        reader.type(Line(text, line.number, Marker()))
        typed += 1
    assert typed == 5
    assert set(bucket.dataset_names()) == {SMALL, "sudoku-generated-1000-aug-1000"}
    assert len(list_runs(bucket)) == 1
