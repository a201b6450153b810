"""Bytes replaced under unchanged metadata."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gcs.conftest import URL
from tests.gcs.server import GcsServer
from trm_data.building.flow import build_dataset
from trm_data.engine.local import LocalEngine
from trm_data.storage.gcs import bucket_store
from trm_data.storage.root import Layout
from trm_data.verify.flow import verify_dataset

Make = Callable[..., Any]
Machine = Callable[[str], Layout]
ONE = LocalEngine(1)
FOLDER = "trm/datasets/small/"


def replace_bytes(server: GcsServer, name: str) -> bytes:
    """Replace bytes by others of the same size, with the same metadata, like some copies; return the original bytes."""
    there = server.objects["bucket"][name]
    other = bytes([there.data[0] ^ 1]) + there.data[1:]
    server.put("bucket", name, other, metadata=dict(there.metadata))
    return there.data


@pytest.mark.parametrize("file", ["shard", "table"])
def test_replaced_bytes_are_seen_and_written_again(
    server: GcsServer,
    bucket: Layout,
    built: str,
    small_layout: Layout,
    request_small: Make,
    machine: Machine,
    file: str,
) -> None:
    suffix = ".array_record" if file == "shard" else "puzzles.parquet"
    name = next(name for name in server.names("bucket") if name.endswith(suffix))
    whole = replace_bytes(server, name)
    assert len(verify_dataset(bucket, "small").problems) >= 1
    again = build_dataset(request_small(), bucket, shard_examples=200, engine=ONE)
    assert not again.unchanged
    assert again.shards_written == (file == "shard")
    assert again.manifest.content_digest == built
    assert server.objects["bucket"][name].data == whole
    assert verify_dataset(machine("second"), "small").problems == []
    assert build_dataset(request_small(), bucket, engine=ONE).unchanged


def test_objects_of_before_state_no_md5_and_are_read(
    server: GcsServer,
    bucket: Layout,
    built: str,
    request_small: Make,
    machine: Machine,
) -> None:
    for there in server.objects["bucket"].values():
        there.metadata.pop("md5", None)
    assert build_dataset(request_small(), machine("second"), engine=ONE).unchanged
    name = next(name for name in server.names("bucket") if name.endswith(".array_record"))
    replace_bytes(server, name)
    assert not build_dataset(request_small(), machine("second"), engine=ONE).unchanged
    assert verify_dataset(machine("third"), "small").problems == []


def test_a_claim_that_cannot_be_given_back_is_said(
    server: GcsServer,
    bucket: Layout,
    request_small: Make,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.faults.denied_deletes = 10**6
    build_dataset(request_small(), bucket, engine=ONE)
    assert f"{FOLDER}.building" in server.names("bucket")
    (said,) = [record.getMessage() for record in caplog.records if record.name.startswith("trm_data")]
    assert ".building: the lease could not be given back, so other machines wait for 30 s" in said
    assert "forbidden" in said


def test_a_server_that_takes_line_ends_seriously(
    server: GcsServer,
    bucket: Layout,
    request_small: Make,
    machine: Machine,
    tmp_path: Path,
) -> None:
    server.strict = True
    build_dataset(request_small(), bucket, shard_examples=50, engine=ONE)
    assert verify_dataset(machine("second"), "small").problems == []
    for content in (b"", b"a", b"\r\n", b"a\r", b"\n", b"--"):
        (tmp_path / "file").write_bytes(content)
        import hashlib

        assert bucket_store(URL).upload("notes/x", tmp_path / "file", hashlib.sha256(content).hexdigest())
        assert server.objects["bucket"]["trm/notes/x"].data == content
