"""The notebook: its cells equal those of the script that writes it, and run one after another."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import PROJECT
from tests.support.scripts import load_script


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_script(PROJECT / "tools" / "notebook.py")


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    return json.loads((PROJECT / "docs" / "notebook.ipynb").read_text("utf-8"))


def test_the_cells_are_those_of_the_script(tool: ModuleType, written: dict[str, Any]) -> None:
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in written["cells"]]
    assert found == list(tool.CELLS), "python tools/notebook.py writes it again"
    assert (written["nbformat"], written["nbformat_minor"]) == (4, 5)
    assert all("/" + "tmp" not in json.dumps(cell.get("outputs", [])) for cell in written["cells"])


def test_a_kernel_without_an_activated_shell_finds_the_programs(tool: ModuleType) -> None:
    for _, source in tool.CELLS:
        assert '["trm-' not in source


@pytest.mark.slow
def test_the_cells_run_and_give_what_the_notebook_shows(
    tool: ModuleType, written: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs with few puzzles and steps; outputs are of the same kinds."""
    monkeypatch.setenv("TRM_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", os.defpath)  # like a kernel whose shell was not activated
    cells = [
        (kind, source.replace(tool.SIZES, "PUZZLES, AUG, STEPS = 40, 5, 60")) for kind, source in tool.CELLS
    ]
    assert sum(tool.SIZES in source for _, source in tool.CELLS) == 1
    found = tool.run_cells(tuple(cells), str(tmp_path))

    def kinds(some: list[dict[str, Any]]) -> list[list[list[str]]]:
        return [
            [sorted(one.get("data", [one.get("name")])) for one in cell.get("outputs", [])] for cell in some
        ]

    assert kinds(found) == kinds(written["cells"])
    assert json.loads(tool.as_json(found))["cells"] == found
