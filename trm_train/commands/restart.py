"""Automatic restarts of a run: a child process trains it, and a new child process resumes it after a failure."""

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
"""Delay between exit and restart (s), in which resources of the old process are released."""
RESTARTED = (Exit.BUCKET, Exit.STALLED)
"""Exit codes with a restart: the bucket was unreachable; hosts were lost, or training stalled or was too slow."""


def once(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments to add to those of a run, so that `--resume never` discards it at most once."""
    resume, rest = take_option("--resume", list(arguments))
    if resume != "never" or take_option("--anew-once", rest)[0] is not None:
        return ()
    return ("--anew-once", secrets.token_hex(8))


def train_with_restarts(arguments: list[str], restarts: int, say: Callable[[str], None]) -> int:
    """Run `trm-train`, and restart it if it was killed, crashed, or lost its bucket or other hosts.

    A stop signal is forwarded to the training process; then there is no further restart.

    Args:
        arguments: Arguments of the command, without those for restarts.
        restarts: Maximum number of restarts.
        say: Shows a message to the user.

    Returns:
        Exit code of the last process; 128 plus the number of the signal that killed it.
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
            # A separate session: Ctrl-C of a terminal reaches the process only once, through `pass_on`.
            # Its stdin closes when this process dies, and then it ends too.
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *arguments], stdin=subprocess.PIPE, start_new_session=True
            )
            if asked:  # the signal arrived before the process existed
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
