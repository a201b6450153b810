"""Stop requests of a run: SIGTERM (a preemption), Ctrl-C, or low speed.

On Google Cloud a notice comes some seconds before the signal of a preemption: time to take the same last step as the
other hosts, and to save it. Source: Google Cloud's documentation of preemptible and spot VMs (`instance/preempted` of
the metadata server, which answers when it changes).
"""

from __future__ import annotations

import os
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from types import FrameType
from typing import Any

from trm_data.command import Exit
from trm_data.command.signals import Heard, handled

URL_VARIABLE = "TRM_METADATA_URL"
"""Environment variable: another metadata server than Google's."""
METADATA_URL = "http://metadata.google.internal/computeMetadata/v1"
PRODUCT = Path("/sys/class/dmi/id/product_name")
"""Says whose machine this is."""
WAIT_S = 60
"""The server answers so late if nothing changes."""
AGAIN_S = 5.0
"""Pause before the next request where the server does not answer."""
PAUSE_S = 1.0
"""Pause before the next request after an answer: a server that answers at once is not asked all the time."""


class StoppedError(Exception):
    """The work was abandoned because the run was asked to stop."""


@dataclass
class StopRequest:
    """Whether the run was asked to stop.

    Attributes:
        signal: Number of the signal that asked; 0 while none has.
        too_slow: It is slower than the user asks for.
        agreed: Where several processes train the run: the exit code of those that were asked, known to all of them
            after the same step, and 0 while there is none; None in a process that is alone.
        ask: Given the exit code that this process wishes, returns the greatest that any does, before it is known.
    """

    signal: int = 0
    too_slow: bool = False
    agreed: int | None = None
    ask: Callable[[int], Any] | None = None
    _asked: Any = None

    @property
    def requested(self) -> bool:
        """Something has asked, and all processes know."""
        return bool(self.wish if self.agreed is None else self.agreed)

    @property
    def exit_code(self) -> int:
        """How a process ends that was asked so."""
        return self.wish if self.agreed is None else self.agreed

    @property
    def wish(self) -> int:
        """How this process was asked to end; 0 while it was not."""
        if self.signal:
            return 128 + self.signal
        return Exit.STALLED if self.too_slow else Exit.DONE

    def take_over(self, heard: Heard | None) -> None:
        """Take over from what has heard of signals so far, so that none is lost in between."""
        if heard is None:
            return
        heard.close()
        self.signal = self.signal or next(iter(heard.signals), 0)

    def agree(self) -> None:
        """Ask the other processes, where there are any; what was asked at the call before is known now.

        All processes call it equally often, so that all know after the same step, or the same batch of a validation.
        """
        if self.ask is None:
            return
        self.agreed, self._asked = 0 if self._asked is None else int(self._asked), self.ask(self.wish)


@contextmanager
def stop_signals() -> Generator[StopRequest, None, None]:
    """Note the first signal; a second one, of either kind, ends the process at once, as if nobody listened."""
    stop = StopRequest()

    def request(number: int, frame: FrameType | None) -> None:
        stop.signal = stop.signal or number
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    with handled(request, signal.SIGTERM, signal.SIGINT):
        yield stop


def metadata_url() -> str | None:
    """Where to ask; None on a machine that is not Google Cloud's."""
    if given := os.environ.get(URL_VARIABLE):
        return given.rstrip("/")
    try:
        return METADATA_URL if "Google" in PRODUCT.read_text() else None
    except (OSError, UnicodeDecodeError):
        return None


@contextmanager
def preemption_stops(stop: StopRequest) -> Generator[None, None, None]:
    """Within, a notice asks the run to stop as SIGTERM does; elsewhere than on Google Cloud nothing listens."""
    url = metadata_url()
    if url is None:
        yield
        return
    ended = threading.Event()

    threading.Thread(target=listen, args=(url, stop, ended), name="preemption", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def listen(url: str, stop: StopRequest, ended: threading.Event) -> None:
    """Ask until the machine is being taken away, which asks the run to stop, or until `ended` is set."""
    while not ended.is_set():
        answer = _ask(url)
        if answer == "TRUE":
            stop.signal = stop.signal or signal.SIGTERM
            return
        ended.wait(AGAIN_S if answer is None else PAUSE_S)


def _ask(url: str) -> str | None:
    """Whether the machine is being taken away, `TRUE` or `FALSE`, when that changes; None without an answer."""
    question = f"{url}/instance/preempted?wait_for_change=true&timeout_sec={WAIT_S}"
    request = urllib.request.Request(question, headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=2 * WAIT_S) as answer:
            return answer.read(16).decode("ascii", "replace").strip()
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return None
    except (OSError, HTTPException):
        return None
