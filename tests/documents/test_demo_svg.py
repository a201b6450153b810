"""The recording of the demo: well-formed, with every line and the commands of the demo."""

from __future__ import annotations

from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.conftest import PROJECT
from tests.support.scripts import load_script

LINES = [
    (0.5, "\x1b[1m$ trm-data build sudoku\x1b[0m"),
    (0.51, "choose <test> & more"),
    (200.0, "done"),
    *((201.0 + i, f"line {i}") for i in range(40)),
]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_script(PROJECT / "tools" / "demo_svg.py")


def test_the_picture_is_well_formed_and_says_every_line(tool: ModuleType) -> None:
    root = ElementTree.fromstring(tool.draw(LINES))
    name = "{http://www.w3.org/2000/svg}"
    texts = [each.text for each in root.iter(f"{name}text") if each.get("class") != "clock"]
    assert texts == ["$ trm-data build sudoku", *(line for _, line in LINES[1:])]
    (scroll,) = root.iter(f"{name}animateTransform")
    assert len(scroll.get("values", "").split(";")) == len(LINES)
    keys = [float(key) for key in scroll.get("keyTimes", "").split(";")]
    assert keys == sorted(keys)
    assert (keys[0], keys[-1] < 1) == (0, True)


def test_the_recording_in_the_documents_is_of_the_demo(tool: ModuleType) -> None:
    root = ElementTree.fromstring((PROJECT / "docs" / "demo.svg").read_text("utf-8"))
    shown = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]
    script = (PROJECT / "examples" / "demo.sh").read_text("utf-8")
    commands = [line.removeprefix("step ") for line in script.splitlines() if line.startswith("step trm-")]
    said = [line.removeprefix("$ ") for line in shown if line.startswith("$ ")]
    assert [command[: tool.COLUMNS - 2] for command in commands] == said
