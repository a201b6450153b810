"""Before a build: find an existing dataset for a request, and estimate rows and bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from trm_data.engine.local import LocalEngine
from trm_data.errors import BuildError, CorruptDatasetError, SpecError
from trm_data.kinds.base import Kind
from trm_data.kinds.registry import code_of, is_compiled, load_kind
from trm_data.manifest import Manifest, find_manifest
from trm_data.named import names_of
from trm_data.records import Selection
from trm_data.show.progress import NoProgress
from trm_data.sources.base import check_folder
from trm_data.specs import BUILDER_VERSION, BuildRequest, DatasetSpec, SourceSpec
from trm_data.storage.root import DatasetFolder, Layout


def _folders(layout: Layout, request: BuildRequest) -> Iterator[DatasetFolder]:
    """Yield the folders of all names that the dataset of a request may have."""
    for name in request.names():
        yield from map(layout.dataset, names_of(name))


def find_folder(layout: Layout, request: BuildRequest, spec: DatasetSpec) -> DatasetFolder:
    """Return the folder of this dataset under any of its names, or the folder that a build would create."""
    digest = spec.digest()
    for folder in _folders(layout, request):
        with contextlib.suppress(CorruptDatasetError):  # for the requested name, the build reports it
            manifest = find_manifest(folder)
            if manifest is not None and manifest.spec_digest == digest:
                return folder
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
        raise SpecError(
            f"the name {manifest.name!r} is taken by another dataset ({_difference(manifest, spec)}); choose another "
            f"with --name, or remove the folder datasets/{manifest.name} of the root"
        )
    return None if folder.damaged(manifest.files) else manifest


def would_be_found(layout: Layout, request: BuildRequest) -> Manifest | None:
    """Return the complete dataset of this request, from any version of its sources."""
    for folder in _folders(layout, request):
        with contextlib.suppress(CorruptDatasetError):
            found = find_manifest(folder)
            if found is None:
                continue
            test_source = None if request.test_source is None else found.spec.test_source
            if request.spec(found.spec.source, test_source) == found.spec:
                return None if folder.damaged(found.files) else found
    return None


def _difference(manifest: Manifest, spec: DatasetSpec) -> str:
    """Describe the fields in which the existing dataset differs from the requested one."""
    if manifest.builder_version != BUILDER_VERSION:
        return f"builder version {manifest.builder_version}, now {BUILDER_VERSION}"
    before, now = _flat(manifest.spec), _flat(spec)
    return ", ".join(
        f"{name}: {before.get(name) or 'none'} there, {value or 'none'} asked"
        for name, value in now.items()
        if before.get(name) != value
    )


def _flat(spec: DatasetSpec) -> dict[str, str]:
    """Return all fields of a specification as text, digests in short."""
    flat: dict[str, str] = {}
    for field, value in spec.to_json().items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for name, item in inner:
            text = "" if item is None else str(item)
            flat[f"{field} {name}".strip().replace("_", " ")] = text[:12] if name == "sha256" else text
    return flat


READ_BYTES = 20_000_000
"""Maximum size of files that are read completely; a text of 100,000 puzzles takes some seconds."""
SPLIT_BYTES = 100_000
"""Size of the smallest split on disk: ArrayRecord writes 64 KiB at a time."""


@dataclass(frozen=True)
class Estimate:
    """Predicted result of a build.

    Attributes:
        name: Name of the dataset.
        built: Whether a dataset of this name already exists.
        examples: Rows of each split.
        sequence_length: Cells of a row.
        size_bytes: Approximate size on disk.
        rows_unread: Whether the rows were not read: the source may have bad rows or too few puzzles.
        rejects: Bad rows that would be left out, among the rows read.
    """

    name: str
    built: bool
    examples: dict[str, int]
    sequence_length: int
    size_bytes: int
    rows_unread: bool
    rejects: int = 0


def estimate_build(request: BuildRequest, layout: Layout) -> Estimate:
    """Estimate what building a request would make.

    Only local files are opened, and only small ones are read, once kernels are compiled.
    """
    kind, request = load_kind(request.kind), replace(request, kind_code=code_of(request.kind))
    placeholder = None if request.test_source is None else SourceSpec(kind="csv")
    source = SourceSpec(kind="generated" if request.source.kind == "generated" else "csv")
    spec = request.spec(source, placeholder)
    kind.check_spec(spec)
    cells = kind.geometry(spec).sequence_length
    examples = kind.expected_rows(spec)
    stored = kind.expected_rows(replace(spec, aug=0)) if spec.augment == "virtual" else examples
    there, selection = _look_into_files(kind, request, layout)
    if there is not None:
        examples = {split: entry.num_examples for split, entry in there.splits.items()}
    elif selection is not None:
        examples = {split: groups.num_examples for split, groups in selection.splits.items()}
        stored = stored if spec.augment == "virtual" else examples
    examples = {split: round(count) for split, count in examples.items() if count}
    return Estimate(
        request.dataset_name() if there is None else there.name,
        there is not None,
        examples,
        cells,
        round(2 * cells * sum(stored.values()) * kind.stored_share) + SPLIT_BYTES * len(examples),
        request.source.kind != "generated" and there is None and selection is None,
        0 if selection is None else len(selection.rejects),
    )


def _look_into_files(
    kind: Kind, request: BuildRequest, layout: Layout
) -> tuple[Manifest | None, Selection | None]:
    """Return the complete dataset that a build would find, else the selection that it would make from small files."""
    refs = [ref for ref in (request.source, request.test_source) if ref is not None]
    for ref in refs:
        check_folder(ref)
    if not all(ref.is_here for ref in refs):
        return would_be_found(layout, request), None
    with kind.open_sources(request.source, request.test_source, request.options) as sources:
        spec = request.spec(sources.main.spec, None if sources.test is None else sources.test.spec)
        there = already_built(find_folder(layout, request, spec), spec)
        files = [Path(ref.path).expanduser() for ref in refs]
        small = all(file.is_file() and file.stat().st_size <= READ_BYTES for file in files)
        if there is not None or not is_compiled(request.kind) or not small:
            return there, None
        with closing(LocalEngine(workers=1)) as engine:
            cache = layout.generated
            return None, kind.select(spec, sources, engine=engine, progress=NoProgress(), cache=cache)
