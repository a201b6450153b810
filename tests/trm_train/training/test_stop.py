"""How the commands end: one table of exit codes; all except that of success come from real processes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import run_here
from trm_data.cli import main as trm_data
from trm_data.errors import BucketError, DataError, Exit
from trm_train.errors import NotFiniteError, TrainError
from trm_train.training.stop import stop_signals

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
