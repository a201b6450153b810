"""How the commands end: one table of exit codes; all except that of success come from real processes.

A preemption notice of the metadata server stops a run as SIGTERM does.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.conftest import run_here
from tests.multiprocess.processes import RUN
from tests.support.roots import root_with
from trm_data.cli import main as trm_data
from trm_data.command import Exit
from trm_data.errors import BucketError, DataError
from trm_data.storage.root import Layout
from trm_train.checkpoint.manager import saved_steps
from trm_train.errors import NotFiniteError, TrainError
from trm_train.runs.record import list_runs
from trm_train.runs.status import read_status
from trm_train.training import stop as preemption
from trm_train.training.stop import StopRequest, metadata_url, preemption_stops, stop_signals

BIN = Path(sys.executable).parent
BUILD = "build sudoku --box 2x2 --size 12 --aug 7 --val-size 4 --test-size 6 --name stops"
QUICK_RUN = (
    "run quickstart --tracking none --data.dataset stops --data.global-batch-size 4 --model.hidden-size 8 "
    "--model.num-heads 2 --model.num-layers 1 --model.h-cycles 1 --model.l-cycles 1 --optim.lr-warmup-steps 2 "
    "--execution.log-every 1"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stops")
    done = run_here(trm_data, *BUILD.split(), "--quiet", "--root", str(root))
    assert done.returncode == 0, done.stderr
    return root


def start(root: Path, *options: str) -> subprocess.Popen:
    return subprocess.Popen(
        [BIN / "trm-train", *QUICK_RUN.split(), *options, "--root", str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(signal.SIGINT, Exit.INTERRUPTED, marks=pytest.mark.slow),
        (signal.SIGTERM, Exit.TERMINATED),
    ],
)
def test_a_run_that_is_asked_to_stop_says_by_what(root: Path, sent: signal.Signals, code: Exit) -> None:
    with start(root, "--total-steps", "1000000", "--seed", str(int(sent))) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if re.match(r"step +\d", line):
                break
        process.send_signal(sent)
        out, _ = process.communicate(timeout=600)
    assert process.returncode == code
    assert "with a checkpoint; the same command resumes" in out


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_is_not_listened_to(first: signal.Signals) -> None:
    """The first signal is recorded; the second one, of either kind, has its default effect."""
    with stop_signals() as stop:
        signal.raise_signal(first)
        assert stop.requested
        assert stop.exit_code == 128 + first
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert stop.exit_code == 128 + first


def test_a_loss_that_is_no_number_ends_the_run(root: Path) -> None:
    with start(root, "--total-steps", "50", "--optim.lr", "1e38", "--optim.lr-warmup-steps", "0") as process:
        _, err = process.communicate(timeout=600)
    assert process.returncode == Exit.NOT_FINITE, err
    what = "the (loss|change of the parameters) is (nan|inf)"
    assert re.search(rf"step \d+: {what} \(loss of steps .*\); there is no checkpoint yet", err)
    assert "Traceback" not in err
    status = next((root / "runs").rglob("status.json")).parent
    failed = [path.read_text() for path in (root / "runs").rglob("status.json")]
    assert any('"state": "failed"' in text and re.search(what, text) for text in failed), status


def test_codes_are_those_of_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text()
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.M)] == [code.value for code in Exit]
    assert BucketError.exit_code == Exit.BUCKET
    assert NotFiniteError.exit_code == Exit.NOT_FINITE
    assert not hasattr(DataError("x"), "exit_code")
    assert not hasattr(TrainError("x"), "exit_code")


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
    options = str.split("--execution.checkpoint-every 10 --execution.validate-every 0 --total-steps 100000")
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
