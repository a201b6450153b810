"""The roll call starts processes together, and names those that are missing, extra or from another run."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from trm_data.command import Exit
from trm_train.errors import HostError
from trm_train.hosts import roll_call
from trm_train.hosts.roll_call import Address, gather, parse_address, report


@pytest.fixture
def address() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return Address("127.0.0.1", server.getsockname()[1])


def silent(_: str) -> None:
    """Ignore the message."""


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_all_begin_when_the_last_has_come(address: Address) -> None:
    said: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(report, address, index, 4, 20.0, silent) for index in (3, 1)]
        first = pool.submit(gather, address, 4, 20.0, said.append)
        until(lambda: any("3 of 4" in line for line in said))
        assert not first.done()
        assert said[-1] == "3 of 4 hosts joined; waiting for process 2"
        others.append(pool.submit(report, address, 2, 4, 20.0, silent))
        for one in (first, *others):
            one.result(20)
    assert said[0] == "1 of 4 hosts joined; waiting for process 1, 2, 3"
    assert said[-1] == "4 of 4 hosts joined"
    with socket.create_server((address.host, address.port)):
        pass  # the port is free for jax's own service


def test_one_process_waits_for_nobody(address: Address) -> None:
    gather(address, 1, 5.0, silent)


def test_those_who_have_not_come_are_named_to_all(address: Address) -> None:
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(report, address, 2, 4, 20.0, silent)
        first = pool.submit(gather, address, 4, 1.0, silent)
        for one in (first, other):
            with pytest.raises(
                HostError, match=r"after 1 s 2 of 4 hosts joined; waiting for process 1, 3; start"
            ) as raised:
                one.result(20)
            assert raised.value.exit_code == Exit.STALLED, "those who are missing may come later"


def test_a_process_started_twice_is_refused_and_the_others_go_on(address: Address) -> None:
    said: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(gather, address, 3, 20.0, said.append)
        one = pool.submit(report, address, 1, 3, 20.0, silent)
        until(lambda: any("2 of 3" in line for line in said))
        with pytest.raises(
            HostError, match=r"process 1 was started twice: on .* \(pid \d+\), which has joined"
        ) as raised:
            report(address, 1, 3, 20.0, silent)
        assert raised.value.exit_code == Exit.ERROR
        two = pool.submit(report, address, 2, 3, 20.0, silent)
        for joined in (first, one, two):
            joined.result(20)
    assert any(line.startswith("refused: process 1 was started twice") for line in said)


@pytest.mark.parametrize(
    ("index", "count", "message"),
    [(1, 2, "says --num-processes 2, process 0 says 3"), (5, 3, "the others have --process-id 1 to 2")],
)
def test_a_process_that_counts_otherwise_is_refused(
    address: Address, index: int, count: int, message: str
) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(gather, address, 3, 2.0, silent)
        with pytest.raises(HostError, match=message):
            report(address, index, count, 10.0, silent)
        with pytest.raises(HostError, match="waiting for process 1, 2"):
            first.result(20)


def test_one_that_goes_away_has_to_come_again(address: Address) -> None:
    said: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        first: Future[None] = pool.submit(gather, address, 2, 20.0, said.append)
        until(lambda: bool(said))
        assert not first.done()
        three = socket.create_connection((address.host, address.port))
        three.close()  # sends nothing
        with socket.create_connection((address.host, address.port)) as noise:
            noise.sendall(b"GET / HTTP/1.1\r\n\r\n" + b"x" * 100_000)
        report(address, 1, 2, 20.0, silent)
        first.result(20)
    assert said == ["1 of 2 hosts joined; waiting for process 1", "2 of 2 hosts joined"]


def test_a_process_that_was_killed_while_it_waited_is_waited_for_again(address: Address) -> None:
    said: list[str] = []
    hello = b'{"trm": 1, "process": 1, "of": 3, "host": "b", "pid": 7}\n'
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(gather, address, 3, 20.0, said.append)
        until(lambda: bool(said))
        with socket.create_connection((address.host, address.port)) as killed:
            killed.sendall(hello)
            until(lambda: said[-1].startswith("2 of 3"))
        until(lambda: said[-1].startswith("1 of 3"))
        assert "process 1 (b, pid 7) disconnected" in said
        others = [pool.submit(report, address, index, 3, 20.0, silent) for index in (1, 2)]
        for one in (first, *others):
            one.result(20)


def test_a_coordinator_that_does_not_answer(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll_call, "SAY_AFTER_S", 0.2)
    said: list[str] = []
    with pytest.raises(HostError, match=rf"{address}: nobody answers there after 1 s \(Connection refused\)"):
        report(address, 1, 2, 1.0, said.append)
    assert said == [f"waiting for process 0 at {address}"]


def test_another_program_at_the_coordinators_port(address: Address) -> None:
    def other(server: socket.socket) -> None:
        link, _ = server.accept()
        with link:
            link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            link.recv(1000)

    with socket.create_server((address.host, address.port)) as server:
        thread = threading.Thread(target=other, args=(server,))
        thread.start()
        with pytest.raises(HostError, match="answers, but is not a coordinator"):
            report(address, 1, 2, 5.0, silent)
        thread.join()
        with pytest.raises(HostError, match="process 0 cannot listen there"):
            gather(address, 2, 5.0, silent)


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":80", "host:0", "host:65536", "host:8a", "fd00::1:80"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(HostError, match="expected HOST:PORT"):
        parse_address(text)


def test_addresses() -> None:
    assert parse_address("10.0.0.1:8476") == Address("10.0.0.1", 8476)
    assert parse_address("[fd00::1]:8476") == Address("fd00::1", 8476)
    assert str(parse_address("[fd00::1]:8476")) == "[fd00::1]:8476"
    assert (parse_address("localhost:1").bind, parse_address("host-0:1").bind) == ("localhost", "")
