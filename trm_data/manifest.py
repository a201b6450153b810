"""The manifest: the truth about a dataset, written last. No manifest, no dataset.

It names every file with its size and sha256, and ends with a digest over itself, so an edit shows.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from trm_data.errors import CorruptDatasetError, SpecError
from trm_data.layout import Layout
from trm_data.specs import SPLITS, DatasetSpec, canonical_json, spec_from_json
from trm_data.store import MANIFEST, publish_manifest, read_manifest_bytes

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class ShardEntry:
    """One shard as the manifest names it."""

    file: str
    sha256: str
    size_bytes: int
    num_records: int
    num_examples: int
    first_group: int
    num_groups: int


@dataclass(frozen=True, kw_only=True)
class SplitEntry:
    """One split: counts, digest over its rows, shards in order."""

    num_groups: int
    num_puzzles: int
    """Augmentations of all groups, originals included."""
    num_examples: int
    """Rows that the loader sees; a virtual dataset stores only those of the originals."""
    digest: str
    shards: tuple[ShardEntry, ...]


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """A catalog file."""

    file: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """All that is needed to open, check and rebuild a dataset."""

    name: str
    kind: str
    spec: DatasetSpec
    spec_digest: str
    content_digest: str
    builder_version: int
    built_at: str
    sequence_length: int
    vocabulary_size: int
    num_identifiers: int
    identifiers_digest: str
    """Hash over the names of the identifiers; a checkpoint's embedding table means nothing under another."""
    grid_rows: int
    grid_columns: int
    splits: dict[str, SplitEntry]
    catalog: tuple[FileEntry, ...]
    libraries: dict[str, str]

    @property
    def num_examples(self) -> int:
        """Examples of all splits."""
        return sum(split.num_examples for split in self.splits.values())

    @property
    def virtual(self) -> bool:
        """Whether only base puzzles are stored, and the loader augments them."""
        return self.spec.augment == "virtual"

    @property
    def size_bytes(self) -> int:
        """Bytes of all shards and catalog files."""
        shards = (shard.size_bytes for split in self.splits.values() for shard in split.shards)
        return sum(shards) + sum(file.size_bytes for file in self.catalog)

    def to_json(self) -> dict[str, Any]:
        """The manifest as it stands in the file."""
        content = {"format_version": FORMAT_VERSION, **asdict(self)}
        return {**content, "manifest_digest": _digest(content)}


def manifest_from_json(value: dict[str, Any]) -> Manifest:
    """Inverse of `Manifest.to_json`.

    Raises:
        CorruptDatasetError: Edited, or of a format that this version cannot read.
    """
    content = dict(value)
    version = content.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise CorruptDatasetError(
            f"has format version {version!r}, this version of trm-data reads up to {FORMAT_VERSION}: upgrade it"
        )
    stated = content.pop("manifest_digest", None)
    if stated != _digest(content):
        raise CorruptDatasetError("was edited: its digest does not fit its content")
    content.pop("format_version")
    try:
        content["spec"] = spec_from_json(content["spec"])
        splits = content["splits"]
        content["splits"] = {name: _split_entry(splits[name]) for name in sorted(splits, key=SPLITS.index)}
        content["catalog"] = tuple(FileEntry(**file) for file in content["catalog"])
        return Manifest(**content)
    except (TypeError, KeyError, ValueError, SpecError) as error:
        raise CorruptDatasetError(f"has fields that this version does not know: {error}") from error


def _split_entry(value: dict[str, Any]) -> SplitEntry:
    fields = dict(value)
    fields["shards"] = tuple(ShardEntry(**shard) for shard in value["shards"])
    return SplitEntry(**fields)


def read_manifest(layout: Layout, name: str) -> Manifest:
    """The manifest of a dataset.

    Raises:
        DatasetNotFoundError: There is none; the message says which datasets there are.
        CorruptDatasetError: It cannot be read, or was edited.
    """
    where = f"{layout.dataset(name)}/{MANIFEST}"
    content = read_manifest_bytes(layout, name)
    try:
        value = json.loads(content)
        if not isinstance(value, dict):
            raise CorruptDatasetError("is not a JSON object")
        manifest = manifest_from_json(value)
        if manifest.name != name:
            raise CorruptDatasetError(
                f"is that of {manifest.name!r}: a dataset's folder cannot be copied or renamed"
            )
        return manifest
    except (ValueError, RecursionError) as error:
        raise CorruptDatasetError(f"{where}: is not JSON ({error})") from error
    except CorruptDatasetError as error:
        raise CorruptDatasetError(f"{where}: {error}") from error


def write_manifest(layout: Layout, manifest: Manifest) -> None:
    """Publish a manifest: the dataset is there from now on."""
    content = json.dumps(manifest.to_json(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    publish_manifest(layout, manifest.name, content.encode())


def _digest(content: dict[str, Any]) -> str:
    # Through JSON text once, so that tuples and lists, ints and floats read back give the same digest.
    return hashlib.sha256(canonical_json(json.loads(json.dumps(content)))).hexdigest()
