"""Export a dataset: the published code's npy layout, Parquet, or a Hugging Face dataset folder.

`sources.published` reads all three back; round trips give the same rows.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from trm_data.card import dataset_card
from trm_data.catalog.read import read_identifier_names, read_sources, read_split_catalog
from trm_data.errors import BuildError, SpecError, not_written
from trm_data.kinds.registry import load_kind
from trm_data.loader.dataset import Dataset, open_dataset
from trm_data.manifest import Manifest, read_manifest
from trm_data.records import SourceFile
from trm_data.show.progress import NoProgress, Progress
from trm_data.sources.published import FACTS
from trm_data.storage.atomic import file_sha256
from trm_data.storage.root import DatasetFolder, Layout

if TYPE_CHECKING:
    import pyarrow as pa

FileFormat = Literal["npy", "parquet", "hf"]
CHUNK_ROWS = 8_192
FILE_ROWS = 1 << 20
HUB_LICENCES = ("apache-2.0", "mit", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "bsd-3-clause")
"""Licences known to the Hugging Face hub, among those that sources state."""


def export_dataset(
    layout: Layout, name: str, out: Path, form: FileFormat, progress: Progress | None = None
) -> list[Path]:
    """Write a dataset into a new folder, atomically.

    Returns:
        The files.

    Raises:
        DatasetNotFoundError: There is no such dataset.
        CorruptDatasetError: A file of the dataset is missing or changed.
        SpecError: The folder already exists.
        BuildError: Writing failed.
    """
    manifest = read_manifest(layout, name)
    if out.exists():
        raise SpecError(f"--out {out}: already exists; choose another folder")
    progress = progress or NoProgress()
    progress.start("export rows", manifest.num_examples, "examples")
    temporary = out.with_name(f".tmp-{out.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        for split in manifest.splits:
            dataset = open_dataset(name, layout, split)
            if form == "npy":
                _write_npy(dataset, temporary / split, progress)
            else:
                _write_parquet(dataset, temporary / "data" if form == "hf" else temporary, progress)
        _write_names(layout.dataset(manifest.name), manifest, temporary, puzzles=form == "npy")
        if form == "hf":
            card = _hub_card(manifest, read_sources(layout.dataset(manifest.name), manifest))
            (temporary / "README.md").write_text(card, "utf-8")
        _write_facts(manifest, temporary)
        files = sorted(path.relative_to(temporary) for path in temporary.rglob("*") if path.is_file())
        temporary.rename(out)
    except OSError as error:
        raise BuildError(not_written(out, error, "try again")) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return [out / file for file in files]


def _chunks(
    dataset: Dataset, progress: Progress, numbers: range
) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """Yield rows in order, in chunks, with the number of the first."""
    for start in numbers[::CHUNK_ROWS]:
        rows = np.arange(start, min(start + CHUNK_ROWS, numbers.stop), dtype=np.int64)
        picks = dataset.groups.picks(rows)
        places = {"group": picks.groups, "augmentation": picks.augmentations, "example": picks.examples}
        yield start, {**dataset.read(rows), **places}
        progress.advance(len(rows))


def _write_npy(dataset: Dataset, folder: Path, progress: Progress) -> None:
    """Write one split in the published layout."""
    folder.mkdir()
    manifest, count = dataset.manifest, len(dataset)
    cells = (count, dataset.sequence_length)
    arrays = {
        name: np.lib.format.open_memmap(folder / f"all__{name}.npy", mode="w+", dtype=np.uint8, shape=cells)
        for name in ("inputs", "labels")
    }
    identifiers: list[NDArray[np.int32]] = []
    for start, chunk in _chunks(dataset, progress, range(count)):
        for name, array in arrays.items():
            array[start : start + len(chunk[name])] = chunk[name]
        identifiers.append(chunk["puzzle_identifiers"][chunk["example"] == 0])
    for array in arrays.values():
        array.flush()
    groups = dataset.groups
    per_puzzle = np.repeat(groups.num_examples, groups.num_augmentations)
    bounds = {
        "puzzle_indices": np.concatenate([[0], np.cumsum(per_puzzle)]),
        "group_indices": np.concatenate([[0], np.cumsum(groups.num_augmentations)]),
        "puzzle_identifiers": np.concatenate(identifiers),
    }
    for name, values in bounds.items():
        np.save(folder / f"all__{name}.npy", values.astype(np.int32), allow_pickle=False)
    named = manifest.num_identifiers > 1  # otherwise the published builders give the number of groups
    facts = {
        "pad_id": 0,
        "ignore_label_id": 0,
        "blank_identifier_id": 0,
        "vocab_size": manifest.vocabulary_size,
        "seq_len": manifest.sequence_length,
        "num_puzzle_identifiers": manifest.num_identifiers,
        "total_groups": len(groups.num_examples),
        "mean_puzzle_examples": count / len(per_puzzle),
        "total_puzzles": len(per_puzzle) if named else len(groups.num_examples),
        "sets": ["all"],
    }
    (folder / "dataset.json").write_text(json.dumps(facts), "utf-8")


def _write_parquet(dataset: Dataset, folder: Path, progress: Progress) -> None:
    """Write one split as Parquet files of about a million rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    count = max(1, -(-len(dataset) // FILE_ROWS))
    cells = pa.list_(pa.uint8(), dataset.sequence_length)
    numbers = ("puzzle_identifier", "group", "augmentation", "example")
    schema = pa.schema([("inputs", cells), ("labels", cells), *((column, pa.int32()) for column in numbers)])
    for file in range(count):
        rows = range(len(dataset))[file * FILE_ROWS : (file + 1) * FILE_ROWS]
        path = folder / f"{dataset.split}-{file:05d}-of-{count:05d}.parquet"
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for _, chunk in _chunks(dataset, progress, rows):
                writer.write_table(_table(chunk, schema))


def _table(chunk: dict[str, NDArray[Any]], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    columns: list[pa.Array] = []
    for column in schema:
        if column.name in ("inputs", "labels"):
            flat = pa.array(np.ascontiguousarray(chunk[column.name]).reshape(-1))
            columns.append(pa.FixedSizeListArray.from_arrays(flat, type=column.type))
        else:
            key = "puzzle_identifiers" if column.name == "puzzle_identifier" else column.name
            columns.append(pa.array(chunk[key].astype(np.int32)))
    return pa.Table.from_arrays(columns, schema=schema)


def _write_facts(manifest: Manifest, folder: Path) -> None:
    """Write export.json: the facts of the dataset, and the digest of every written file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    facts = {
        "name": manifest.name,
        "kind": manifest.kind,
        "content_digest": manifest.content_digest,
        "sequence_length": manifest.sequence_length,
        "grid_rows": manifest.grid_rows,
        "grid_columns": manifest.grid_columns,
        "vocabulary_size": manifest.vocabulary_size,
        "num_identifiers": manifest.num_identifiers,
        "spec": manifest.spec.to_json(),
        "files": {path.relative_to(folder).as_posix(): file_sha256(path) for path in files},
    }
    (folder / FACTS).write_text(json.dumps(facts, indent=1), "utf-8")


def _write_names(folder: DatasetFolder, manifest: Manifest, out: Path, *, puzzles: bool) -> None:
    """Write identifiers.json, and with the npy layout test_puzzles.json."""
    names = identifier_names(folder, manifest)
    (out / "identifiers.json").write_text(json.dumps(names), "utf-8")
    attached = [file for file in manifest.catalog if file.file == "catalog/test_puzzles.json"]
    if attached:
        shutil.copyfile(folder.open(attached[0]), out / "test_puzzles.json")
    elif puzzles and (found := _test_puzzles(folder, manifest)):
        (out / "test_puzzles.json").write_text(json.dumps(found), "utf-8")


def identifier_names(folder: DatasetFolder, manifest: Manifest) -> list[str]:
    """Return the name of every identifier, in the format of the published code."""
    count = manifest.num_identifiers
    if count == 1:
        return ["<blank>"]
    names = read_identifier_names(folder, manifest)
    if not names:
        catalog = read_split_catalog(folder, manifest, "train")
        kind = load_kind(manifest.kind)
        names = kind.identifier_names(catalog.groups, catalog.facts, catalog.elements, count)
    return names or [f"<{identifier}>" for identifier in range(count)]


def _test_puzzles(folder: DatasetFolder, manifest: Manifest) -> dict[str, Any]:
    """Return the kind's content of test_puzzles.json, from the originals of the test split."""
    if "test" not in manifest.splits:
        return {}
    catalog = read_split_catalog(folder, manifest, "test")

    def originals() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        dataset = open_dataset(manifest.name, folder.store, "test")
        groups = dataset.groups
        for first, count in zip(groups.first_rows.tolist(), groups.num_examples.tolist(), strict=True):
            batch = dataset.read(np.arange(first, first + count))
            yield batch["inputs"], batch["labels"]

    return load_kind(manifest.kind).test_puzzles(catalog.facts, originals())


def _hub_card(manifest: Manifest, sources: list[SourceFile]) -> str:
    """Return README.md of a Hugging Face dataset folder: hub metadata, how to load the data, and the dataset's card."""
    licences = {source.licence or "unknown" for source in sources} or {"apache-2.0"}
    licence = licences.pop() if len(licences) == 1 else "other"
    known = licence.lower() in HUB_LICENCES
    lines = [
        "---",
        f"pretty_name: {json.dumps(manifest.name)}",
        f"license: {licence.lower() if known else 'unknown' if licence == 'unknown' else 'other'}",
        f"tags: [{json.dumps(manifest.kind)}, puzzles, tiny-recursive-model]",
        "configs:",
        "- config_name: default",
        "  data_files:",
    ]
    for split in manifest.splits:
        lines += [f"  - split: {split}", f"    path: data/{split}-*.parquet"]
    split = next(iter(manifest.splits))
    load = [
        "## Load it",
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        f'rows = load_dataset("OWNER/{manifest.name}", split="{split}")  # where you pushed it, or this folder',
        f'rows[0]["inputs"], rows[0]["labels"]  # {manifest.sequence_length} tokens each; 0 is padding',
        "```",
        "",
        "```sh",
        "trm-data import DIR   # as a dataset under a root, after a check of every file of rows against export.json",
        "```",
        "",
    ]
    card = dataset_card(manifest, sources)
    title, _, rest = card.partition("\n")
    return "\n".join([*lines, "---", "", title, rest.rstrip(), "", *load])
