"""What is known of the datasets under a root, without reading their rows, and single examples from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from trm_data.errors import CorruptDatasetError, SpecError
from trm_data.kinds.base import load_kind
from trm_data.layout import Layout
from trm_data.manifest import Manifest, dataset_names, read_manifest
from trm_data.shards.reader import check_file, read_blocks
from trm_data.specs import Split


@dataclass(frozen=True)
class Summary:
    """One line of `trm-data list`."""

    name: str
    kind: str
    splits: dict[str, int]
    """Examples of each split."""
    size_bytes: int
    digest: str
    problem: str = ""
    """Why the manifest cannot be read; the other fields are empty then."""


@dataclass(frozen=True)
class Example:
    """One example, drawn.

    Attributes:
        split: Its split.
        index: Its row within the split.
        group: Base puzzle it comes from.
        augmentation: Which augmentation of that; 0 is the original.
        puzzle: The input as text.
        solution: The label as text.
    """

    split: str
    index: int
    group: int
    augmentation: int
    puzzle: str
    solution: str


def list_datasets(layout: Layout) -> list[Summary]:
    """A summary of every dataset under the root."""
    summaries: list[Summary] = []
    for name in dataset_names(layout):
        try:
            manifest = read_manifest(layout, name)
        except CorruptDatasetError as error:
            summaries.append(Summary(name, "", {}, 0, "", problem=str(error)))
            continue
        splits = {split: entry.num_examples for split, entry in manifest.splits.items()}
        summaries.append(Summary(name, manifest.kind, splits, manifest.size_bytes, manifest.content_digest))
    return summaries


def describe_dataset(layout: Layout, name: str) -> dict[str, Any]:
    """Specification, counts, sizes and digests of a dataset, as JSON values.

    Raises:
        DatasetNotFoundError: There is no such dataset.
        CorruptDatasetError: Its manifest cannot be read.
    """
    manifest = read_manifest(layout, name)
    return {
        "name": manifest.name,
        "kind": manifest.kind,
        "folder": str(layout.dataset(name)),
        "content_digest": manifest.content_digest,
        "spec_digest": manifest.spec_digest,
        "spec": manifest.spec.to_json(),
        "sequence_length": manifest.sequence_length,
        "vocabulary_size": manifest.vocabulary_size,
        "num_identifiers": manifest.num_identifiers,
        "splits": {split: _counts(manifest, split) for split in manifest.splits},
        "size_bytes": manifest.size_bytes,
        "built_at": manifest.built_at,
        "builder_version": manifest.builder_version,
        "libraries": manifest.libraries,
    }


def read_example(layout: Layout, name: str, split: Split, index: int) -> Example:
    """One example of a dataset.

    Raises:
        DatasetNotFoundError: There is no such dataset.
        SpecError: There is no such split or row.
        CorruptDatasetError: Its shard is not what the manifest says.
    """
    manifest = read_manifest(layout, name)
    if split not in manifest.splits:
        raise SpecError(f"--split {split}: {name} has {', '.join(manifest.splits)}")
    entry = manifest.splits[split]
    if not 0 <= index < entry.num_examples:
        raise SpecError(f"--index {index}: {name} has {entry.num_examples:,} {split} examples, from 0")
    offset = index
    for shard in entry.shards:
        if offset < shard.num_examples:
            break
        offset -= shard.num_examples
    else:
        raise AssertionError("shards hold fewer examples than their split")
    path = layout.dataset(name) / shard.file
    check_file(path, size_bytes=shard.size_bytes, sha256=shard.sha256)
    blocks = read_blocks(
        path,
        sequence_length=manifest.sequence_length,
        num_records=shard.num_records,
        num_examples=shard.num_examples,
    )
    for block in blocks:
        if offset < len(block):
            kind = load_kind(manifest.kind)
            return Example(
                split=split,
                index=index,
                group=int(block.groups[offset]),
                augmentation=int(block.augmentations[offset]),
                puzzle=kind.render(block.inputs[offset], manifest.spec),
                solution=kind.render(block.labels[offset], manifest.spec),
            )
        offset -= len(block)
    raise AssertionError("blocks hold fewer examples than their shard")


def _counts(manifest: Manifest, split: str) -> dict[str, Any]:
    entry = asdict(manifest.splits[split])
    shards = entry.pop("shards")
    return {**entry, "shards": len(shards), "size_bytes": sum(shard["size_bytes"] for shard in shards)}
