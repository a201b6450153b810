"""`trm-train status --watch`: polls, reports changes at once, and ends on request."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent


def test_it_is_shown_again_into_a_pipe_too_until_ctrl_c(tmp_path: Path) -> None:
    command = [str(BIN / "trm-train"), "status", "--watch", "--root", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        begun = time.monotonic()
        said = [process.stdout.readline() for _ in range(2)]
        assert time.monotonic() - begun > 4.0
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
    assert said == [f"no runs under {tmp_path}/runs\n"] * 2
    assert (process.returncode, err) == (0, "")
