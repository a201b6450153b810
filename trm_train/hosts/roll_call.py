"""Roll call of the processes of a run, before jax is initialized.

Process 0 listens at the coordinator's address. Every other process sends its number, stays connected, and is told who
else has joined. When all have, process 0 frees the address for jax's own service. The roll call names a process that is
missing, started twice, or given another process count; jax's service would only end the process. A missing process may
come later, so it ends with the exit code that `--restarts` retries; other errors end with the code for bad input.

Received data are not trusted: lines of JSON with limited length, each value checked.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from trm_data.command import Exit
from trm_train.errors import HostError

PROTOCOL = 1
LONGEST_LINE = 16384
"""Maximum length of a line (bytes)."""
HELLO_S = 5.0
"""Timeout for connecting and for the first message (s)."""
RETRY_S = 0.25
SAY_AFTER_S = 5.0
"""Waiting time for the coordinator after which a process reports it (s)."""
ANSWER_S = 10.0
"""Additional waiting time of the other processes (s): process 0 times out first, and reports the missing ones."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Address:
    """Network address of the coordinator."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def bind(self) -> str:
        """Address that process 0 binds to: loopback only if the coordinator's name is a loopback name."""
        return self.host if self.host in ("localhost", "::1") or self.host.startswith("127.") else ""


def parse_address(text: str) -> Address:
    """Parse `HOST:PORT`; an IPv6 host is in brackets."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise HostError(f"--coordinator {text}: expected HOST:PORT, such as 10.0.0.1:8476 or [fd00::1]:8476")
    return Address(host, int(port))


def gather(address: Address, count: int, limit_s: float, say: Say) -> None:
    """Process 0: wait until all others have joined."""
    asyncio.run(_RollCall(address, count, say).take(limit_s))


def report(address: Address, index: int, count: int, limit_s: float, say: Say) -> None:
    """Other processes: join, and wait until all have joined."""
    deadline = time.monotonic() + limit_s
    hello = {"trm": PROTOCOL, "process": index, "of": count, "host": socket.gethostname(), "pid": os.getpid()}
    with _connected(address, deadline, limit_s, say) as link, link.makefile("rb") as lines:
        try:
            link.sendall(_line(hello))
            while True:
                link.settimeout(max(deadline + ANSWER_S - time.monotonic(), 0.1))
                said = _message(lines.readline(LONGEST_LINE))
                if isinstance(said.get("error"), str):
                    raise HostError(said["error"], Exit.STALLED if said.get("late") is True else Exit.ERROR)
                if said.get("go") is True:
                    return
                say(_progress(_processes(said.get("joined"), count), count))
        except TimeoutError:
            text = f"{address}: the coordinator has not answered for {limit_s:.0f} s"
            raise HostError(text, Exit.STALLED) from None
        except (OSError, ValueError) as error:
            raise HostError(
                f"{address}: answers, but is not a coordinator ({error}). Another program has that port, the run "
                f"started without this process, or process 0 has ended",
                Exit.STALLED,
            ) from error


@dataclass(frozen=True)
class _Present:
    """A process that has joined."""

    host: str
    pid: int
    writer: asyncio.StreamWriter


def wait_for_service(address: Address, limit_s: float, say: Say) -> None:
    """Wait until jax's service listens: a jax client that connects too early retries only after 20 s."""
    _connected(address, time.monotonic() + limit_s, limit_s, say).close()


class _RollCall:
    """Process 0's side of the roll call."""

    def __init__(self, address: Address, count: int, say: Say) -> None:
        self._address, self._count, self._say = address, count, say
        self._present: dict[int, _Present] = {}
        self._all = asyncio.Event()
        self._over = False

    async def take(self, limit_s: float) -> None:
        """Listen until all have joined, then stop listening."""
        try:
            server = await asyncio.start_server(
                self._answer, self._address.bind or None, self._address.port, limit=LONGEST_LINE
            )
        except OSError as error:
            raise HostError(
                f"--coordinator {self._address}: process 0 cannot listen there ({error.strerror or error}). Was it "
                f"started twice, or does another program have that port?"
            ) from error
        try:
            self._tell()
            await asyncio.wait_for(self._all.wait(), limit_s)
            self._over = True
            server.close()
            self._send({"go": True})
        except TimeoutError:
            text = (
                f"after {limit_s:.0f} s {self._progress()}; start what is missing, then all processes again "
                "(--join-s waits longer)"
            )
            self._send({"error": text, "late": True})
            raise HostError(text, Exit.STALLED) from None
        finally:
            self._over = True
            server.close()
            for present in self._present.values():
                with suppress(OSError, TimeoutError):
                    await asyncio.wait_for(present.writer.drain(), HELLO_S)
                present.writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it closes or the roll call ends."""
        with suppress(asyncio.CancelledError):  # asyncio of Python 3.11 would print the cancellation
            await self._hear(reader, writer)

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection from its first line until it closes."""
        try:
            said = _message(await asyncio.wait_for(reader.readline(), HELLO_S))
            index, present = self._hello(said, writer)
        except (OSError, ValueError, TimeoutError):  # not a process of a run
            writer.close()
            return
        except HostError as error:
            self._say(f"refused: {error}")
            writer.write(_line({"error": str(error)}))
            writer.close()
            return
        self._present[index] = present
        self._tell()
        with suppress(OSError, ValueError):
            while await reader.read(LONGEST_LINE):
                pass
        if not self._over:
            del self._present[index]
            self._say(f"process {index} ({present.host}, pid {present.pid}) disconnected")
            self._tell()

    def _hello(self, said: dict[str, Any], writer: asyncio.StreamWriter) -> tuple[int, _Present]:
        """Check the first message of a process; return its number and data."""
        index, of, host, pid = (said.get(name) for name in ("process", "of", "host", "pid"))
        if (
            said.get("trm") != PROTOCOL
            or type(index) is not int
            or type(of) is not int
            or type(pid) is not int
        ):
            raise ValueError("no process of a run")
        host = "".join(c for c in str(host)[:100] if c.isprintable())
        if of != self._count:
            raise HostError(
                f"process {index} ({host}, pid {pid}) says --num-processes {of}, process 0 says {self._count}"
            )
        if not 0 < index < self._count:
            raise HostError(
                f"process {index} ({host}, pid {pid}): the others have --process-id 1 to {self._count - 1}"
            )
        if (there := self._present.get(index)) is not None:
            raise HostError(
                f"process {index} was started twice: on {there.host} (pid {there.pid}), which has joined, and on "
                f"{host} (pid {pid}), which is refused; give each its own --process-id"
            )
        return index, _Present(host, pid, writer)

    def _tell(self) -> None:
        """Report who has joined, here and to the joined processes."""
        self._say(self._progress())
        self._send({"joined": [0, *sorted(self._present)]})
        if len(self._present) == self._count - 1:
            self._all.set()

    def _progress(self) -> str:
        return _progress({0, *self._present}, self._count)

    def _send(self, message: dict[str, Any]) -> None:
        for present in self._present.values():
            present.writer.write(_line(message))


def _progress(joined: set[int], count: int) -> str:
    """Return a message on who has joined and who has not."""
    missing = [str(index) for index in range(count) if index not in joined]
    waiting = f"; waiting for process {', '.join(missing)}" if missing else ""
    return f"{len(joined)} of {count} hosts joined{waiting}"


def _connected(address: Address, deadline: float, limit_s: float, say: Say) -> socket.socket:
    """Connect to the coordinator; retry until the deadline, because it may start later."""
    begun, said = time.monotonic(), False
    while True:
        left = deadline - time.monotonic()
        try:
            return socket.create_connection(
                (address.host, address.port), timeout=max(min(left, HELLO_S), 0.1)
            )
        except OSError as error:
            if left <= 0:
                text = (
                    f"--coordinator {address}: nobody answers there after {limit_s:.0f} s "
                    f"({error.strerror or error}); start process 0 on that machine, or correct the address"
                )
                raise HostError(text, Exit.STALLED) from error
        if not said and time.monotonic() - begun > SAY_AFTER_S:
            said = True
            say(f"waiting for process 0 at {address}")
        time.sleep(RETRY_S)


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _message(line: bytes) -> dict[str, Any]:
    """Parse a received line."""
    if not line.endswith(b"\n"):
        raise ValueError("it hung up" if not line else "it speaks otherwise")
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise ValueError("it speaks otherwise") from error
    if not isinstance(value, dict):
        raise ValueError("it speaks otherwise")
    return value  # pyright: ignore[reportUnknownVariableType]


def _processes(value: Any, count: int) -> set[int]:
    """Check received process numbers."""
    if not isinstance(value, list) or not all(type(one) is int and 0 <= one < count for one in value):
        raise ValueError("it speaks otherwise")
    return set(value)  # pyright: ignore[reportUnknownArgumentType]
