"""If memory or threads are scarce, a command ends with a hint."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trm_data.command import errors_end
from trm_data.engine import local
from trm_data.engine.local import LocalEngine
from trm_data.errors import ScarceError

BIN = Path(sys.executable).parent
BUILD = "build sudoku --box 2x3 --size 40 --aug 60 --val-size 0 --test-size 8 --quiet --workers"


def compute(item: int) -> int:
    end = time.process_time() + 1.0
    while time.process_time() < end:
        item = item + 1 - 1
    return item


LIMITS = [(800, "2"), (950, "2"), (1600, "1")]


@pytest.mark.parametrize(("megabytes", "workers"), LIMITS)
def test_a_build_with_scarce_memory_ends_with_one_line(tmp_path: Path, megabytes: int, workers: str) -> None:
    """It used to hang in ArrayRecord and in OpenBLAS, which wait for threads that cannot start."""
    command = [str(BIN / "trm-data"), *BUILD.split(), workers, "--root", str(tmp_path)]
    limited = ["sh", "-c", f'ulimit -v {megabytes * 1000} && exec "$@"', "sh", *command]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=600)
    if done.returncode == 0:
        return  # the memory was enough
    said = [line for line in done.stderr.splitlines() if line.startswith("trm-data: ")]
    assert done.returncode == 2, done.stderr
    assert len(said) == 1, done.stderr
    assert re.search(r"memory|fewer --workers", said[0])
    assert "Traceback" not in done.stderr
    again = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't start new thread"),
        ImportError("x.so: failed to map segment from shared object"),
    ],
)
def test_memory_that_ran_out_is_said(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, errors_end("trm-data"):
        raise error
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("trm-data: not enough memory (")
    with pytest.raises(RuntimeError, match="another"), errors_end("trm-data"):
        raise RuntimeError("another")


def test_a_server_of_workers_that_is_ended_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: object) -> None:
        raise EOFError("unexpected EOF")

    monkeypatch.setattr(local._Process, "start", start)
    with pytest.raises(ScarceError, match="the process that starts the workers was killed"):
        LocalEngine(2).run(compute, [1, 2, 3])
