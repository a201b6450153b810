"""The contract of `Store`, for both stores; and who takes over a lease."""

import hashlib
import json
import pickle
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import trm_data.storage.lease
from tests.gcs.conftest import URL
from tests.gcs.server import GcsServer
from trm_data.errors import BusyError, CorruptDatasetError
from trm_data.storage.gcs import bucket_store
from trm_data.storage.lease import bucket_lease, locked
from trm_data.storage.local import LocalStore
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder, Store

CONTENT = b"some bytes"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(params=["local", "bucket"])
def store(
    request: pytest.FixtureRequest, server: GcsServer, machine: Callable[[str], Layout], tmp_path: Path
) -> Store:
    return machine("first").store if request.param == "bucket" else LocalStore(tmp_path / "root")


def test_small_files(store: Store) -> None:
    assert store.read("a/b.json") is None
    assert store.stat("a/b.json") is None
    assert store.current("a/b.json") is None
    store.write("a/b.json", b"one")
    first = store.stat("a/b.json")
    store.write("a/b.json", b"other")
    second = store.stat("a/b.json")
    assert store.read("a/b.json") == b"other"
    assert first is not None
    assert second is not None
    assert (first.size_bytes, second.size_bytes) == (3, 5)
    assert first.generation != second.generation
    assert store.delete("a/b.json")
    assert not store.delete("a/b.json")
    assert store.read("a/b.json") is None


def test_only_one_creates(store: Store) -> None:
    assert store.create("c", b"mine")
    assert store.create("c", b"mine")  # as after a lost response
    assert not store.create("c", b"yours")
    assert store.read("c") == b"mine"


def test_names_are_those_of_whole_files(store: Store) -> None:
    for name in ("x/1/config.json", "x/2/config.json", "x/2/deep/part", "y/3/config.json"):
        store.write(name, CONTENT)
    assert store.names("x", "*/config.json") == ["x/1/config.json", "x/2/config.json"]
    assert store.names("x") == ["x/1/config.json", "x/2/config.json", "x/2/deep/part"]
    assert store.names("nothing") == []
    store.working("x/.tmp-0-1-part").parent.mkdir(parents=True, exist_ok=True)
    store.working("x/.tmp-0-1-part").write_bytes(b"half")
    assert store.names("x", "*") == []
    store.remove_temporary("x")
    assert not store.working("x/.tmp-0-1-part").exists()
    store.delete_folder("x")
    assert store.names("x") == []
    assert store.names("y", "*/*") == ["y/3/config.json"]


def test_a_file_is_written_here_and_finished(store: Store) -> None:
    folder = Folder(store, "runs/one")
    folder.working("part").write_bytes(CONTENT)
    folder.finish("part", SHA256)
    path = folder.current("part")
    assert path is not None
    assert path.read_bytes() == CONTENT
    assert store.fetch("runs/one/part", len(CONTENT), SHA256).read_bytes() == CONTENT
    assert store.damage("runs/one/part", len(CONTENT), SHA256) == ""
    assert "has" in store.damage("runs/one/part", len(CONTENT) + 1, SHA256)
    assert "is missing" in store.damage("runs/one/other", len(CONTENT), SHA256)
    with pytest.raises(CorruptDatasetError, match="is missing"):
        store.fetch("runs/one/other", 1, SHA256)


@pytest.mark.parametrize("content", [b"", b"\r", b"\n", b"a\r\n", b"--==0==--", b"x" * 300 + b"\r"])
def test_every_byte_arrives(store: Store, content: bytes) -> None:
    path = store.working("files/a")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    store.finish("files/a", hashlib.sha256(content).hexdigest())
    assert store.read("files/a") == content
    store.write("b", content)
    assert store.read("b") == content


def test_a_small_file_is_there_at_every_moment_of_its_replacement(
    server: GcsServer, machine: Callable[[str], Layout]
) -> None:
    store = machine("first").store
    store.write("note", b"one")
    before = len(server.log)
    store.write("note", b"two")
    assert [method for method, _ in server.log[before:]] == [
        "GET",
        "WRITE",
    ]  # one stat, then one request to replace it


def test_a_store_travels_to_another_machine(store: Store, machine: Callable[[str], Layout]) -> None:
    store.write("a", CONTENT)
    machine("second")
    copy = pickle.loads(pickle.dumps(store))  # noqa: S301
    assert copy.place == store.place
    assert copy.read("a") == CONTENT
    assert (copy.machine == store.machine) == isinstance(store, LocalStore)


def test_a_root_is_text_a_path_a_layout_or_a_store(store: Store) -> None:
    assert resolve_root(store).store is store
    assert resolve_root(resolve_root(store)).store is store
    assert resolve_root(store.place).store == store


def test_a_folder_is_locked_once(store: Store) -> None:
    folder = Folder(store, "runs/one")
    with locked(folder, "busy"), pytest.raises(BusyError, match="busy"), locked(folder, "busy"):
        pass


HOLD = """
import sys, time
from trm_data.storage.lease import bucket_lease
from trm_data.storage.gcs import bucket_store
with bucket_lease(bucket_store(sys.argv[1]), "runs/x/.building", "run x"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_lease_of_a_killed_process_is_taken_over_once_it_expires(
    server: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trm_data.storage.lease, "LEASE_S", 0.5)
    monkeypatch.setattr(trm_data.storage.lease, "POLL_S", 0.05)
    holder = {"host": "h", "process": 1, "began": "b"}
    bucket_store(URL).create("runs/x/.building", json.dumps(holder).encode())
    begun = time.monotonic()
    with bucket_lease(bucket_store(URL), "runs/x/.building", "run x"):
        assert time.monotonic() - begun > 0.5
