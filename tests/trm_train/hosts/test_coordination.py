"""What processes must have in common, and how each of them ends."""

from __future__ import annotations

import atexit
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from trm_data.command import Exit
from trm_data.errors import BucketError, LabError
from trm_train.errors import ConfigError, HostError, NotFiniteError
from trm_train.hosts import coordination
from trm_train.hosts.coordination import Hosts, differences, exit_code_of


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
    assert alone.silent() == []
    with pytest.raises(ConfigError), alone.failing_together():
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
    monkeypatch.setattr(coordination, "POLL_S", 0.01)
    with pytest.raises(HostError, match=f"waited {seconds} s for process 1"):
        Hosts(0, 2, Store()).barrier("a place", limit_s=0.0)


def test_a_service_that_answers_again_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign of life that was not taken is no reason to give no more of them."""
    monkeypatch.setattr(coordination, "BEAT_S", 0.01)
    taken = threading.Event()

    class Faulty(Store):
        calls = 0

        def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None:
            self.calls += 1
            if 2 <= self.calls <= 5:
                raise RuntimeError("UNAVAILABLE")
            if self.calls > 8:
                taken.set()
            super().key_value_set(key, value, allow_overwrite)

    with Hosts(0, 2, Faulty()).failing_together():
        assert taken.wait(10.0)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (HostError("in its own words"), "in its own words"),
        (SystemExit(Exit.TERMINATED), "SIGTERM"),
        (KeyboardInterrupt(), "Ctrl-C"),
        (SystemExit(Exit.ERROR), "2"),
        (ValueError(), "ValueError"),
    ],
)
def test_what_the_others_are_told_of_a_failure(
    error: BaseException, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atexit, "register", lambda *_: None)
    monkeypatch.setattr(threading.Timer, "start", lambda _: None)
    store = Store()
    Hosts(1, 2, store).fail(error)
    assert json.loads(store.values["trm/failed/1"]) == {"code": exit_code_of(error), "text": said}


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
def test_a_process_that_fails_ends_the_others_with_its_own_code(error: BaseException, code: int) -> None:
    assert exit_code_of(error) == code
