"""SIGTERM and Ctrl-C end a command with the right exit code, and jax programs at once."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import trm_eval.cli
import trm_eval.tables.query
from tests.conftest import run_here
from trm_data.command import ending_at_once, errors_end, handled
from trm_data.errors import QueryError

WORKS = """
import threading
from contextlib import nullcontext
from trm_data.command import errors_end
from trm_data.command import ending_at_once, keep_ctrl_c
with errors_end("trm-data"):
    keep_ctrl_c()
    with {context}():
        import polars
        print("at work", flush=True)
        threading.Event().wait()
"""
"""A wait for a lock, which the handler of polars would not end."""


@pytest.mark.parametrize(
    ("number", "context", "code"),
    [
        (signal.SIGINT, "nullcontext", 130),
        (signal.SIGTERM, "nullcontext", 143),
        (signal.SIGINT, "ending_at_once", -signal.SIGINT),
        (signal.SIGTERM, "ending_at_once", -signal.SIGTERM),
    ],
)
def test_a_signal_ends_the_process(number: signal.Signals, context: str, code: int) -> None:
    """A shell gives the default action of a signal the same code: 130 or 143."""
    program = WORKS.format(context=context)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.send_signal(number)
        try:
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == code, err
    assert "Traceback" not in err


def test_handlers_are_those_of_before_and_other_threads_have_none() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with ending_at_once():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    found: list[object] = []

    def elsewhere() -> None:
        with handled(signal.SIG_DFL, signal.SIGINT):
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [before[1]]


def test_a_terminal_has_its_cursor_back() -> None:
    """A progress bar hides it, and a process that exits at once cannot show it again."""
    script = "from rich.progress import track; from trm_data.command import end_now\n"
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


def test_ctrl_c_ends_a_query_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB looks at signals between its tasks, up to half a minute later."""
    seen: list[object] = []

    def query(*arguments: object, **options: object) -> None:
        seen.append(signal.getsignal(signal.SIGINT))
        raise QueryError("seen")

    monkeypatch.setattr(trm_eval.tables.query, "query_results", query)
    assert run_here(trm_eval.cli.main, "sql", "SELECT 1", "--root", str(tmp_path)).returncode == 2
    assert seen == [signal.SIG_DFL]


def test_an_interrupted_query_of_another_command_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, errors_end("trm-eval"):
        raise RuntimeError("Query interrupted")
    assert ended.value.code == 130
    assert capsys.readouterr().err.count("\n") == 1
