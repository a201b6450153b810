"""Facts about the datasets under a root, without reading their rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from trm_data.errors import CorruptDatasetError
from trm_data.manifest import Manifest, read_manifest, read_manifests
from trm_data.storage.root import Layout, Root, resolve_root


@dataclass(frozen=True)
class Summary:
    """One line of `trm-data list`."""

    name: str
    kind: str
    splits: dict[str, int]
    """Number of examples in each split."""
    size_bytes: int
    digest: str
    kind_label: str = ""
    """Kind as shown in lists; for imported rows, the kind whose rules they follow."""
    problem: str = ""
    """Reason why the manifest cannot be read; the other fields are then empty."""


def list_datasets(root: Root | None = None) -> list[Summary]:
    """Return a summary of every dataset under a root.

    Args:
        root: Root folder, `gs://bucket/prefix`, a layout or a store; default: `$TRM_ROOT`, else `./trm`.
    """
    layout = resolve_root(root)
    summaries: list[Summary] = []
    for name, manifest in read_manifests(layout).items():
        if isinstance(manifest, CorruptDatasetError):
            summaries.append(Summary(name, "", {}, 0, "", problem=str(manifest)))
            continue
        splits = {split: entry.num_examples for split, entry in manifest.splits.items()}
        summaries.append(
            Summary(
                name,
                manifest.kind,
                splits,
                manifest.size_bytes,
                manifest.content_digest,
                kind_label=manifest.kind_label,
            )
        )
    return summaries


def describe_dataset(layout: Layout, name: str) -> dict[str, Any]:
    """Return specification, counts, sizes and digests of a dataset, as JSON values."""
    manifest = read_manifest(layout, name)
    return {
        "name": manifest.name,
        "kind": manifest.kind,
        "kind_label": manifest.kind_label,
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


def _counts(manifest: Manifest, split: str) -> dict[str, Any]:
    entry = asdict(manifest.splits[split])
    shards = entry.pop("shards")
    return {**entry, "shards": len(shards), "size_bytes": sum(shard["size_bytes"] for shard in shards)}
