"""Blocks of Python in the pages on own puzzles, networks and studies import what they use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.documents.blocks import read_blocks

PAGES = [PROJECT / "docs" / f"own-{name}.md" for name in ("puzzles", "network", "study")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_is_imported(page: Path) -> None:
    blocks = [block for block in read_blocks(page) if block.language == "python"]
    assert blocks
    for block in blocks:
        checked = subprocess.run(
            [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,F811,E9", "-"],
            input=block.text,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert checked.returncode == 0, f"{page.name}:{block.number}: {checked.stdout}"
