"""The examples with puzzles of other generators run beside their libraries, each in an environment of its own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import trm_data
from tests.conftest import PROJECT

PAGE = (PROJECT / "docs" / "own-puzzles.md").read_text()
EXAMPLES = re.findall(r"<!-- needs: (.*?) -->\n```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(("libraries", "text"), EXAMPLES, ids=[libraries for libraries, _ in EXAMPLES])
def test_an_example_builds_its_dataset(libraries: str, text: str, tmp_path: Path) -> None:
    grids = trm_data.build_dataset("sudoku", size=60, aug=0, root=tmp_path / "own", quiet=True)[:]
    columns = [
        ["".join(".123456789"[token - 1] for token in grid) for grid in grids[name]]
        for name in ("inputs", "labels")
    ]
    rows = ["question,answer", *map(",".join, zip(*columns, strict=True))]
    (tmp_path / "mine.csv").write_text("\n".join(rows))
    (tmp_path / "example.py").write_text(text)
    needed = [word for library in libraries.split() for word in ("--with", library)]
    uv = [PROJECT / ".tools/bin/uv", "run", "--no-sync", "--project", PROJECT]
    done = subprocess.run(
        [*uv, *needed, "python", "example.py"],
        cwd=tmp_path,
        env={**os.environ, "TRM_ROOT": str(tmp_path / "trm"), "HF_HOME": str(tmp_path / "hf")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (made,) = trm_data.list_datasets(tmp_path / "trm")
    assert (made.splits["train"], made.splits["test"]) == (40, 10)


def test_an_example_is_short() -> None:
    assert len(EXAMPLES) == 3
    for _, text in EXAMPLES:
        assert len([line for line in text.splitlines() if line and "import" not in line]) <= 10
