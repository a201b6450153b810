"""Requests to a bucket end, are trusted only if the bucket confirms them, and change only what was seen."""

from __future__ import annotations

import gc
import hashlib
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import trm_data.storage.gcs
from tests.gcs.conftest import URL
from tests.gcs.server import GcsServer
from trm_data.errors import BucketError, BusyError
from trm_data.storage import lease as leases
from trm_data.storage.gcs import BucketStore, bucket_store
from trm_data.storage.root import Layout


@contextmanager
def silent_server() -> Generator[str, None, None]:
    """Accept connections and read nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken: list[socket.socket] = []
        ended = threading.Event()

        def take() -> None:
            listening.settimeout(0.1)
            while not ended.is_set():
                try:
                    taken.append(listening.accept()[0])
                except TimeoutError:
                    continue

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()
            for connection in taken:
                connection.close()


@pytest.mark.parametrize("size", [1000, 8 * 2**20])
def test_an_upload_that_nobody_reads_ends(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for name, value in {"SILENCE_S": 0.2, "CONNECT_S": 0.2, "PATIENCE_S": 0.3, "FIRST_WAIT_S": 0.02}.items():
        monkeypatch.setattr(trm_data.storage.gcs, name, value)
    monkeypatch.setattr(trm_data.storage.gcs, "SLOWEST_BYTES", 2**24)
    with silent_server() as url:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        with pytest.raises(BucketError, match=r"could not write x \(no answer within"):
            bucket_store(URL).create("x", bytes(size))


@pytest.mark.parametrize("body", [b"", b"{}", b"[" * 100_000, b'{"md5Hash": "", "name": "x"}', b"ok"])
def test_a_write_is_believed_by_what_the_bucket_says_of_it(
    server: GcsServer, bucket: Layout, body: bytes
) -> None:
    server.faults.answers = [(200, body)]
    with pytest.raises(
        BucketError, match="could not write x: unexpected response, not from Google Cloud Storage"
    ):
        bucket_store(URL).create("x", b"content")


def test_an_upload_is_repeated_if_the_bucket_keeps_half_a_part(
    server: GcsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trm_data.storage.gcs, "PART_BYTES", 2**20)
    content = bytes(range(256)) * 4096 * 10
    (tmp_path / "file").write_bytes(content)
    server.forgets_parts = 2
    assert bucket_store(URL).upload("big", tmp_path / "file", hashlib.sha256(content).hexdigest())
    assert server.forgets_parts == 0
    assert server.objects["bucket"]["trm/big"].data == content


def test_folders_that_others_mark_are_passed_over(server: GcsServer, bucket: Layout) -> None:
    server.put("bucket", "trm/datasets/small/", b"")
    server.put("bucket", "trm/datasets/small/x", b"1")
    assert bucket.store.names("datasets/small") == ["datasets/small/x"]
    bucket.store.delete_folder("datasets/small")
    assert server.names("bucket") == ["trm/datasets/small/"]


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # google-auth leaves a 401 unread
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_without_credentials_a_refusal_is_final(server: GcsServer, bucket: Layout) -> None:
    server.faults.answers = [(401, b'{"error": {"message": "Anonymous caller"}}')] * 10
    before = server.requests
    with pytest.raises(BucketError, match="401; no credentials were found"):
        bucket_store(URL).read("x")
    assert server.requests - before == 1
    gc.collect()


# Only the object seen while the lease was held is replaced or deleted.


def test_a_claim_that_was_taken_over_between_two_requests_is_not_ours(
    server: GcsServer, bucket: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "POLL_S", 0.01)
    asked, create, stat, looks = bucket_store(URL), BucketStore.create, BucketStore.stat, 0
    other = b'{"host": "other", "process": 1}'

    def create_and_sleep(self: BucketStore, path: str, content: bytes) -> bool:
        created = create(self, path, content)
        if created:
            server.put("bucket", f"trm/{path}", other)  # meanwhile another machine took over
        return created

    def stat_and_beat(self: BucketStore, path: str) -> object:
        nonlocal looks
        looks += 1
        if looks == 3:
            server.objects["bucket"][f"trm/{path}"].metageneration += 1
        return stat(self, path)

    monkeypatch.setattr(BucketStore, "create", create_and_sleep)
    monkeypatch.setattr(BucketStore, "stat", stat_and_beat)
    with (
        pytest.raises(BusyError, match="another machine is working on this"),
        leases.bucket_lease(asked, "d/.building", "this"),
    ):
        pass
    assert server.objects["bucket"]["trm/d/.building"].data == other


def test_time_in_which_the_bucket_was_out_of_reach_makes_nobody_dead(
    server: GcsServer, bucket: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder of a lease could not renew it either; its heartbeat comes at the fourth poll after the outage."""
    monkeypatch.setattr(leases, "LEASE_S", 0.6)
    monkeypatch.setattr(leases, "POLL_S", 0.02)
    server.put("bucket", "trm/d/.building", b'{"host": "other", "process": 1}')
    looks, stat = 0, BucketStore.stat

    def stat_and_count(self: BucketStore, path: str) -> object:
        nonlocal looks
        looks += 1
        if looks == 2:
            server.faults.unavailable_until = time.monotonic() + 1.2
        if looks == 6:
            server.objects["bucket"]["trm/d/.building"].metageneration += 1
        return stat(self, path)

    monkeypatch.setattr(BucketStore, "stat", stat_and_count)
    with (
        pytest.raises(BusyError, match=r"another machine is working on this \(other, process 1"),
        leases.bucket_lease(bucket_store(URL), "d/.building", "this"),
    ):
        pass


class Slept:
    """A lease that is lost during a check; then another machine finishes."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def check(self) -> None:
        self.act()


@pytest.mark.parametrize("what", ["note", "manifest", "leftovers"])
def test_what_another_wrote_while_we_looked_stays(server: GcsServer, bucket: Layout, what: str) -> None:
    folder = bucket.dataset("small")
    names = {
        "note": "README.md",
        "manifest": "manifest.json",
        "leftovers": "train-00000-of-00001.array_record",
    }
    name = f"trm/datasets/small/{names[what]}"
    server.put("bucket", name, b"old")
    slept = Slept(lambda: server.put("bucket", name, b"of the other machine"))
    if what == "note":
        with pytest.raises(BucketError):  # another generation, four times
            folder.publish_note("README.md", b"ours", slept.check)
    elif what == "manifest":
        folder.withdraw_manifest(slept)
    else:
        folder.remove_leftovers([], slept.check)
    assert server.objects["bucket"][name].data == b"of the other machine"
