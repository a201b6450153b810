"""The cache of a machine: verified at every use, within its limit, safe for several processes."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import trm_data.storage.cache
from tests.gcs.conftest import URL
from tests.gcs.server import GcsServer
from trm_data.building.flow import build_dataset
from trm_data.errors import CorruptDatasetError, SpecError
from trm_data.loader.dataset import open_dataset
from trm_data.storage.cache import cached_file, limit_bytes, user_cache
from trm_data.storage.root import Layout


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(trm_data.storage.cache, "SPARED_S", 0.0)
    return tmp_path / "cache" / "files"


def cached(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*/*") if path.name != ".lock"]


def occupied(folder: Path) -> int:
    return sum(path.stat().st_size for path in cached(folder))


class Source:
    """Files to fetch; records the fetches, and the largest size of the cache."""

    def __init__(self, slow_s: float = 0.0) -> None:
        self.fetched: list[str] = []
        self.peak_bytes = 0
        self.slow_s = slow_s

    def get(self, content: bytes, **options: bool) -> Path:
        digest = hashlib.sha256(content).hexdigest()

        def fetch(target: Path) -> bool:
            self.fetched.append(digest)
            time.sleep(self.slow_s)
            target.write_bytes(content)
            self.peak_bytes = max(self.peak_bytes, occupied(target.parents[1]))
            return True

        return cached_file(digest, len(content), fetch, "gs://b/file", **options)


def content(number: int, size: int = 1000) -> bytes:
    return bytes([number]) * size


def test_a_file_is_fetched_once_and_again_if_it_is_damaged(cache: Path) -> None:
    source = Source()
    path = source.get(content(1))
    assert source.get(content(1)) == path
    assert len(source.fetched) == 1
    path.write_bytes(content(2))  # same size
    assert source.get(content(1)).read_bytes() == content(1)
    path.write_bytes(b"short")
    assert source.get(content(1)).read_bytes() == content(1)
    assert len(source.fetched) == 3
    source.get(content(1), fresh=True)
    assert len(source.fetched) == 4


def test_what_arrives_damaged_is_fetched_again_and_then_refused(cache: Path) -> None:
    digest, arrivals = hashlib.sha256(b"right").hexdigest(), [b"wrong", b"right", *[b"wrong"] * 4]

    def fetch(target: Path) -> bool:
        target.write_bytes(arrivals.pop(0))
        return True

    assert cached_file(digest, 5, fetch, "gs://b/file").read_bytes() == b"right"
    with pytest.raises(CorruptDatasetError, match=r"^gs://b/file: its bytes have changed"):
        cached_file(digest, 5, fetch, "gs://b/file", fresh=True)
    with pytest.raises(CorruptDatasetError, match=r"^gs://b/file: is missing"):
        cached_file("0" * 64, 5, lambda target: False, "gs://b/file")
    assert [path.name for path in cached(cache)] == [digest]


def test_the_bound_holds_and_the_oldest_go_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRM_CACHE_BYTES", "5e3")
    source = Source()
    for number in range(5):
        os.utime(source.get(content(number)), (number, number))
    os.utime(source.get(content(0)), (100, 100))  # used again
    for number in (5, 6):
        os.utime(source.get(content(number)), (100 + number, 100 + number))
    assert {path.read_bytes()[0] for path in cached(cache)} == {0, 3, 4, 5, 6}
    assert source.peak_bytes == occupied(cache) == 5000
    large = source.get(content(9, 6000))  # over the limit: it becomes the only file
    assert cached(cache) == [large]


def test_many_threads_fetch_a_file_once(cache: Path) -> None:
    source = Source(slow_s=0.2)
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(source.get, [content(1)] * 8))
    assert len(set(paths)) == len(source.fetched) == 1
    assert paths[0].read_bytes() == content(1)


def test_what_was_just_used_is_spared(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRM_CACHE_BYTES", "1000")
    monkeypatch.setattr(trm_data.storage.cache, "SPARED_S", 10.0)
    source = Source()
    paths = [source.get(content(number)) for number in range(3)]
    assert all(path.is_file() for path in paths)


def test_what_a_killed_process_left_goes(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRM_CACHE_BYTES", "3000")
    left = cache / "ab" / f".tmp-{'ab' * 32}"
    left.parent.mkdir(parents=True)
    left.write_bytes(bytes(2900))
    source = Source()
    source.get(content(1))
    assert left.is_file()  # its writer may be active
    os.utime(left, (1, 1))
    source.get(content(2))
    assert not left.exists()


def test_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache() == tmp_path / "trm"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # XDG says to ignore relative paths
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert user_cache() == tmp_path / "home" / ".cache" / "trm"
    monkeypatch.setenv("TRM_CACHE_BYTES", "much")
    with pytest.raises(SpecError, match="TRM_CACHE_BYTES=much: expected a number of bytes"):
        limit_bytes()


def test_several_processes_fetch_a_file_once(
    server: GcsServer, bucket: Layout, request_small: Callable[..., object], tmp_path: Path
) -> None:
    """Four processes open a dataset at once; each shard is requested from the server once."""
    build_dataset(request_small(), bucket, shard_examples=50)
    program = f"from trm_data import open_dataset; print(open_dataset('small', '{URL}').content_digest)"
    environment = {**os.environ, "TRM_CACHE": str(tmp_path / "shared"), "PYTHONASYNCIODEBUG": "1"}
    server.log.clear()
    server.faults.slow, server.faults.slow_s = 10**6, 0.3  # so that they overlap
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    outputs = [process.communicate(timeout=600) for process in processes]
    digests = {out.strip() for out, _ in outputs}
    # asyncio warns of slow steps because of the machine; all other warnings are about open connections
    errors = [line for _, err in outputs for line in err.splitlines()]
    assert [line for line in errors if not line.startswith("Executing <")] == []
    assert [process.returncode for process in processes] == [0] * 4
    assert len(digests) == 1
    shards = [name for method, name in server.log if method == "GET" and name.endswith(".array_record")]
    assert len(shards) == len(set(shards)) == 5


def test_a_flipped_byte_in_the_cache_is_fetched_again(
    server: GcsServer, bucket: Layout, request_small: Callable[..., object]
) -> None:
    build_dataset(request_small(), bucket, shard_examples=50)
    open_dataset("small", URL)
    server.log.clear()
    open_dataset("small", URL)
    assert not [name for _, name in server.log if name.endswith(".array_record")]
    shard = max(cached(user_cache() / "files"), key=lambda path: path.stat().st_size)
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(bytes(data))
    open_dataset("small", URL)
    assert len([name for _, name in server.log if name.endswith(".array_record")]) == 1
    assert hashlib.sha256(shard.read_bytes()).hexdigest() == shard.name
