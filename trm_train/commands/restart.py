"""Starts a run again by itself: a process of its own trains it, and another process resumes after it fails."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

from trm_data.command import Exit
from trm_data.command.signals import handled
from trm_train.config.overrides import take_option

PROGRAM = (
    "from trm_data.command.signals import end_with_parent; end_with_parent(); "
    "from trm_train.cli import main; main()"
)
WAIT_S = 5.0
"""Between an end and the next start: what the process has held is free then."""
RESTARTED = (Exit.BUCKET, Exit.STALLED)
"""Ends that another process may resume from: a bucket was away; hosts were lost, something stood still or was slow."""


def once(arguments: Sequence[str]) -> tuple[str, ...]:
    """What is to be added to the words of a run, so that `--resume never` throws it away once at most."""
    resume, rest = take_option("--resume", list(arguments))
    if resume != "never" or take_option("--anew-once", rest)[0] is not None:
        return ()
    return ("--anew-once", secrets.token_hex(8))


def train_with_restarts(arguments: list[str], restarts: int, say: Callable[[str], None]) -> int:
    """Run `trm-train`, and restart it if it was killed, crashed, or lost its bucket or other hosts.

    A signal to stop is forwarded to the training process; then nothing is started again.

    Args:
        arguments: Of the command, without those of restarting.
        restarts: At most.
        say: Tells a person of a restart.

    Returns:
        How the last process ended; 128 more than the signal that killed it.
    """
    arguments = [*arguments, *once(arguments)]
    asked = 0
    process: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, _: FrameType | None) -> None:
        nonlocal asked
        asked = number
        if process is not None:
            process.send_signal(number)

    with handled(pass_on, signal.SIGTERM, signal.SIGINT):
        for left in range(restarts, -1, -1):
            # In a session of its own: Ctrl-C of a terminal reaches it once, by `pass_on`.
            # Its standard input says to it that this process lives.
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *arguments], stdin=subprocess.PIPE, start_new_session=True
            )
            if asked:  # before there was a process to pass it on to
                process.send_signal(asked)
            with process:
                code = process.wait()
            if asked or not left or (code >= 0 and code not in RESTARTED):
                return code if code >= 0 else 128 - code
            how = f"exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
            say(
                f"the process that trains has ended ({how}); starting again, {left} of {restarts} restarts left"
            )
            time.sleep(WAIT_S)
            if asked:
                return code if code >= 0 else 128 - code
    raise AssertionError("unreachable: the last process is returned")
