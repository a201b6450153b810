"""What processes must have in common, and how each of them ends."""

from __future__ import annotations

import atexit
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from trm_data.command import Exit
from trm_data.errors import BucketError, LabError
from trm_train import hosts
from trm_train.errors import ConfigError, HostError, NotFiniteError
from trm_train.hosts import Hosts, differences, exit_code_of


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
        (HostError("x", Exit.STALLED), Exit.STALLED),
        (NotFiniteError("x"), Exit.NOT_FINITE),
        (BucketError("x"), Exit.BUCKET),
        (LabError("of a package that this one does not know"), Exit.ERROR),
        (OSError("x"), Exit.ERROR),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (SystemExit(Exit.TERMINATED), Exit.TERMINATED),
        (SystemExit(), Exit.DONE),
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
