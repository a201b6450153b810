"""Responses that differ from the bucket's content, that are malformed, or that do not arrive."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trm_data.storage.gcs
from tests.gcs.conftest import URL
from tests.gcs.server import GcsServer
from trm_data.errors import BucketError, CorruptDatasetError, SpecError
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import read_manifest
from trm_data.storage.gcs import bucket_store
from trm_data.storage.root import Layout

Make = Callable[..., Any]
Machine = Callable[[str], Layout]
FOLDER = "trm/datasets/small/"
MANIFEST = f"{FOLDER}manifest.json"


@pytest.mark.parametrize("fault", ["shortened_downloads", "flipped_downloads"])
@pytest.mark.parametrize("states_hashes", [True, False])
def test_small_reads_are_compared_and_read_again(
    server: GcsServer,
    built: str,
    machine: Machine,
    fault: str,
    states_hashes: bool,
) -> None:
    server.states_hashes = states_hashes
    second = machine("second")
    for count in (1, 2):
        setattr(server.faults, fault, count)
        assert read_manifest(second, "small").content_digest == built
        assert getattr(server.faults, fault) == 0
    assert open_dataset("small", URL).content_digest == built


def test_answers_that_differ_each_time_are_the_networks_fault(server: GcsServer, built: str) -> None:
    name, there = MANIFEST, server.objects["bucket"][MANIFEST]

    class Changing(bytes):
        """Bytes of which a varying number arrives."""

    counts = iter(range(1, 100))
    send = type(there)

    def cut(self: Any) -> bytes:
        return content[: next(counts)]

    content = there.data
    changing = type("Changing", (send,), {"data": property(cut, lambda self, value: None)})
    there.__class__ = changing
    with pytest.raises(BucketError, match=r"received bytes differ"):
        bucket_store("gs://bucket").read(name)


def test_what_a_bucket_holds_is_called_damaged_when_it_was_read_twice(
    server: GcsServer,
    built: str,
    machine: Machine,
) -> None:
    server.flip_byte("bucket", MANIFEST, 40)
    before = server.requests
    with pytest.raises(CorruptDatasetError, match=r"manifest\.json: "):
        open_dataset("small", machine("second"))
    assert server.requests - before >= 2


def test_a_silent_server_is_given_up_after_what_is_promised(
    server: GcsServer,
    bucket: Layout,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    promised = trm_data.storage.gcs.PATIENCE_S, trm_data.storage.gcs.SILENCE_S
    assert promised == (100.0, 20.0)  # as in docs/buckets-and-hosts.md
    monkeypatch.setattr(trm_data.storage.gcs, "SILENCE_S", 1.0)
    monkeypatch.setattr(trm_data.storage.gcs, "PATIENCE_S", 1.9)
    monkeypatch.setattr(trm_data.storage.gcs, "FIRST_WAIT_S", 0.02)
    server.faults.slow, server.faults.slow_s = 10**6, 5.0
    before = server.requests
    with pytest.raises(
        BucketError,
        match=r"gs://bucket/trm: could not read datasets/small/manifest.json \(no answer within 1 s; asked \d+ times? "
        r"in \d+ s\); check the network",
    ):
        read_manifest(bucket, "small")
    assert server.requests - before <= 3
    server.faults.slow = 0


REFUSALS = (
    b"",
    b"null",
    b"<html>no</html>",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"error": null}',
    b'{"error": "no"}',
    b'{"error": {}}',
    b'{"error": {"message": null}}',
    b'{"error": {"message": {"a": 1}, "code": "x"}}',
    b'{"error": {"code": [400], "message": "invalid"}}',
    b'{"error": {"message": "' + b"no " * 1000 + b'"}}',
)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # google-auth leaves a 401 unread
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("status", [400, 401, 403, 409, 500, 502, 599])
@pytest.mark.usefixtures("impatient")
def test_refusals_of_any_form_end_in_one_line(
    server: GcsServer, bucket: Layout, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trm_data.storage.gcs, "PATIENCE_S", 0.03)
    for body in REFUSALS:
        server.faults.answers = [(status, body)] * 10
        with pytest.raises(BucketError, match=r"could not read ") as caught:
            bucket.store.read("datasets/small/manifest.json")
        said = str(caught.value)
        assert len(said) < 900
        assert "\n" not in said
        assert ("asked as nobody" in said) == (status in (401, 403) and "unexpected response" not in said)
        assert str(status) in said or "unexpected response" in said
    del caught
    gc.collect()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"<html>log in</html>",
        b"\xff",
        b'{"items": 3}',
        b'{"name": 3}',
        b'{"name": "x", "size": "many", "generation": "1", "metageneration": "1"}',
        b'{"items": [null]}',
        b'{"nextPageToken": ["x"], "items": "abc"}',
    ],
)
@pytest.mark.usefixtures("impatient")
def test_answers_of_another_form_end_in_one_line(server: GcsServer, bucket: Layout, body: bytes) -> None:
    server.faults.answers = [(200, body)] * 3
    with pytest.raises(BucketError, match="unexpected response, not from Google Cloud Storage"):
        bucket.store.stat("a/b")
    if not body.startswith(b'{"name"'):  # a valid empty listing
        with pytest.raises(BucketError, match="unexpected response, not from Google Cloud Storage"):
            bucket.store.names("datasets", "*/manifest.json")


@pytest.mark.parametrize("content", [None, b"", b"{", b"{}", b'{"type": "service_account"}', b"\xff", b"[]"])
def test_credentials_that_cannot_be_used_are_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "credentials.json"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    with pytest.raises(SpecError, match=r"GOOGLE_APPLICATION_CREDENTIALS=.*credentials.json: cannot be used"):
        bucket_store("gs://bucket/trm").stat("x")
