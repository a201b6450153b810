"""What is known of the datasets under a root, without reading their rows, and single examples from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from trm_data.errors import CorruptDatasetError, SpecError
from trm_data.kinds.registry import load_kind
from trm_data.loader.virtual import open_virtual
from trm_data.manifest import Manifest, read_manifest, read_manifests
from trm_data.records import Rows
from trm_data.shards.reader import read_block
from trm_data.show.drawing import Drawing
from trm_data.specs import BLOCK_EXAMPLES, Split
from trm_data.storage.datasets import DatasetFolder
from trm_data.storage.root import Layout, Root, resolve_root


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
        puzzle: The input.
        solution: The label.
    """

    split: str
    index: int
    group: int
    augmentation: int
    puzzle: Drawing
    solution: Drawing

    @property
    def title(self) -> str:
        """Which example it is."""
        what = f"augmentation {self.augmentation}" if self.augmentation else "the original"
        return f"{self.split} {self.index}: {what} of group {self.group}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; the drawings as text."""
        numbers = {"split": self.split, "index": self.index, "group": self.group}
        return {
            **numbers,
            "augmentation": self.augmentation,
            "puzzle": self.puzzle.text(),
            "solution": self.solution.text(),
        }


def list_datasets(root: Root | None = None) -> list[Summary]:
    """A summary of every dataset under a root.

    Args:
        root: Folder of everything, `gs://bucket/prefix`, a layout or a store; else `$TRM_ROOT`, else `./trm`.
    """
    layout = resolve_root(root)
    summaries: list[Summary] = []
    for name, manifest in read_manifests(layout).items():
        if isinstance(manifest, CorruptDatasetError):
            summaries.append(Summary(name, "", {}, 0, "", problem=str(manifest)))
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
        "folder": layout.dataset(manifest.name).place,
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
    """One example of a dataset; of a virtual one too.

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
    kind = load_kind(manifest.kind)
    if manifest.virtual:
        groups, reader = open_virtual(layout.dataset(manifest.name), manifest, split)
        rows = np.array([index], np.int64)
        picks = groups.picks(rows)
        batch = reader.gather(picks, rows)
        numbers = int(picks.groups[0]), int(picks.augmentations[0])
        inputs, labels = batch["inputs"][0].astype(np.uint8), batch["labels"][0].astype(np.uint8)
    else:
        block, offset = _stored_block(layout.dataset(manifest.name), manifest, split, index)
        numbers = int(block.groups[offset]), int(block.augmentations[offset])
        inputs, labels = block.inputs[offset], block.labels[offset]
    drawings = kind.draw(inputs, manifest.spec), kind.draw(labels, manifest.spec)
    return Example(split, index, *numbers, *drawings)


def _stored_block(folder: DatasetFolder, manifest: Manifest, split: Split, index: int) -> tuple[Rows, int]:
    """The block that holds a stored row, and the row's place in it."""
    offset = index
    for shard in manifest.splits[split].shards:
        if offset >= shard.num_examples:
            offset -= shard.num_examples
            continue
        path = folder.open(shard)
        # Every block of a shard but the last is full.
        block = read_block(path, offset // BLOCK_EXAMPLES, sequence_length=manifest.sequence_length)
        return block, offset % BLOCK_EXAMPLES
    raise AssertionError("shards hold fewer examples than their split")


def _counts(manifest: Manifest, split: str) -> dict[str, Any]:
    entry = asdict(manifest.splits[split])
    shards = entry.pop("shards")
    return {**entry, "shards": len(shards), "size_bytes": sum(shard["size_bytes"] for shard in shards)}
