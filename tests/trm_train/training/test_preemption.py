"""A preemption notice of the metadata server stops a run as SIGTERM does."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.multiprocess.processes import RUN
from tests.support.roots import root_with
from trm_data.command import Exit
from trm_data.storage.root import Layout
from trm_train.checkpoint.manager import saved_steps
from trm_train.runs.record import list_runs
from trm_train.runs.status import read_status
from trm_train.training import stop as preemption
from trm_train.training.stop import StopRequest, listen, metadata_url, preemption_stops

PROGRAM = "import sys; from trm_train.cli import main; main(sys.argv[1:])"


class Metadata:
    """A local metadata server; it answers `TRUE` once `taken` is set, and 503 while `away` is set."""

    def __init__(self) -> None:
        self.taken, self.away, self.asked = threading.Event(), threading.Event(), list[str]()
        metadata = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def do_GET(self) -> None:
                metadata.asked.append(f"{self.headers['Metadata-Flavor']} {self.path}")
                if metadata.away.is_set():
                    self.send_error(503)
                    return
                body = b"TRUE" if metadata.taken.wait(0.5) else b"FALSE"
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/computeMetadata/v1/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Generator[Metadata, None, None]:
    there = Metadata()
    monkeypatch.setenv(preemption.URL_VARIABLE, there.url)
    monkeypatch.setattr(preemption, "AGAIN_S", 0.05)
    monkeypatch.setattr(preemption, "PAUSE_S", 0.02)
    yield there
    there.taken.set()
    there.server.shutdown()
    there.server.server_close()


def wait_until(condition: object, seconds: float = 10.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_notice_asks_to_stop(metadata: Metadata) -> None:
    stop = StopRequest()
    metadata.away.set()
    with preemption_stops(stop):
        wait_until(lambda: len(metadata.asked) > 1)  # it retries without an answer
        metadata.away.clear()
        wait_until(lambda: len(metadata.asked) > 3)
        assert not stop.requested
        metadata.taken.set()
        wait_until(lambda: stop.requested)
    assert stop.exit_code == Exit.TERMINATED
    assert metadata.asked[0].startswith("Google /computeMetadata/v1/instance/preempted?wait_for_change=true")


def test_a_server_that_answers_at_once_is_asked_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["FALSE", None, "FALSE", "TRUE"])
    pauses: list[float | None] = []

    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            return False

    monkeypatch.setattr(preemption, "_ask", lambda url: next(answers))
    stop = StopRequest()
    listen("http://metadata", stop, Ended())
    assert stop.exit_code == Exit.TERMINATED
    assert pauses == [preemption.PAUSE_S, preemption.AGAIN_S, preemption.PAUSE_S]


def test_nobody_is_asked_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(preemption.URL_VARIABLE, raising=False)
    for name, text, url in (
        ("of-google", "Google Compute Engine\n", preemption.METADATA_URL),
        ("of-others", "Standard PC\n", None),
    ):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(preemption, "PRODUCT", tmp_path / name)
        assert metadata_url() == url
    monkeypatch.setattr(preemption, "PRODUCT", tmp_path / "missing")
    assert metadata_url() is None
    with preemption_stops(StopRequest()):
        assert not [thread for thread in threading.enumerate() if thread.name == "preemption"]


def test_a_run_on_a_machine_that_is_taken_away_saves_and_ends(
    small_layout: Layout, tmp_path: Path, metadata: Metadata
) -> None:
    layout = root_with("small", tmp_path, small_layout)
    options = [
        "--execution.checkpoint-every",
        "10",
        "--execution.validate-every",
        "0",
        "--total-steps",
        "100000",
    ]
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, *RUN, *options, "--root", layout.place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: [run for run in list_runs(layout) if saved_steps(run)], 120)
        metadata.taken.set()
        _, err = process.communicate(timeout=600)
    assert process.returncode == Exit.TERMINATED, err
    (run,) = list_runs(layout)
    status = read_status(run)
    assert status is not None
    assert (status.state, status.step) == ("stopped", saved_steps(run)[-1])
