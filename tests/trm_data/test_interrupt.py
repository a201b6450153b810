"""Signals end a command also where Python does not hear of them, with the code and one line."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading

import pytest

from trm_data.interrupt import signals_end

BEGIN = """
import sys, time
from trm_data.command import errors_end
from trm_data.interrupt import signals_end
"""
LOSES = """
def work():
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            print("at work", flush=True)
            time.sleep(30)
        except (KeyboardInterrupt, SystemExit):  # as a callback of a library that ignores what it raises
            pass
"""
STOPS = """
def work():
    print("at work", flush=True)
    time.sleep(30)
"""
RUN = """
with errors_end("trm-eval"), signals_end("trm-eval", 0.5):
    work()
print("went on")
"""


@pytest.mark.parametrize("work", [LOSES, STOPS], ids=["it is lost", "it ends the command"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_process(work: str, number: signal.Signals, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + work + RUN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert process.returncode == code, err
    assert "went on" not in out
    (line,) = err.splitlines()
    assert line.endswith("nothing half-written counts, the same command goes on")


LEAVES = """
def leave(how):
    print("leaves with", how.code, flush=True)
with errors_end("trm-eval"), signals_end("trm-eval", 0.5, leave):
    work()
"""


@pytest.mark.parametrize("work", [LOSES, STOPS], ids=["it is lost", "it ends the command"])
def test_what_is_to_be_done_before_a_signal_ends_the_process(work: str) -> None:
    """As telling the other processes."""
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + work + LEAVES], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.terminate()
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 143
    assert out.endswith("leaves with 143\n")


def test_without_a_signal_nothing_changes() -> None:
    with pytest.raises(KeyboardInterrupt), signals_end("x"):
        raise KeyboardInterrupt
    with signals_end("x"):
        pass
    assert signal.set_wakeup_fd(-1) == -1
    found: list[str] = []

    def elsewhere() -> None:
        with signals_end("x"):
            found.append("done")

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == ["done"]


def test_a_terminal_has_its_cursor_back() -> None:
    """A bar hides it; whoever is ended at once cannot show it again."""
    script = "from rich.progress import track; from trm_data.interrupt import end_now\n"
    script += (
        "from rich.console import Console\nfor _ in track(range(2), console=Console(stderr=True)): end_now(5)"
    )
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, "-c", script], stderr=theirs, check=False)
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):
        while more := os.read(ours, 4096):
            said += more
    os.close(ours)
    assert done.returncode == 5
    assert said.rfind(b"\x1b[?25h") > said.rfind(b"\x1b[?25l") >= 0
