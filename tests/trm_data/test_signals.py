"""Signals end a command even if Python does not handle them, with the right exit code and one line."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from trm_data.command import Exit
from trm_data.command.signals import signals_end

BEGIN = """
import sys, time
from trm_data.command import errors_end
from trm_data.command.signals import signals_end
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
print("continued")
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
    assert "continued" not in out
    (line,) = err.splitlines()
    assert line.endswith("partial files do not count; the same command resumes")


IGNORED = """
import time
from trm_data.command import errors_end

class Collected:
    def __del__(self):
        print("at work", flush=True)
        time.sleep(1)  # what is raised here Python ignores

with errors_end("trm-data"):
    Collected()
    time.sleep(30)
print("continued")
"""
IMPORTS = """
import sys, time
from trm_data.command import errors_end

with errors_end("trm-data"):
    sys.path.insert(0, sys.argv[1])
    import slow
    time.sleep(30)
print("continued")
"""
SLOW = "import time\nprint('at work', flush=True)\ntime.sleep(1)\nprint('imported', flush=True)\n"


@pytest.mark.parametrize("program", [IGNORED, IMPORTS], ids=["in a collector", "in an import"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_not_lost(program: str, number: signal.Signals, code: int, tmp_path: Path) -> None:
    """It does not interrupt an import either, which some libraries do not survive."""
    (tmp_path / "slow.py").write_text(SLOW)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert process.returncode == code, err
    assert out == ("imported\n" if program == IMPORTS else "")
    assert "Traceback" not in err


def test_unbuffered_output_is_whole_and_a_closed_pipe_is_heard() -> None:
    """Unbuffered Python writes once and ignores short writes of a pipe."""
    program = "from trm_data.command import errors_end\nwith errors_end('x'):\n    print('row\\n' * 500_000, end='')"
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    for reader, code, count in (("cat", 0, 500_000), ("head -1", Exit.BROKEN_PIPE, 1)):
        shell = f'"$0" -c "$1" | {reader} | wc -l; echo ${{PIPESTATUS[0]}}'
        command = ["bash", "-c", shell, sys.executable, program]
        done = subprocess.run(
            command, env=unbuffered, capture_output=True, text=True, check=True, timeout=600
        )
        assert done.stdout.split() == [str(count), str(int(code))], done.stderr


LEAVES = """
def leave(how):
    print("leaves with", how.code, flush=True)
with errors_end("trm-eval"), signals_end("trm-eval", 0.5, leave):
    work()
"""


@pytest.mark.parametrize("work", [LOSES, STOPS], ids=["it is lost", "it ends the command"])
def test_what_is_to_be_done_before_a_signal_ends_the_process(work: str) -> None:
    """For example, notify the other processes."""
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
    """A progress bar hides it, and a process that exits at once cannot show it again."""
    script = "from rich.progress import track; from trm_data.command.signals import end_now\n"
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


QUERY = """
import duckdb
from trm_data.catalog.query import run_locked
from trm_data.command import errors_end
with errors_end("trm-eval"), duckdb.connect() as connection:
    print("at work", flush=True)
    run_locked(connection, "SELECT count(*) FROM range(10000000) a, range(10000000) b")
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_query_that_duckdb_runs_as_one_task(number: signal.Signals, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", QUERY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "at work\n"
            begun = processor_s(process.pid)
            while processor_s(process.pid) < begun + 1.0:
                time.sleep(0.05)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == code, err
    assert "Traceback" not in err


def processor_s(pid: int) -> float:
    """Return the CPU time that a process has used (s)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
