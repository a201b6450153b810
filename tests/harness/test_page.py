"""docs/reliability.md matches the figures, and every test that it names exists."""

from __future__ import annotations

import json
import re

from tests.harness.figures import PAGE, PROJECT, REPORT, WHAT, page


def test_the_page_is_of_these_figures() -> None:
    assert PAGE.read_text() == page(json.loads(REPORT.read_text())), "run python tests/harness/figures.py"


def test_every_part_has_figures() -> None:
    report = json.loads(REPORT.read_text())
    assert set(report) == set(WHAT)
    assert (
        report["damage"]["believed"] == report["inputs"]["crashes"] == report["failing bucket"]["wrong"] == 0
    )


def test_every_test_that_is_named_is_there() -> None:
    named = re.findall(r"`(tests/[^`]+)`", PAGE.read_text())
    assert len(named) >= 15
    assert [name for name in named if not (PROJECT / name).exists()] == []
