"""What a process that a batch starts does before its program: it takes its share, and ends with its batch."""

from __future__ import annotations

import os
import signal
import threading

from trm_train.batch.devices import take_share


def begin() -> None:
    """Take this process's share of the machine, and stop as for SIGTERM when the batch is gone, however it ended.

    The batch holds the other end of the standard input, on which nothing is sent, as long as it lives.
    """
    take_share()
    threading.Thread(target=_end_with_batch, daemon=True).start()


def _end_with_batch() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
