"""Listens for the notice that this machine is about to be taken away, where it is one of Google Cloud's.

The notice comes some seconds before the signal that ends everything: time to take the same last step as the other
hosts, and to save it. Source: Google Cloud's documentation of preemptible and spot VMs (`instance/preempted` of the
metadata server, which answers when it changes).
"""

from __future__ import annotations

import os
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

from trm_train.training.stop import StopRequest

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
