"""The demo tells how to type its commands afterwards."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.conftest import PROJECT
from tests.documents.blocks import read_blocks
from tests.documents.reading import statements, why_unreadable

QUICKSTART = PROJECT / "docs" / "quickstart.md"


def demo(folder: Path) -> str:
    """Return the output of the demo; commands that would take minutes are replaced by empty scripts in a folder."""
    place = folder / "bin with space"
    place.mkdir()
    for name in ("trm-data", "trm-train", "trm-eval"):
        (place / name).write_text("#!/bin/sh\n")
        (place / name).chmod(0o755)
    path = f"{place}{os.pathsep}{os.environ['PATH']}"
    script = ["sh", str(PROJECT / "examples" / "demo.sh")]
    done = subprocess.run(
        script, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    return done.stdout.replace("\033[1m", "").replace("\033[0m", "")


def test_its_last_line_puts_the_commands_on_the_path(tmp_path: Path) -> None:
    last = demo(tmp_path).splitlines()[-1]
    found = subprocess.run(
        ["sh", "-c", f"{last}; command -v trm-eval"], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == str(tmp_path / "bin with space" / "trm-eval")


def test_its_commands_are_those_of_the_quickstart_page_and_can_be_copied(tmp_path: Path) -> None:
    printed = [line[2:] for line in demo(tmp_path).splitlines() if line.startswith("$ ")]
    (shown,) = (block for block in read_blocks(QUICKSTART) if "all of it took" in block.text)
    assert printed == [line.text for line in shown.lines]
    for line in printed:
        for words in statements(line):
            assert why_unreadable(words) == ""
