"""Find an existing dataset for a build request, or another dataset of its name."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from trm_data.errors import BuildError, CorruptDatasetError, SpecError
from trm_data.manifest import Manifest, find_manifest
from trm_data.named import names_of
from trm_data.request import BuildRequest
from trm_data.sources.base import SourceRef
from trm_data.specs import BUILDER_VERSION, SUDOKU_EXTREME, DatasetSpec, SourceSpec
from trm_data.storage.root import DatasetFolder, Layout


def find_folder(layout: Layout, request: BuildRequest, spec: DatasetSpec) -> DatasetFolder:
    """Return the folder of this dataset under any of its names, or the folder that a build would create."""
    digest = spec.digest()
    for name in request.names():
        for spelling in names_of(name):
            with contextlib.suppress(CorruptDatasetError):  # for the requested name, the build reports it
                manifest = find_manifest(layout.dataset(spelling))
                if manifest is not None and manifest.spec_digest == digest:
                    return layout.dataset(spelling)
    return layout.dataset(request.dataset_name())


def already_built(folder: DatasetFolder, spec: DatasetSpec) -> Manifest | None:
    """Return the manifest if the dataset is complete, else None; raise SpecError if its name is taken by another."""
    try:
        manifest = find_manifest(folder)
    except CorruptDatasetError as error:
        raise BuildError(f"{error}; to build it again, delete {folder.place}") from error
    if manifest is None:
        return None
    if manifest.spec_digest != spec.digest():
        raise SpecError(_taken(manifest, spec))
    return None if folder.damaged(manifest.files) else manifest


def would_be_found(layout: Layout, request: BuildRequest) -> Manifest | None:
    """Return the complete dataset that a build would find, as far as is known without reading its sources."""
    for name in request.names():
        for spelling in names_of(name):
            folder = layout.dataset(spelling)
            with contextlib.suppress(CorruptDatasetError):
                found = find_manifest(folder)
                if found is not None and found.spec_digest == _asked(request, found).digest():
                    return None if folder.damaged(found.files) else found
    folder = layout.dataset(request.dataset_name())
    try:
        other = find_manifest(folder)
    except CorruptDatasetError as error:
        raise BuildError(f"{error}; to build it again, delete {folder.place}") from error
    if other is not None:
        raise SpecError(_taken(other, _asked(request, other)))
    return None


def _asked(request: BuildRequest, found: Manifest) -> DatasetSpec:
    """Return the requested specification, with the source digests of an existing dataset."""
    source, test_source = _of_the_same(request.source, found.spec.source), found.spec.test_source
    if request.test_source is None:
        test_source = None
    else:
        test_source = _of_the_same(request.test_source, test_source or SourceSpec(kind="csv"))
    return request.spec(source, test_source)


def _of_the_same(asked: SourceRef, there: SourceSpec) -> SourceSpec:
    """Return the source of the stored dataset if it can be the requested one, else what the request tells of it."""
    if asked.may_be(there):
        return there
    if asked.kind == "hf":
        return SourceSpec(kind="csv", name=asked.repository or SUDOKU_EXTREME)
    return SourceSpec(kind=asked.kind, name=asked.name)


def _taken(manifest: Manifest, spec: DatasetSpec) -> str:
    return (
        f"the name {manifest.name!r} is taken by another dataset ({_difference(manifest, spec)}); choose another "
        f"with --name, or remove the folder datasets/{manifest.name} of the root"
    )


def _difference(manifest: Manifest, spec: DatasetSpec) -> str:
    """Describe the fields in which the existing dataset differs from the requested one."""
    if manifest.builder_version != BUILDER_VERSION:
        return f"builder version {manifest.builder_version}, now {BUILDER_VERSION}"
    return ", ".join(_changes(manifest.spec.to_json(), spec.to_json()))


def _changes(there: Mapping[str, Any], asked: Mapping[str, Any], of: str = "") -> Iterator[str]:
    """Yield a phrase for each field that differs; compare digests only of files with the same name."""
    for key in asked:
        before, now = there.get(key), asked[key]
        if isinstance(before, dict) and isinstance(now, dict):
            yield from _changes(
                cast(dict[str, Any], before), cast(dict[str, Any], now), f"{key.replace('_', ' ')} "
            )
        elif before != now and not (key == "sha256" and there.get("name") != asked.get("name")):
            yield f"{of}{key}: {_short(before)} there, {_short(now)} asked"


def _short(value: Any) -> str:
    """Return a value in short form: the name of a file, the first digits of a digest."""
    if isinstance(value, dict):
        value = cast(dict[str, Any], value).get("name") or cast(dict[str, Any], value).get("kind")
    text = "none" if value is None or value == "" else str(value)
    return text[:12] if re.fullmatch(r"[0-9a-f]{64}", text) else text
