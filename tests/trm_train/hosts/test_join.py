"""The rank of a process comes from its options, else from the environment; missing values are named."""

from __future__ import annotations

import pytest

from trm_train.errors import HostError
from trm_train.hosts import Address, Place, check_devices, parse_address, place_of

HERE = Address("a", 1)


def test_options_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert place_of(None, None, None) is None
    assert place_of("a:1", 2, 1) == Place(HERE, 1, 2)
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "b:2")
    monkeypatch.setenv("JAX_NUM_PROCESSES", "4")
    monkeypatch.setenv("JAX_PROCESS_ID", "3")
    assert place_of(None, None, None) == Place(Address("b", 2), 3, 4)
    assert place_of("a:1", 2, 0) == Place(HERE, 0, 2)
    monkeypatch.setenv("JAX_PROCESS_ID", "three")
    with pytest.raises(HostError, match="JAX_PROCESS_ID='three': expected a whole number"):
        place_of(None, None, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("a:1", None, 0), r"--num-processes \(or JAX_NUM_PROCESSES\) is missing"),
        (("a:1", 2, None), r"--process-id \(or JAX_PROCESS_ID\) is missing"),
        (("a:1", 0, 0), "--num-processes 0: expected at least 1"),
        (("a:1", 2, 2), "--process-id 2: expected 0 to 1"),
        (("a:1", 2, -1), "--process-id -1: expected 0 to 1"),
        ((None, 2, 0), "need --coordinator HOST:PORT"),
        (("a", 2, 0), "expected HOST:PORT"),
    ],
)
def test_what_cannot_be(given: tuple[str | None, int | None, int | None], message: str) -> None:
    with pytest.raises(HostError, match=message):
        place_of(*given)


def test_several_cpu_devices_a_process_are_refused() -> None:
    with pytest.raises(HostError, match=r"2 CPU devices in each of 3 processes: jax .* hangs"):
        check_devices("cpu", 2, 3)
    check_devices("cpu", 1, 3)
    check_devices("cpu", 8, 1)
    check_devices("tpu", 4, 8)


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":80", "host:0", "host:65536", "host:8a", "fd00::1:80"]
)
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(HostError, match="expected HOST:PORT"):
        parse_address(text)


def test_addresses() -> None:
    assert parse_address("10.0.0.1:8476") == Address("10.0.0.1", 8476)
    assert str(parse_address("[fd00::1]:8476")) == "[fd00::1]:8476"
    assert parse_address("localhost:1").bind == "localhost:1"
    assert parse_address("host-0:1").bind is None
