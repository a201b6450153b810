"""Ctrl-C while a program is imported prints no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from trm_data.command import Exit
from trm_data.commands.start import INTERRUPTED

SLOW = """
import signal, time
print("importing", flush=True)
time.sleep({})
def main():
    print("ran", signal.getsignal(signal.SIGINT) is {}, flush=True)
"""
START = "from trm_data.commands.start import start; start('trm-data', 'slow')"


def begin(folder: Path, seconds: float, handler: str = "signal.default_int_handler") -> subprocess.Popen[str]:
    (folder / "slow.py").write_text(SLOW.format(seconds, handler))
    environment = os.environ | {"PYTHONPATH": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-c", START],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    return process


def test_ctrl_c_during_imports_is_one_line(tmp_path: Path) -> None:
    process = begin(tmp_path, 30)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == ("", "trm-data: interrupted before it had begun\n")
    assert process.returncode == INTERRUPTED == Exit.INTERRUPTED


def test_after_the_imports_ctrl_c_is_the_programs_own(tmp_path: Path) -> None:
    assert begin(tmp_path, 0).communicate(timeout=20) == ("ran True\n", "")


def test_where_ctrl_c_is_ignored_it_stays_so(tmp_path: Path) -> None:
    """`nohup` and a shell's `&` start a program this way."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = begin(tmp_path, 1, "signal.SIG_IGN")
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20) == ("ran True\n", "")
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("program", ["trm-data", "trm-train", "trm-eval"])
def test_the_programs_begin_there(program: str) -> None:
    package = program.replace("-", "_")
    (found,) = entry_points(group="console_scripts", name=program)
    assert found.value == f"{package}.__main__:main"
    said = subprocess.run(
        [sys.executable, "-m", package, "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith(f"{program} ")
