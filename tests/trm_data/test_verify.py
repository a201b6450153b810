"""`verify` names every kind of damage, and a damaged dataset does not open for training."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from array_record.python.array_record_module import ArrayRecordWriter

from trm_data.encode import block_schema, encode_block
from trm_data.errors import CorruptDatasetError
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import MANIFEST, Manifest, _digest, read_manifest
from trm_data.records import Rows
from trm_data.shards import reader
from trm_data.shards.reader import read_rows
from trm_data.shards.writer import WRITER_OPTIONS, write_shard
from trm_data.storage.atomic import file_sha256
from trm_data.storage.root import Layout, resolve_root
from trm_data.verify.flow import verify_dataset


@pytest.fixture
def folder(small_layout: Layout, tmp_path: Path) -> Path:
    """A copy of the small dataset that may be damaged."""
    target = resolve_root(tmp_path).dataset("small").here
    shutil.copytree(small_layout.dataset("small").here, target)
    return target


def damaged(folder: Path) -> list[str]:
    return verify_dataset(resolve_root(folder.parents[1]), "small").problems


def first_shard(folder: Path) -> Path:
    return sorted(folder.glob("train-*.array_record"))[0]


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(bytes(content))


def test_a_whole_dataset_is_whole(folder: Path) -> None:
    result = verify_dataset(resolve_root(folder.parents[1]), "small")
    assert result.whole
    assert result.counts == {"files": 13, "examples": 260, "puzzles checked": 44}


@pytest.mark.parametrize("position", [0, 40_000, -1])
def test_a_flipped_byte(folder: Path, position: int) -> None:
    flip(first_shard(folder), position)
    problems = damaged(folder)
    assert any(
        first_shard(folder).name in problem and "bytes have changed" in problem for problem in problems
    )
    for budget_bytes in (1, 10**9):
        with pytest.raises(CorruptDatasetError, match="bytes have changed"):
            open_dataset("small", folder.parents[1], budget_bytes=budget_bytes)


def test_a_mapped_dataset_is_checked_at_every_opening(folder: Path) -> None:
    open_dataset("small", folder.parents[1], budget_bytes=1)
    flip(first_shard(folder), 40_000)
    with pytest.raises(CorruptDatasetError, match="bytes have changed"):
        open_dataset("small", folder.parents[1], budget_bytes=1)


def test_a_copied_folder_is_no_dataset(folder: Path) -> None:
    shutil.copytree(folder, folder.with_name("copy"))
    with pytest.raises(CorruptDatasetError, match="is that of 'small'"):
        open_dataset("copy", folder.parents[1])
    assert verify_dataset(resolve_root(folder.parents[1]), "copy").problems


def test_a_truncated_shard(folder: Path) -> None:
    shard = first_shard(folder)
    shard.write_bytes(shard.read_bytes()[:-100])
    assert any("bytes, the manifest says" in problem for problem in damaged(folder))
    with pytest.raises(CorruptDatasetError, match="the manifest says"):
        open_dataset("small", folder.parents[1])


def test_a_missing_shard(folder: Path) -> None:
    first_shard(folder).unlink()
    assert any("is missing" in problem for problem in damaged(folder))
    with pytest.raises(CorruptDatasetError, match="is missing"):
        open_dataset("small", folder.parents[1])


@pytest.mark.parametrize(
    "edit",
    [
        lambda value: value.update(content_digest="0" * 64),
        lambda value: value["splits"]["train"].update(num_examples=1),
        lambda value: value["spec"].update(seed=99),
        lambda value: value.pop("manifest_digest"),
        lambda value: value.update(format_version=99),
    ],
)
def test_an_edited_manifest(folder: Path, edit: Callable[[dict], object]) -> None:
    path = folder / MANIFEST
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))
    assert damaged(folder)
    with pytest.raises(CorruptDatasetError, match=r"edited|format version"):
        open_dataset("small", folder.parents[1])


def test_a_manifest_that_is_no_json(folder: Path) -> None:
    (folder / MANIFEST).write_text('{"half": ')
    assert "is not JSON" in damaged(folder)[0]


def test_a_changed_catalog_file(folder: Path) -> None:
    flip(folder / "catalog" / "puzzles.parquet", 20)
    assert any("puzzles.parquet" in problem for problem in damaged(folder))


@pytest.mark.parametrize("column", ["num_records", "num_examples"])
@pytest.mark.parametrize("change", [-1, 1, 10**17])
def test_other_counts_in_the_manifest(folder: Path, column: str, change: int) -> None:
    layout = resolve_root(folder.parents[1])
    value = read_manifest(layout, "small").to_json()
    shard = value["splits"]["train"]["shards"][0]
    path = folder / shard["file"]
    counts = {"num_records": shard["num_records"], "num_examples": shard["num_examples"]}
    rows = read_rows(path, sequence_length=36, **counts)
    stored = open_dataset("small", root=folder.parents[1])
    assert len(rows) == counts["num_examples"]
    np.testing.assert_array_equal(rows.inputs[0], stored[0]["inputs"].ravel())
    counts[column] += change
    with pytest.raises(
        CorruptDatasetError, match=f"{counts[column]:,} examples of the manifest|{counts[column]}"
    ):
        read_rows(path, sequence_length=36, **counts)


def test_a_record_that_decompresses_to_far_more_than_its_rows_is_refused_before(tmp_path: Path) -> None:
    path = tmp_path / "large.array_record"
    writer = ArrayRecordWriter(str(path), WRITER_OPTIONS)
    writer.write(encode_block(Rows.empty(256, 36), block_schema(36)))
    writer.write(bytes(1 << 26))
    writer.close()
    assert path.stat().st_size < 1 << 20
    with pytest.raises(CorruptDatasetError, match="decompresses to 67,108,864 bytes"):
        read_rows(path, sequence_length=36, num_records=2, num_examples=512)


@pytest.mark.parametrize("count", [0, 257, 3_000])
def test_a_record_of_a_size_that_is_never_written(tmp_path: Path, count: int) -> None:
    path = tmp_path / "odd.array_record"
    writer = ArrayRecordWriter(str(path), WRITER_OPTIONS)
    writer.write(encode_block(Rows.empty(count, 36), block_schema(36)))
    writer.close()
    for read in (
        lambda: read_rows(path, sequence_length=36, num_records=1, num_examples=count),
        lambda: reader.read_block(path, 0, sequence_length=36),
    ):
        with pytest.raises(CorruptDatasetError, match=rf"odd\.array_record: a record has {count:,} rows"):
            read()


def forge(folder: Path, change: Callable[[Rows], None]) -> list[str]:
    """Change rows of the training split and make every digest match again, as a faulty builder would."""
    layout = resolve_root(folder.parents[1])
    manifest = read_manifest(layout, "small")
    value = manifest.to_json()
    for shard in value["splits"]["train"]["shards"]:
        path = folder / shard["file"]
        rows = read_rows(
            path,
            sequence_length=36,
            num_records=shard["num_records"],
            num_examples=shard["num_examples"],
        )
        if shard["first_group"] == 0:
            change(rows)
        info = write_shard(path, [rows], sequence_length=36, spec_digest="", first_group=shard["first_group"])
        shard.update(sha256=info.sha256, size_bytes=info.size_bytes)
    _write_manifest_that_fits(folder, layout, value)
    return damaged(folder)


def reseal(folder: Path, value: dict) -> None:
    """Write a manifest with the digest of its content."""
    value.pop("manifest_digest")
    value["manifest_digest"] = _digest(value)
    (folder / MANIFEST).write_text(json.dumps(value))


def _write_manifest_that_fits(folder: Path, layout: Layout, value: dict) -> None:
    for file in value["catalog"]:
        path = folder / file["file"]
        file.update(sha256=file_sha256(path), size_bytes=path.stat().st_size)
    reseal(folder, value)
    assert isinstance(read_manifest(layout, "small"), Manifest)


def change_label(rows: Rows) -> None:
    rows.labels[3, [0, 1]] = rows.labels[3, [1, 0]]


def change_original(rows: Rows) -> None:
    rows.inputs[0, int(np.argmax(rows.inputs[0] > 1))] = 1


def write_other_token(rows: Rows) -> None:
    rows.inputs[10, 0] = 9


def repeat_augmentation(rows: Rows) -> None:
    rows.inputs[2], rows.labels[2] = rows.inputs[1], rows.labels[1]


def number_rows_as_groups(rows: Rows) -> None:
    rows.groups[:] = np.arange(len(rows))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (change_label, "row 3: is not its original under its augmentation"),
        (change_label, "digest"),
        (change_original, "group 0: its label is not the puzzle's only solution"),
        (write_other_token, "group 1: has an input token that is no cell"),
        (repeat_augmentation, "group 0: holds the same puzzle twice"),
        (number_rows_as_groups, "train: the rows have more puzzles than the catalog"),
    ],
)
def test_a_faulty_builder(folder: Path, change: Callable[[Rows], None], problem: str) -> None:
    assert any(problem in line for line in forge(folder, change))


def test_a_manifest_that_numbers_groups_wrongly(folder: Path) -> None:
    layout = resolve_root(folder.parents[1])
    value = read_manifest(layout, "small").to_json()
    value["splits"]["train"]["shards"][1]["first_group"] += 1
    _write_manifest_that_fits(folder, layout, value)
    assert any("begins with group" in problem for problem in damaged(folder))


def test_splits_that_share_a_symmetry_class(folder: Path) -> None:
    """A test puzzle is replaced by an augmentation of a training puzzle; all digests match."""
    layout = resolve_root(folder.parents[1])
    train = open_dataset("small", layout.machine)
    value = read_manifest(layout, "small").to_json()
    shard = value["splits"]["test"]["shards"][0]
    path = folder / shard["file"]
    rows = read_rows(path, sequence_length=36, num_records=1, num_examples=12)
    theirs = train.read(np.array([7]))
    rows.inputs[4], rows.labels[4] = theirs["inputs"][0], theirs["labels"][0]
    info = write_shard(path, [rows], sequence_length=36, spec_digest="", first_group=0)
    shard.update(sha256=info.sha256, size_bytes=info.size_bytes)
    _write_manifest_that_fits(folder, layout, value)
    assert any("test group 4: is equivalent under symmetry to train group 0" in p for p in damaged(folder))


@pytest.mark.parametrize("length", [0, 35, 2**31, True, "36"])
def test_another_sequence_length_in_the_manifest(folder: Path, length: object) -> None:
    value = read_manifest(resolve_root(folder.parents[1]), "small").to_json()
    value["sequence_length"] = length
    reseal(folder, value)
    assert any("sequence_length" in problem or "a record has" in problem for problem in damaged(folder))


def rewrite(folder: Path, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> list[str]:
    """Change a table of the catalog and make every digest match again."""
    layout = resolve_root(folder.parents[1])
    value = read_manifest(layout, "small").to_json()
    path = folder / "catalog" / f"{table}.parquet"
    change(pl.read_parquet(path)).write_parquet(path)
    _write_manifest_that_fits(folder, layout, value)
    return damaged(folder)


def test_symmetry_elements_are_derived_again(folder: Path) -> None:
    def change(listed: pl.DataFrame) -> pl.DataFrame:
        return listed.with_columns(
            pl.when(pl.col("k") > 0).then(pl.col("element") + 1).otherwise(pl.col("element"))
        )

    problems = rewrite(folder, "augmentations", change)
    assert any(
        "has another symmetry element in the catalog than its k gives" in problem for problem in problems
    )


def test_a_group_with_the_same_augmentation_twice(folder: Path) -> None:
    def change(listed: pl.DataFrame) -> pl.DataFrame:
        return listed.with_columns(
            pl.when(pl.col("k") == 2).then(1).otherwise(pl.col("k")).cast(pl.Int32).alias("k")
        )

    assert any(
        "has the same symmetry element twice" in each for each in rewrite(folder, "augmentations", change)
    )


def test_augmentations_in_another_order(folder: Path) -> None:
    problems = rewrite(
        folder, "augmentations", lambda listed: listed.sort("split", -pl.col("group_index"), "k")
    )
    assert any("augmentations are not those of its puzzles" in problem for problem in problems)
