"""The manifest of a dataset, written last. A folder without a manifest is not a dataset.

It names every file with its size and sha256, and ends with a digest over itself, which reveals edits.

`list_datasets` and `describe_dataset` return facts about the datasets under a root, without reading their rows.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, cast

from trm_data.errors import (
    BuildError,
    CorruptDatasetError,
    DatasetNotFoundError,
    ForeignDatasetError,
    SpecError,
    no_such,
)
from trm_data.kinds.registry import spec_from_json
from trm_data.named import is_meant, named_datasets, names_of
from trm_data.specs import SPLITS, DatasetSpec, canonical_json
from trm_data.storage.atomic import parse_json
from trm_data.storage.root import MANIFEST, DatasetFolder, FileEntry, Layout, Root, check_entry, resolve_root

FORMAT_VERSION = 1
_MOST_CELLS = 2**31 - 1
"""Maximum length of Arrow's fixed-size lists."""


@dataclass(frozen=True, kw_only=True)
class ShardEntry(FileEntry):
    """The manifest's entry of a shard."""

    num_records: int
    num_examples: int
    first_group: int
    num_groups: int


@dataclass(frozen=True, kw_only=True)
class SplitEntry:
    """The manifest's entry of a split: counts, digest over its rows, shards in order."""

    num_groups: int
    num_puzzles: int
    """Number of augmentations of all groups, originals included."""
    num_examples: int
    """Number of rows that the loader returns; a virtual dataset stores only the rows of the originals."""
    digest: str
    shards: tuple[ShardEntry, ...]


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
    """Hash of the identifier names; a checkpoint's embedding table is meaningless under another hash."""
    grid_rows: int
    grid_columns: int
    splits: dict[str, SplitEntry]
    catalog: tuple[FileEntry, ...]
    libraries: dict[str, str]

    @property
    def kind_label(self) -> str:
        """Name of the kind in lists; for imported rows, the kind whose rules they follow."""
        return self.spec.options.kind_label(self.kind)

    @property
    def num_examples(self) -> int:
        """Number of examples of all splits."""
        return sum(split.num_examples for split in self.splits.values())

    @property
    def files(self) -> list[FileEntry]:
        """All shards and catalog files."""
        return [*(shard for split in self.splits.values() for shard in split.shards), *self.catalog]

    @property
    def virtual(self) -> bool:
        """Whether only base puzzles are stored, and the loader augments them."""
        return self.spec.augment == "virtual"

    @property
    def size_bytes(self) -> int:
        """Bytes of all shards and catalog files."""
        return sum(file.size_bytes for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as stored in its file."""
        content = {"format_version": FORMAT_VERSION, **asdict(self), "spec": self.spec.to_json()}
        return {**content, "manifest_digest": _digest(content)}


def manifest_from_json(value: dict[str, Any]) -> Manifest:
    """Return a manifest from JSON, the inverse of `Manifest.to_json`."""
    content = dict(value)
    version = content.get("format_version")
    if not isinstance(version, int):
        raise CorruptDatasetError(f"has format version {version!r}; expected a number")
    if version > FORMAT_VERSION:
        raise ForeignDatasetError(
            f"was written by a newer version of trm-data; upgrade it (got format {version}; expected up to "
            f"{FORMAT_VERSION})"
        )
    stated = content.pop("manifest_digest", None)
    if stated != _digest(content):
        raise CorruptDatasetError("was edited: its digest differs from its content")
    content.pop("format_version")
    try:
        content["spec"] = spec_from_json(content["spec"])
        splits = content["splits"]
        content["splits"] = {name: _split_entry(splits[name]) for name in sorted(splits, key=SPLITS.index)}
        content["catalog"] = tuple(FileEntry(**file) for file in content["catalog"])
        manifest = Manifest(**content)
    except (TypeError, KeyError, ValueError, SpecError) as error:
        raise ForeignDatasetError(f"has fields that this version does not know: {error}") from error
    length = cast(object, manifest.sequence_length)
    if type(length) is not int or not 1 <= length <= _MOST_CELLS:
        raise CorruptDatasetError(f"has the sequence_length {length!r}; expected 1 to {_MOST_CELLS:,}")
    for file in manifest.files:
        check_entry(file)
    return manifest


def _split_entry(value: dict[str, Any]) -> SplitEntry:
    fields = dict(value)
    fields["shards"] = tuple(ShardEntry(**shard) for shard in value["shards"])
    return SplitEntry(**fields)


def read_manifest(layout: Layout, name: str) -> Manifest:
    """Return the manifest of a dataset, which may exist under another of its names (`names_of`).

    Raises:
        DatasetNotFoundError: There is no such dataset; the message names the closest.
        CorruptDatasetError: The manifest is unreadable, or was edited.
    """
    found = find_manifest(layout.dataset(name)) or _find_by_other_name(layout, name)
    if found is None:
        said = f"no dataset {name!r} under {layout.place}"
        if not named_datasets().keys().isdisjoint(names_of(name)):
            raise DatasetNotFoundError(f"{said} yet (trm-data build {name})")
        known = layout.dataset_names()
        hint = "trm-data list" if known else "trm-data build --help"
        raise DatasetNotFoundError(no_such(said, name, known, hint))
    return found


def _find_by_other_name(layout: Layout, name: str) -> Manifest | None:
    for spelling in names_of(name)[1:]:
        found = find_manifest(layout.dataset(spelling))
        if found is not None and is_meant(name, found.spec):
            return found
    return None


def find_manifest(folder: DatasetFolder) -> Manifest | None:
    """Return the manifest in a dataset's folder, or None if there is none."""
    content = folder.read(MANIFEST)
    return None if content is None else _parse(content, folder.name, folder.where(MANIFEST))


def _parse(content: bytes, name: str, where: str) -> Manifest:
    try:
        value = parse_json(content)
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
        raise type(error)(f"{where}: {error}") from error


def read_manifests(layout: Layout) -> dict[str, Manifest | CorruptDatasetError]:
    """Return the manifests of all datasets under a root, by name; for unreadable ones the error."""

    def read(name: str) -> Manifest | CorruptDatasetError | None:
        try:
            return find_manifest(layout.dataset(name))  # None if the bucket's listing was out of date
        except CorruptDatasetError as error:
            return error

    names = layout.dataset_names()
    found = zip(names, layout.store.each(read, names), strict=True)
    return {name: manifest for name, manifest in found if manifest is not None}


def write_manifest(folder: DatasetFolder, manifest: Manifest) -> None:
    """Publish a manifest, which makes the dataset exist."""
    content = json.dumps(manifest.to_json(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if not folder.store.create(f"{folder.path}/{MANIFEST}", content.encode()):
        raise BuildError(f"{folder.place}: another machine published a dataset of this name meanwhile")


def _digest(content: dict[str, Any]) -> str:
    # Through JSON text once, so that values read back give the same digest, such as lists for tuples.
    return hashlib.sha256(canonical_json(json.loads(json.dumps(content)))).hexdigest()


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
