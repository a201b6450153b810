"""Datasets on a bucket: built and read there, equal to local ones; damage and partial builds are detected."""

import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import trm_data
import trm_data.storage.lease
from tests.gcs.conftest import URL
from tests.gcs.server import GcsServer
from tests.support.roots import remove_dataset
from trm_data.building.flow import build_dataset
from trm_data.catalog.query import query_catalog
from trm_data.cli import main
from trm_data.engine.local import LocalEngine
from trm_data.errors import BucketError, BuildError, CorruptDatasetError, DatasetNotFoundError, SpecError
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import Manifest, read_manifest, write_manifest
from trm_data.specs import canonical_json
from trm_data.storage.lease import leased
from trm_data.storage.root import Layout, resolve_root
from trm_data.verify.flow import verify_dataset

Make = Callable[..., object]
Machine = Callable[[str], Layout]


@pytest.fixture
def built(bucket: Layout, request_small: Make) -> Manifest:
    """Build `small` on the bucket as the machine `first`, which stays the current machine."""
    return build_dataset(request_small(), bucket, shard_examples=50).manifest


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run `trm-data`; return exit code, and stdout with stderr."""
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out + captured.err


def written_shards(server: GcsServer) -> list[str]:
    return [name.rsplit("/", 1)[1] for name in server.written if name.endswith(".array_record")]


def test_a_dataset_on_a_bucket_is_the_local_one(
    built: Manifest, bucket: Layout, small_layout: Layout, machine: Machine
) -> None:
    assert built.content_digest == read_manifest(small_layout, "small").content_digest
    assert not bucket.dataset("small").here.exists() or not list(
        bucket.dataset("small").here.rglob("*.array_record")
    )
    machine("second")
    for split in ("train", "validation", "test"):
        there, here = open_dataset("small", URL, split), open_dataset("small", small_layout.machine, split)
        rows = np.arange(len(here))
        for key, values in here.read(rows).items():
            np.testing.assert_array_equal(there.read(rows)[key], values)
    assert verify_dataset(resolve_root(URL), "small").problems == []


def test_the_loader_gives_the_same_batches(built: Manifest, small_layout: Layout, machine: Machine) -> None:
    machine("second")
    batches = []
    for root in (URL, small_layout.machine):
        dataset = open_dataset("small", root, budget_bytes=1)  # mapped from decoded files
        with trm_data.make_loader(dataset, global_batch_size=16, seed=5) as loader:
            batches.append([next(loader) for _ in range(20)])
    for there, here in zip(*batches, strict=True):
        for key in here:
            np.testing.assert_array_equal(there[key], here[key])


def test_the_commands(
    built: Manifest, machine: Machine, capsys: pytest.CaptureFixture[str], server: GcsServer
) -> None:
    machine("second")
    code, out = run(capsys, "list", "--root", URL, "--json")
    assert code == 0
    assert [one["name"] for one in json.loads(out)] == ["small"]
    code, out = run(capsys, "describe", "small", "--root", URL, "--json")
    assert json.loads(out)["folder"] == f"{URL}/datasets/small"
    code, out = run(capsys, "show", "small", "--root", URL)
    assert code == 0
    assert "the original of group 0" in out
    code, out = run(capsys, "verify", "small", "--root", URL)
    assert (code, "small: whole" in out) == (0, True)
    remove_dataset(resolve_root(URL), "small")
    code, out = run(capsys, "describe", "small", "--root", URL)
    assert code == 2
    assert f"no dataset 'small' under {URL}" in out


def test_results_sql_reads_the_catalog_of_a_bucket(built: Manifest, machine: Machine) -> None:
    from trm_eval.tables.query import query_results

    machine("second")
    assert query_results(resolve_root(URL), "SELECT dataset FROM datasets").rows == [("small",)]


def test_a_second_build_uploads_nothing(
    built: Manifest, server: GcsServer, machine: Machine, request_small: Make
) -> None:
    server.written.clear()
    again = build_dataset(request_small(), machine("second"), shard_examples=50)
    assert again.unchanged
    assert again.manifest == built
    assert server.written == []
    with pytest.raises(SpecError, match="seed: 3 there, 5 asked"):
        build_dataset(request_small(seed=5), machine("second"))
    assert read_manifest(machine("second"), "small") == built


def test_another_machine_goes_on_without_uploading_whole_shards_again(
    built: Manifest, server: GcsServer, machine: Machine, request_small: Make
) -> None:
    del server.objects["bucket"]["trm/datasets/small/manifest.json"]
    del server.objects["bucket"]["trm/datasets/small/train-00003-of-00005.array_record"]
    server.put("bucket", "trm/datasets/small/train-00001-of-00005.array_record", b"not ours")
    server.written.clear()
    again = build_dataset(request_small(), machine("second"), shard_examples=50, engine=LocalEngine(2))
    assert (again.shards_written, again.shards_kept) == (2, 5)
    assert sorted(written_shards(server)) == [
        "train-00001-of-00005.array_record",
        "train-00003-of-00005.array_record",
    ]
    assert again.manifest.content_digest == built.content_digest
    assert verify_dataset(machine("third"), "small").problems == []


def test_leftovers_of_another_division_are_removed(
    built: Manifest, server: GcsServer, machine: Machine, request_small: Make
) -> None:
    del server.objects["bucket"]["trm/datasets/small/manifest.json"]
    server.put("bucket", "trm/datasets/small/notes.txt", b"a person's")
    build_dataset(request_small(), machine("second"), shard_examples=1000)
    shards = [name for name in server.names("bucket") if name.endswith(".array_record")]
    assert len(shards) == 3
    assert "trm/datasets/small/notes.txt" in server.names("bucket")
    assert not any(".building" in name for name in server.names("bucket"))


def test_a_flipped_byte_in_an_object_is_found(built: Manifest, server: GcsServer, machine: Machine) -> None:
    first = machine("first")
    open_dataset("small", URL)
    server.flip_byte("bucket", "trm/datasets/small/train-00002-of-00005.array_record", 200)
    (problem,) = verify_dataset(first, "small").problems  # although this machine's cache has the right bytes
    assert "train-00002-of-00005.array_record: its bytes have changed" in problem
    assert problem.startswith(URL)
    machine("second")
    with pytest.raises(CorruptDatasetError, match=r"gs://.*train-00002.*: its bytes have changed"):
        open_dataset("small", URL)
    del server.objects["bucket"]["trm/datasets/small/train-00002-of-00005.array_record"]
    with pytest.raises(CorruptDatasetError, match=r"gs://.*train-00002.*: is missing"):
        open_dataset("small", URL)


def test_no_manifest_no_dataset(built: Manifest, server: GcsServer, machine: Machine, bucket: Layout) -> None:
    del server.objects["bucket"]["trm/datasets/small/manifest.json"]
    assert bucket.dataset_names() == []
    with pytest.raises(DatasetNotFoundError):
        open_dataset("small", URL)


def test_only_one_manifest_of_two(built: Manifest, server: GcsServer, bucket: Layout) -> None:
    import dataclasses

    before = server.objects["bucket"]["trm/datasets/small/manifest.json"].data
    write_manifest(bucket.dataset("small"), built)  # the same bytes, as after a lost response
    later = dataclasses.replace(built, built_at="2030-01-01T00:00:00+00:00")
    with pytest.raises(BuildError, match="another machine published a dataset of this name"):
        write_manifest(bucket.dataset("small"), later)
    assert server.objects["bucket"]["trm/datasets/small/manifest.json"].data == before


def test_two_machines_at_once(
    server: GcsServer, machine: Machine, request_small: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trm_data.storage.lease, "BEAT_S", 0.1)
    monkeypatch.setattr(trm_data.storage.lease, "POLL_S", 0.05)
    with leased(machine("first").dataset("small")) as turn:
        second = machine("second")
        with pytest.raises(BuildError, match=r"another machine is working on this dataset \(.*process \d+"):
            build_dataset(request_small(), second)
        turn.check()
    assert not build_dataset(request_small(), second).unchanged


def test_a_dead_machine_is_taken_over_and_its_ghost_publishes_nothing(
    server: GcsServer, machine: Machine, request_small: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trm_data.storage.lease, "LEASE_S", 0.3)
    monkeypatch.setattr(trm_data.storage.lease, "POLL_S", 0.05)
    with leased(machine("first").dataset("small")) as turn:  # its first heartbeat comes after BEAT_S
        build_dataset(request_small(), machine("second"))
        with pytest.raises(BuildError, match="another machine took over"):
            turn.check()
    assert verify_dataset(machine("third"), "small").problems == []


def test_two_builds_race_for_the_name(
    server: GcsServer, machine: Machine, request_small: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two machines with different specifications at the same time produce one complete dataset."""
    monkeypatch.setattr(trm_data.storage.lease, "BEAT_S", 0.1)
    monkeypatch.setattr(trm_data.storage.lease, "POLL_S", 0.05)
    results: list[object] = []

    def build(layout: Layout, seed: int) -> None:
        try:
            results.append(
                build_dataset(request_small(seed=seed), layout, shard_examples=20).manifest.spec.seed
            )
        except (BuildError, SpecError) as error:
            results.append(error)

    threads = [
        threading.Thread(target=build, args=(machine(name), seed))
        for seed, name in enumerate(("first", "second"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seeds = [result for result in results if isinstance(result, int)]
    assert len(seeds) == 1, results
    assert read_manifest(machine("third"), "small").spec.seed == seeds[0]
    assert verify_dataset(machine("third"), "small").problems == []


@pytest.mark.parametrize(
    "file",
    ["../other/train-00000-of-00001.array_record", "/etc/passwd", "manifest.json"],
)
def test_a_manifest_that_leads_elsewhere(
    built: Manifest, server: GcsServer, machine: Machine, file: str, tmp_path: Path
) -> None:
    path = "trm/datasets/small/manifest.json"
    content = json.loads(server.objects["bucket"][path].data)
    content["splits"]["test"]["shards"][0]["file"] = file
    del content["manifest_digest"]
    forged = {**content, "manifest_digest": hashlib.sha256(canonical_json(content)).hexdigest()}
    server.put("bucket", path, json.dumps(forged).encode())
    with pytest.raises(CorruptDatasetError, match="can be no file of a dataset"):
        open_dataset("small", URL)
    local = resolve_root(tmp_path / "local")
    local.dataset("small").here.mkdir(parents=True)
    (local.dataset("small").here / "manifest.json").write_text(json.dumps(forged))
    with pytest.raises(CorruptDatasetError, match="can be no file of a dataset"):
        open_dataset("small", local.machine)
    assert len(verify_dataset(local, "small").problems) == 1


@pytest.mark.parametrize(
    "root",
    [
        "gs://",
        "gs://b",
        "gs://bucket/../x",
        "gs://bucket/a*",
        "gs:/bucket/x",
    ],
)
def test_roots_that_are_none(root: str) -> None:
    with pytest.raises(SpecError, match="expected a local folder or gs://bucket/prefix"):
        resolve_root(root)


def test_a_bucket_that_is_not_there(server: GcsServer, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BucketError, match="bucket missing does not exist"):
        resolve_root("gs://missing/trm").dataset_names()
    code, out = run(capsys, "build", "sudoku", "--size", "2", "--box", "2x3", "--root", "gs://missing/trm")
    assert code == 4
    assert "bucket missing does not exist" in out


def test_the_index_of_a_bucket_follows_other_machines(
    built: Manifest, machine: Machine, request_small: Make
) -> None:
    second = machine("second")
    assert query_catalog(second, "SELECT count(*) FROM datasets").rows == [(1,)]
    build_dataset(request_small(name="more", size=4), machine("first"))
    machine("second")
    assert query_catalog(second, "SELECT dataset FROM datasets ORDER BY 1").rows == [("more",), ("small",)]
