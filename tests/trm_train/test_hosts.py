"""What processes must have in common, and how each of them ends.

The rank of a process comes from its options, else from the environment; missing values are named.
"""

from __future__ import annotations

import atexit
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from trm_data.errors import BucketError, Exit, LabError
from trm_train import hosts
from trm_train.errors import ConfigError, HostError
from trm_train.hosts import (
    Hosts,
    Place,
    check_devices,
    differences,
    exit_code_of,
    place_of,
)


def name(index: int) -> str:
    return f"process {index}"


def test_the_one_that_differs_from_most_is_named() -> None:
    same, other = {"optim.lr": 1e-4, "numpy": "2.4"}, {"optim.lr": 1e-3, "numpy": "2.4"}
    assert differences([same, same], name) == []
    assert differences([other, same, same], name) == ["process 0: optim.lr is 0.001, of process 1 0.0001"]
    assert differences([same, other], name) == ["process 1: optim.lr is 0.001, of process 0 0.0001"]
    assert differences([same, {}], name) == [
        'process 1: numpy is null, of process 0 "2.4"',
        "process 1: optim.lr is null, of process 0 0.0001",
    ]


def test_one_process_alone_waits_for_nobody() -> None:
    alone = Hosts()
    assert alone.is_coordinator
    assert alone.barrier("anywhere", "x") == ["x"]
    alone.prove_equal("anything", {"a": 1})
    with pytest.raises(ConfigError), alone.ending_alone():
        raise ConfigError("as ever")


class Store:
    """What jax's coordination service keeps, in one process."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None:
        assert allow_overwrite or key not in self.values, key
        self.values[key] = value

    def key_value_delete(self, key: str) -> None:
        del self.values[key]

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        return [(name, value) for name, value in dict(self.values).items() if name.startswith(key)]


def test_processes_meet_at_a_place_more_than_once() -> None:
    store = Store()
    hosts = [Hosts(index, 2, store) for index in range(2)]

    def go(host: Hosts) -> list[list[str]]:
        return [host.barrier("a place", f"{host.index}, time {time}", 10.0) for time in range(12)]

    with ThreadPoolExecutor(2) as pool:
        for met in pool.map(go, hosts):
            assert met == [[f"{index}, time {time}" for index in range(2)] for time in range(12)]
    assert len(store.values) == 2, "what all have read does not stay in process 0 for as long as a run takes"


@pytest.mark.parametrize(("patience", "seconds"), [(None, "0"), ("5", "0"), ("100.4", "0"), ("101", "1")])
def test_a_barrier_waits_longer_where_a_bucket_is_waited_for_longer(
    monkeypatch: pytest.MonkeyPatch, patience: str | None, seconds: str
) -> None:
    monkeypatch.delenv("TRM_BUCKET_PATIENCE_S", raising=False)
    if patience is not None:
        monkeypatch.setenv("TRM_BUCKET_PATIENCE_S", patience)
    monkeypatch.setattr(hosts, "POLL_S", 0.01)
    with pytest.raises(HostError, match=f"waited {seconds} s for process 1"):
        Hosts(0, 2, Store()).barrier("a place", limit_s=0.0)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HostError("x"), Exit.ERROR),
        (BucketError("x"), Exit.BUCKET),
        (LabError("of a package that this one does not know"), Exit.ERROR),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (SystemExit(Exit.TERMINATED), Exit.TERMINATED),
        (ValueError("a bug"), 1),
    ],
)
def test_the_exit_code_of_an_error(error: BaseException, code: int) -> None:
    assert exit_code_of(error) == code


def test_a_process_that_fails_leaves_before_the_shutdown_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[tuple[object, ...]] = []
    started: list[threading.Timer] = []
    monkeypatch.setattr(atexit, "register", lambda *given: registered.append(given))
    monkeypatch.setattr(threading.Timer, "start", lambda timer: started.append(timer))
    host = Hosts(1, 2, Store())
    for _ in range(2):  # of the training loop, and of the command
        with pytest.raises(HostError), host.ending_alone():
            raise HostError("x", Exit.STALLED)
    assert [given[1:] for given in registered] == [(Exit.STALLED,)]
    assert [(timer.interval, timer.args) for timer in started] == [(hosts.CLOSING_S, ("x", Exit.STALLED))]


def test_options_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert place_of(None, None, None) is None
    assert place_of("a:1", 2, 1) == Place("a:1", 1, 2)
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "b:2")
    monkeypatch.setenv("JAX_NUM_PROCESSES", "4")
    monkeypatch.setenv("JAX_PROCESS_ID", "3")
    assert place_of(None, None, None) == Place("b:2", 3, 4)
    assert place_of("a:1", 2, 0) == Place("a:1", 0, 2)
    monkeypatch.setenv("JAX_PROCESS_ID", "three")
    with pytest.raises(HostError, match="JAX_PROCESS_ID='three': expected a whole number"):
        place_of(None, None, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("a:1", None, 0), r"--num-processes \(or JAX_NUM_PROCESSES\) is missing"),
        (("a:1", 0, 0), "--num-processes 0: expected at least 1"),
        (("a:1", 2, 2), "--process-id 2: expected 0 to 1"),
        ((None, 2, 0), "need --coordinator HOST:PORT"),
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


@pytest.mark.parametrize("text", ["host", "host:65536", "fd00::1:80"])
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(HostError, match="expected HOST:PORT"):
        place_of(text, 2, 0)


def test_process_0_of_a_loopback_address_listens_on_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[str | None] = []
    monkeypatch.setattr(
        hosts.jax.distributed,
        "initialize",
        lambda *_, coordinator_bind_address, **__: bound.append(coordinator_bind_address),
    )
    for address in ("localhost:1", "[fd00::1]:8476", "host-0:1"):
        hosts._start_jax(place_of(address, 2, 0), 1.0)
    assert bound == ["localhost:1", None, None]
