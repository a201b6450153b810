"""A loopback bucket, and machines that share nothing but the bucket."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import etils.epath.backend
import pytest

import trm_data.storage.gcs
from tests.gcs.server import GcsServer
from tests.support.roots import copy_root
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout, resolve_root

URL = "gs://bucket/trm"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Generator[GcsServer, None, None]:
    """Start the server with two empty buckets, `bucket` and `other`."""
    with GcsServer("bucket", "other") as started:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", started.url)
        monkeypatch.setenv("TENSORSTORE_GCS_HTTP_URL", started.url)
        monkeypatch.setenv("GOOGLE_AUTH_TOKEN_FOR_TESTING", "t")
        monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        from gcsfs import GCSFileSystem  # it reads its settings at import

        etils.epath.backend._FileSystemSpecBackend._get_filesystem.cache_clear()  # it still has the previous server
        GCSFileSystem.clear_instance_cache()
        yield started


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Layout]:
    """Return a function that switches to the machine of a name and returns its layout of `URL`."""

    def become(name: str) -> Layout:
        monkeypatch.setenv("TRM_CACHE", str(tmp_path / name))
        return resolve_root(URL)

    return become


@pytest.fixture
def bucket(server: GcsServer, machine: Callable[[str], Layout]) -> Layout:
    """The layout of `URL` on the machine `first`."""
    return machine("first")


@pytest.fixture
def built(bucket: Layout, small_layout: Layout) -> str:
    """Copy `small` to the bucket; return its content digest."""
    copy_root(small_layout, bucket, "datasets/small")
    return read_manifest(bucket, "small").content_digest


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten retries: 0.02 s before the first one (usually 1 s), and a timeout of 3 s."""
    monkeypatch.setattr(trm_data.storage.gcs, "FIRST_WAIT_S", 0.02)
    monkeypatch.setattr(trm_data.storage.gcs, "PATIENCE_S", 3.0)
