"""Faults of a bucket: each one passes or ends in a clear error; none gives a wrong or partial dataset."""

from collections.abc import Callable

import pytest

import trm_data.storage.gcs
from tests.gcs.conftest import URL
from tests.gcs.server import GcsServer
from trm_data.building.flow import build_dataset
from trm_data.engine.local import LocalEngine
from trm_data.errors import BucketError, DatasetNotFoundError
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import list_datasets, read_manifest
from trm_data.storage.root import Layout
from trm_data.verify.flow import verify_dataset

Make = Callable[..., object]
Machine = Callable[[str], Layout]
ONE = LocalEngine(1)
pytestmark = pytest.mark.usefixtures("impatient")


@pytest.fixture
def built(bucket: Layout, request_small: Make) -> str:
    """Build `small` on the bucket; return its content digest."""
    return build_dataset(request_small(), bucket, shard_examples=50).manifest.content_digest


@pytest.mark.parametrize(
    "faults",
    [
        {"unavailable": 5},
        {"cut_uploads": 3},
        {"lost_answers": 3},
        {"slow": 3, "slow_s": 1.0},
        {"unavailable": 3, "cut_uploads": 2, "lost_answers": 2},
    ],
    ids=lambda faults: "+".join(faults),
)
def test_a_build_outlives_faults(
    server: GcsServer,
    bucket: Layout,
    small_layout: Layout,
    request_small: Make,
    machine: Machine,
    faults: dict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trm_data.storage.gcs, "SILENCE_S", 0.3)
    for fault, count in faults.items():
        setattr(server.faults, fault, count)
    built = build_dataset(request_small(), bucket, shard_examples=50, engine=ONE).manifest
    assert all(getattr(server.faults, fault) == 0 for fault in faults if fault != "slow_s"), "did not happen"
    assert built.content_digest == read_manifest(small_layout, "small").content_digest
    assert verify_dataset(machine("second"), "small").problems == []
    assert not [name for name in server.names("bucket") if name.endswith(".building")]


def test_uploads_in_parts_outlive_faults(
    server: GcsServer, bucket: Layout, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file above 8 MiB is uploaded in parts; a part can be lost, or arrive without an acknowledgement."""
    import hashlib
    import random

    monkeypatch.setattr(trm_data.storage.gcs, "PART_BYTES", 2**20)
    content = random.Random(0).randbytes(10 * 2**20 + 5)
    (tmp_path / "file").write_bytes(content)
    store = trm_data.storage.gcs.bucket_store(URL)
    digest = hashlib.sha256(content).hexdigest()
    server.faults.cut_uploads, server.faults.lost_answers = 2, 1
    assert store.upload("big", tmp_path / "file", digest)
    assert server.faults.cut_uploads == server.faults.lost_answers == 0
    assert server.objects["bucket"]["trm/big"].data == content
    assert not store.upload("big", tmp_path / "file", digest)
    server.faults.cut_downloads = 2
    assert store.download("big", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == content


@pytest.mark.parametrize(
    "faults",
    [{"unavailable": 5}, {"cut_downloads": 5}, {"slow": 3, "slow_s": 600.0}],
    ids=lambda f: "+".join(f),
)
def test_reading_outlives_faults(
    server: GcsServer, built: str, machine: Machine, faults: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trm_data.storage.gcs, "SILENCE_S", 0.3)
    machine("second")
    for fault, count in faults.items():
        setattr(server.faults, fault, count)
    assert open_dataset("small", URL).content_digest == built
    assert all(getattr(server.faults, fault) == 0 for fault in faults if fault != "slow_s"), "did not happen"


def test_a_bucket_that_stays_away_ends_in_a_clear_error(
    server: GcsServer, bucket: Layout, built: str, request_small: Make, machine: Machine
) -> None:
    second = machine("second")
    server.faults.unavailable = 10**6
    with pytest.raises(BucketError, match=r"gs://bucket/trm: could not read .*check the network"):
        open_dataset("small", URL)
    with pytest.raises(BucketError, match="check the network"):
        build_dataset(request_small(name="other"), second)
    server.faults.unavailable = 0
    assert second.dataset_names() == ["small"]
    server.faults.cut_downloads = 10**6
    with pytest.raises(BucketError, match="check the network"):
        open_dataset("small", URL)
    server.faults.cut_downloads = 0
    assert open_dataset("small", URL).content_digest == built


def test_an_error_in_the_middle_of_a_build_leaves_no_dataset(
    server: GcsServer, bucket: Layout, request_small: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, away = server.put, [10**6]

    def put_until_four(bucket: str, name: str, data: bytes, **fields: object) -> object:
        if sum(name.endswith(".array_record") for name in server.written) == 4:
            server.faults.unavailable = away.pop() if away else 0
        return put(bucket, name, data, **fields)

    monkeypatch.setattr(server, "put", put_until_four)
    with pytest.raises(BucketError):
        build_dataset(request_small(), bucket, shard_examples=50, engine=ONE)
    server.faults.unavailable = 0
    assert bucket.dataset_names() == []
    again = build_dataset(request_small(), bucket, shard_examples=50, engine=ONE)
    assert again.shards_kept >= 4
    assert verify_dataset(bucket, "small").problems == []


def test_listings_that_are_behind(
    server: GcsServer, bucket: Layout, request_small: Make, machine: Machine
) -> None:
    server.freeze_listings()
    built = build_dataset(request_small(), bucket, shard_examples=50).manifest
    second = machine("second")
    assert second.dataset_names() == []  # it exists, and opens by name
    assert open_dataset("small", URL).content_digest == built.content_digest
    assert verify_dataset(second, "small").problems == []
    server.freeze_listings()
    del server.objects["bucket"]["trm/datasets/small/manifest.json"]
    assert second.dataset_names() == ["small"]  # it no longer exists
    assert list_datasets(second) == []
    with pytest.raises(DatasetNotFoundError):
        open_dataset("small", URL)
