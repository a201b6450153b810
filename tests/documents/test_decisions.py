"""The index of decisions lists each decision with its title and a status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import PROJECT

FOLDER = PROJECT / "docs" / "decisions"
DECISIONS = sorted(FOLDER.glob("0*.md"))


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name[:4])
def test_the_index_has_the_title_and_a_status(path: Path) -> None:

    name = path.name
    title = (FOLDER / name).read_text("utf-8").splitlines()[0].removeprefix(f"# {name[:4]} ")
    index = (FOLDER / "index.md").read_text("utf-8")
    row = re.search(
        rf"^\| \[{name[:4]}\]\({re.escape(name)}\) \| (.*) \| (accepted|superseded by .*) \|$", index, re.M
    )
    assert row is not None
    assert row[1] == title
