"""Compiled kernels are cached under a hash of their sources: after an edit of a shared kernel no old code runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

from trm_data.kernel import PACKAGE, compile_parts, kernel_digest, kernel_folder
from trm_data.kinds.maze import kernels as maze_kernels
from trm_data.show.progress import NoProgress

SHARED = "from trm_data.kernel import kernel\n\n\n@kernel\ndef shared(x):\n    return x + {number}\n"
CALLER = (
    "from trm_data.kernel import kernel\nfrom trm_data.kinds.shared import shared\n\n\n"
    "@kernel\ndef caller(x):\n    return shared(x)\n"
)
PROGRAM = "from trm_data.symmetry.caller import caller; print(caller(1))"


def write_package(folder: Path, number: int) -> None:
    """Write the modules that the decorator needs, and two kernels; one calls the other."""
    for name in ("errors.py", "kernel.py", "storage/atomic.py", "storage/cache.py"):
        target = folder / "trm_data" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (target.parent / "__init__.py").touch()
        target.write_text((PACKAGE / name).read_text("utf-8"), "utf-8")
    for name, source in (("kinds/shared", SHARED.format(number=number)), ("symmetry/caller", CALLER)):
        target = folder / "trm_data" / f"{name}.py"
        target.parent.mkdir(parents=True, exist_ok=True)
        (target.parent / "__init__.py").touch()
        if not target.exists() or target.read_text() != source:
            target.write_text(source)


def test_after_an_edit_of_a_shared_kernel_its_caller_runs_the_new_code(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    for number, answer in ((10, "11"), (10, "11"), (20, "21")):
        write_package(tmp_path, number)
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.stdout.strip() == answer, done.stderr
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_kernels_of_the_package_are_cached_there_and_numba_is_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Path(maze_kernels.label_many.stats.cache_path).parent == kernel_folder()
    assert str(kernel_folder()) != config.CACHE_DIR
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("TRM_CACHE", "/nowhere")
    assert kernel_folder() == Path("/nowhere/kernels") / kernel_digest(PACKAGE)


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["sudoku", "maze", "arc"])
def test_the_parts_compile_all_that_they_call(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the parts are compiled, running them again compiles nothing."""
    program = f"""
from numba.core import event
from trm_data.kinds.{kind} import warm
with event.install_recorder("numba:compile") as recorder:
    for part in warm.PARTS:
        part(generated=True)
    warm.warm()
print(len(recorder.buffer))
"""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compile_parts(f"trm_data.kinds.{kind}.warm", NoProgress(), generated=True)
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "0"
