"""A connection of one machine to the loopback bucket, which a certain request cuts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

CHUNK_BYTES = 65_536


class Proxy:
    """Forwards everything until a request contains one of some words; from then on it refuses connections.

    Args:
        port: Port of the server on this machine.
        words: Words of a write request.

    Attributes:
        url: URL of the proxy.
    """

    def __init__(self, port: int, words: tuple[bytes, ...]) -> None:
        self._port, self._words, self._cut = port, words, threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self._cut.is_set():
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._port))
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while said := one.recv(CHUNK_BYTES):
                if b"POST" in said and any(word in said for word in self._words):
                    self._cut.set()
                if self._cut.is_set():
                    break
                other.sendall(said)
        one.close()
        other.close()


@contextmanager
def proxy_of(url: str, *words: bytes) -> Generator[Proxy, None, None]:
    """Run a proxy of the server at `url`."""
    proxy = Proxy(int(url.rpartition(":")[2]), words)
    try:
        yield proxy
    finally:
        proxy.close()
