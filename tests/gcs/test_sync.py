"""`trm-data sync`: copies in every direction, resumes after an interruption, overwrites nothing."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import trm_data.storage.copy
from tests.gcs.conftest import URL
from tests.gcs.server import GcsServer
from trm_data.building.flow import build_dataset
from trm_data.catalog.query import query_catalog
from trm_data.cli import main
from trm_data.engine.local import LocalEngine
from trm_data.errors import CorruptDatasetError, DatasetNotFoundError, SpecError
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout, resolve_root
from trm_data.sync import sync_datasets
from trm_data.verify.flow import verify_dataset

Make = Callable[..., object]
Machine = Callable[[str], Layout]


@pytest.fixture
def local(tmp_path: Path, request_small: Make) -> Layout:
    """Return a local root with `small` in 7 shards."""
    layout = resolve_root(tmp_path / "local")
    build_dataset(request_small(), layout, shard_examples=50)
    return layout


def count(layout: Layout) -> int:
    """Return the number of files in the manifest."""
    return len(read_manifest(layout, "small").files)


def manifest_bytes(layout: Layout) -> bytes:
    return (layout.dataset("small").here / "manifest.json").read_bytes()


def test_there_and_to_another_bucket_and_back(
    local: Layout, server: GcsServer, machine: Machine, tmp_path: Path
) -> None:
    steps = [
        (local, machine("first")),
        (resolve_root(URL), resolve_root("gs://other")),
        (resolve_root("gs://other"), resolve_root(tmp_path / "back")),
        (resolve_root(tmp_path / "back"), resolve_root(tmp_path / "beside")),
    ]
    for number, (source, target) in enumerate(steps):
        machine(f"machine{number}")
        (done,), warnings = sync_datasets(source, target)
        assert (done.unchanged, done.files_copied, done.files_kept, warnings) == (False, count(local), 0, [])
        assert done.bytes_copied == read_manifest(local, "small").size_bytes
        assert verify_dataset(target, "small").problems == []
        assert query_catalog(target, "SELECT dataset FROM datasets").rows == [("small",)]
        (again,), _ = sync_datasets(source, target)
        assert (again.unchanged, again.files_copied) == (True, 0)
    back = resolve_root(tmp_path / "beside")
    assert manifest_bytes(back) == manifest_bytes(local)
    files = [
        path.relative_to(local.dataset("small").here) for path in local.dataset("small").here.rglob("*.*")
    ]
    assert len(files) == count(local) + 7 + 2  # and sidecars, card, manifest
    for file in files:
        assert (back.dataset("small").here / file).read_bytes() == (
            local.dataset("small").here / file
        ).read_bytes()


class StoppedError(Exception):
    """Simulates a process that ends during a copy."""


@pytest.mark.parametrize("target_url", [URL, ""])
def test_an_interrupted_copy_goes_on(
    local: Layout,
    server: GcsServer,
    machine: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target_url: str,
) -> None:
    machine("first")
    target = resolve_root(target_url or tmp_path / "target")
    left, store = [5], type(target.store)
    put = store.put

    def put_five(*arguments: object) -> bool:
        if not left[0]:
            raise StoppedError
        left[0] -= 1
        return put(*arguments)

    monkeypatch.setattr(trm_data.storage.copy, "AT_A_TIME", 1)
    monkeypatch.setattr(store, "put", put_five)
    with pytest.raises(StoppedError):
        sync_datasets(local, target)
    assert target.dataset_names() == []
    monkeypatch.setattr(store, "put", put)
    (done,), _ = sync_datasets(local, target)
    assert (done.files_copied, done.files_kept) == (count(local) - 5, 5)
    assert verify_dataset(target, "small").problems == []


def test_a_copy_can_be_repaired_and_built_upon(
    local: Layout, server: GcsServer, machine: Machine, request_small: Make
) -> None:
    target = machine("first")
    sync_datasets(local, target)
    del server.objects["bucket"]["trm/datasets/small/train-00001-of-00005.array_record"]
    (done,), _ = sync_datasets(local, target)
    assert (done.unchanged, done.files_copied) == (False, 1)
    del server.objects["bucket"]["trm/datasets/small/manifest.json"]
    again = build_dataset(request_small(), target, shard_examples=50, engine=LocalEngine(1))
    assert again.shards_kept == 7
    assert verify_dataset(machine("second"), "small").problems == []


@pytest.mark.parametrize("target_url", [URL, ""])
def test_another_dataset_of_the_name_stays(
    local: Layout,
    server: GcsServer,
    machine: Machine,
    tmp_path: Path,
    request_small: Make,
    target_url: str,
) -> None:
    machine("first")
    target = resolve_root(target_url or tmp_path / "target")
    there = build_dataset(request_small(seed=9), target).manifest
    with pytest.raises(SpecError, match="is another dataset with this name"):
        sync_datasets(local, target, ["small"])
    assert read_manifest(target, "small") == there
    assert verify_dataset(target, "small").problems == []


def test_what_is_damaged_is_not_copied(local: Layout, server: GcsServer, machine: Machine) -> None:
    shard = local.dataset("small").here / "train-00001-of-00005.array_record"
    data = bytearray(shard.read_bytes())
    data[50] ^= 1
    shard.write_bytes(bytes(data))
    target = machine("first")
    with pytest.raises(CorruptDatasetError, match=r"train-00001.*: its bytes have changed"):
        sync_datasets(local, target)
    assert target.dataset_names() == []
    assert "trm/datasets/small/train-00001-of-00005.array_record" not in server.names("bucket")


def test_names_and_roots(local: Layout, server: GcsServer, machine: Machine, request_small: Make) -> None:
    target = machine("first")
    build_dataset(request_small(name="more", size=4), local)
    with pytest.raises(DatasetNotFoundError, match=r"no dataset 'none' under .*; there are: more, small"):
        sync_datasets(local, target, ["more", "none"])
    assert server.names("bucket") == []
    with pytest.raises(SpecError, match="are the same root"):
        sync_datasets(local, local)
    done, _ = sync_datasets(local, target, ["more"])
    assert [one.name for one in done] == ["more"] == target.dataset_names()
    done, _ = sync_datasets(local, target)
    assert [(one.name, one.unchanged) for one in done] == [("more", True), ("small", False)]


def test_the_command(
    local: Layout, server: GcsServer, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine("first")

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["sync", *arguments])
        return int(ended.value.code or 0), *capsys.readouterr()

    code, out, _ = run(str(local.machine), URL, "small", "--json")
    found = json.loads(out)["datasets"][0]
    assert (code, found["files_copied"], found["unchanged"]) == (0, count(local), False)
    code, out, _ = run(str(local.machine), URL)
    assert (code, out) == (0, "small: already there, nothing to do\n")
    files = count(local)
    shutil.rmtree(local.machine)
    code, out, err = run(URL, str(local.machine))
    assert code == 0
    assert out.startswith(f"small: {files} files, ")
    assert "copy small: " in err
    assert " bytes in " in err
    code, _, err = run(URL, str(local.machine), "nothing")
    assert (code, "no dataset 'nothing' under gs://bucket/trm" in err) == (2, True)
