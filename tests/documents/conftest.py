"""The example of a kind from another package, as if it were installed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.conftest import PROJECT

EXAMPLE = PROJECT / "examples" / "nqueens"


@pytest.fixture
def nqueens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    """Its module and the metadata that names its entry point."""
    site = tmp_path / "site"
    info = site / "trm_nqueens-0.1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(EXAMPLE / "nqueens.py", site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trm-nqueens\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[trm_data.kinds]\nnqueens = nqueens:NQueens\n")
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", path)
    yield
    sys.modules.pop("nqueens", None)
