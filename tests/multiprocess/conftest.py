"""A bucket on the loopback, shared by processes on simulated machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gcs.conftest import server as bucket_server
from tests.gcs.server import GcsServer

__all__ = ["bucket_server"]


@pytest.fixture
def server(bucket_server: GcsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> GcsServer:
    """The bucket server; the test itself acts as another machine."""
    monkeypatch.setenv("TRM_CACHE", str(tmp_path / "test"))
    return bucket_server
