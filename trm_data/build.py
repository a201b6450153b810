"""Builds a dataset: resolve the specification, choose the puzzles, write the shards, the catalog, the manifest.

Reads top to bottom in `build_dataset`. Every step can be interrupted: what is on disk then is no dataset, and
the same command goes on where it stopped, with the shards that are already whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trm_data.catalog.tables import catalog_tables
from trm_data.catalog.write import refresh_catalog, write_catalog_files
from trm_data.engine.local import default_workers, run_tasks
from trm_data.errors import BuildError, CorruptDatasetError, DatasetNotFoundError, QueryError, SpecError
from trm_data.kinds.base import Kind, load_kind
from trm_data.layout import Layout
from trm_data.manifest import MANIFEST, Manifest, ShardEntry, SplitEntry, manifest_path, read_manifest
from trm_data.progress import NoProgress, Progress
from trm_data.records import Rows, Selection, group_ranges
from trm_data.shards.digest import content_digest, group_digests, split_digest
from trm_data.shards.files import write_json
from trm_data.shards.naming import is_temporary, shard_name, sidecar_path
from trm_data.shards.reader import check_file
from trm_data.shards.writer import ShardInfo, whole_shard, write_shard
from trm_data.sources.base import SourceRef, fetch_source
from trm_data.specs import (
    BUILDER_VERSION,
    DatasetSpec,
    KindName,
    OnBadRow,
    SourceSpec,
    Split,
    SudokuOptions,
    canonical_json,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_SHARD_EXAMPLES = 131_072


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """A dataset as a user asks for it; the digests of its sources are not known yet."""

    kind: KindName = "sudoku"
    source: SourceRef
    test_source: SourceRef | None = None
    size: int
    aug: int = 0
    val_size: int = 0
    test_size: int = 0
    seed: int = 0
    on_bad_row: OnBadRow = "stop"
    options: SudokuOptions
    name: str | None = None

    def dataset_name(self) -> str:
        """The name given, or one that says source, size and augmentation."""
        if self.name is not None:
            return self.name
        options = self.options
        shape = "" if options.box == (3, 3) else f"-{options.box_rows}x{options.box_columns}"
        stem = "generated" if self.source.kind == "generated" else self.source.stem
        stem = "extreme" if self.source.kind == "hf" else stem.removeprefix(f"{self.kind}-")
        return f"{self.kind}{shape}-{stem}-{self.size}-aug-{self.aug}"


@dataclass(frozen=True)
class BuildResult:
    """What a build did."""

    manifest: Manifest
    folder: Path
    unchanged: bool = False
    """The dataset was already there, whole, for this specification."""
    shards_written: int = 0
    shards_kept: int = 0
    rejects: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShardTask:
    """One shard to write: the groups `start` to `stop` of a split."""

    split: Split
    path: Path
    start: int
    stop: int


def build_dataset(
    request: BuildRequest,
    layout: Layout,
    *,
    workers: int | None = None,
    shard_examples: int = DEFAULT_SHARD_EXAMPLES,
    progress: Progress | None = None,
) -> BuildResult:
    """Build a dataset, or find that it is already built.

    Args:
        request: What to build.
        layout: The root to build under.
        workers: Threads; one for each core if None. The content does not depend on it.
        shard_examples: Examples in a shard, about; a group is never divided.
        progress: Told of every stage.

    Raises:
        SpecError: The request cannot be built, or the name is taken by another dataset.
        SourceError: A source cannot be read.
        BadRowError: A row of a source is no valid puzzle.
        BuildError: Writing failed, or another build of the same name is running.
    """
    begun = time.perf_counter()
    workers = default_workers() if workers is None else workers
    progress = progress or NoProgress()
    if workers < 1 or shard_examples < 1:
        raise SpecError(f"--workers {workers}, --shard-examples {shard_examples}: both at least 1")
    kind = load_kind(request.kind)
    name = request.dataset_name()
    folder = layout.dataset(name)
    with ExitStack() as stack:
        source = stack.enter_context(fetch_source(request.source))
        test_source = None
        if request.test_source is not None:
            test_source = stack.enter_context(fetch_source(request.test_source, split="test"))
        spec = _spec(request, source.spec, None if test_source is None else test_source.spec)
        kind.check_spec(spec)
        stack.enter_context(_writing(layout, name))
        found = _already_built(layout, name, spec)
        if found is not None:
            return BuildResult(found, folder, unchanged=True, seconds=time.perf_counter() - begun)
        selection = kind.select(spec, source, test_source, workers=workers, progress=progress)
        folder.mkdir(parents=True, exist_ok=True)
        tasks = _plan_shards(folder, selection, shard_examples)
        written = _write_shards(kind, spec, selection, tasks, workers, progress)
        manifest = _finish(kind, name, folder, spec, selection, tasks, written)
    warnings = _refresh_index(layout, name)
    kept = sum(shard.kept for shard in written)
    return BuildResult(
        manifest,
        folder,
        shards_written=len(written) - kept,
        shards_kept=kept,
        rejects=len(selection.rejects),
        seconds=time.perf_counter() - begun,
        warnings=tuple(warnings),
    )


@dataclass(frozen=True)
class _WrittenShard:
    info: ShardInfo
    kept: bool
    elements: NDArray[np.int64]


def _spec(request: BuildRequest, source: SourceSpec, test_source: SourceSpec | None) -> DatasetSpec:
    """The specification of a request, now that the digests of its sources are known."""
    return DatasetSpec(
        kind=request.kind,
        source=source,
        test_source=test_source,
        size=request.size,
        aug=request.aug,
        val_size=request.val_size,
        test_size=request.test_size,
        seed=request.seed,
        on_bad_row=request.on_bad_row,
        options=request.options,
    )


@contextmanager
def _writing(layout: Layout, name: str) -> Generator[None, None, None]:
    """Hold the dataset's lock; a second build of the same name stops with a clear message."""
    layout.locks.mkdir(parents=True, exist_ok=True)
    with (layout.locks / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BuildError(f"{name}: another build of this dataset is running; wait for it") from None
        yield


def _refresh_index(layout: Layout, name: str) -> list[str]:
    """Bring the SQL index up to date. The dataset is whole without it, so a failure is no failed build."""
    try:
        return refresh_catalog(layout, changed=name)
    except (OSError, QueryError) as error:
        return [f"the SQL index was not updated ({error}); the next trm-data sql does it"]


def _already_built(layout: Layout, name: str, spec: DatasetSpec) -> Manifest | None:
    """The manifest, if the dataset is there whole; where files of it are damaged, it is built again.

    Raises:
        SpecError: The name belongs to another dataset.
        BuildError: There is a manifest that cannot be read, so whose dataset it is cannot be known.
    """
    folder = layout.dataset(name)
    try:
        manifest = read_manifest(layout, name)
    except DatasetNotFoundError:
        return None
    except CorruptDatasetError as error:
        raise BuildError(f"{error}; to build it anew, delete {folder}") from error
    if manifest.spec_digest != spec.digest():
        raise SpecError(
            f"the name {name!r} is taken by another dataset ({_difference(manifest, spec)}); choose another "
            f"with --name, or delete {folder}"
        )
    shards = [shard for split in manifest.splits.values() for shard in split.shards]
    try:
        for file in [*shards, *manifest.catalog]:
            check_file(folder / file.file, size_bytes=file.size_bytes, sha256=file.sha256)
    except CorruptDatasetError:
        manifest_path(layout, name).unlink()
        return None
    return manifest


def _difference(manifest: Manifest, spec: DatasetSpec) -> str:
    """In which fields the dataset that is there differs from the one asked for."""
    if manifest.builder_version != BUILDER_VERSION:
        return f"builder version {manifest.builder_version}, now {BUILDER_VERSION}"
    there, asked = manifest.spec.to_json(), spec.to_json()
    return ", ".join(
        f"{key}: {there[key]} there, {asked[key]} asked" for key in asked if there[key] != asked[key]
    )


def _plan_shards(folder: Path, selection: Selection, shard_examples: int) -> list[ShardTask]:
    """Cut every split into shards of whole groups, even in groups."""
    tasks: list[ShardTask] = []
    for split, groups in selection.splits.items():
        count = min(len(groups), -(-groups.num_examples // shard_examples))
        bounds = [len(groups) * shard // count for shard in range(count + 1)]
        for shard in range(count):
            path = folder / shard_name(split, shard, count)
            tasks.append(ShardTask(split, path, bounds[shard], bounds[shard + 1]))
    return tasks


def _write_shards(
    kind: Kind,
    spec: DatasetSpec,
    selection: Selection,
    tasks: list[ShardTask],
    workers: int,
    progress: Progress,
) -> list[_WrittenShard]:
    """Write every shard that is not there yet."""
    progress.start("write rows", sum(groups.num_examples for groups in selection.splits.values()), "examples")
    spec_digest = spec.digest()

    def run(task: ShardTask) -> _WrittenShard:
        groups = selection.splits[task.split]
        elements: list[NDArray[np.int64]] = []

        def rows_of_parts() -> Iterator[Rows]:
            for start, stop in group_ranges(groups, task.start, task.stop):
                rows, part_elements = kind.make_rows(spec, groups, start, stop)
                elements.append(part_elements)
                yield rows
                progress.advance(len(rows))

        info = whole_shard(task.path, spec_digest)
        if info is not None and (info.first_group, info.num_groups) == (task.start, task.stop - task.start):
            digests = b"".join(group_digests(rows) for rows in rows_of_parts())
            if digests == info.group_digest_bytes():
                return _WrittenShard(info, kept=True, elements=np.concatenate(elements))
            elements.clear()
        info = write_shard(
            task.path,
            rows_of_parts(),
            sequence_length=groups.inputs.shape[1],
            spec_digest=spec_digest,
            first_group=task.start,
        )
        return _WrittenShard(info, kept=False, elements=np.concatenate(elements))

    return run_tasks(run, tasks, workers)


def _finish(
    kind: Kind,
    name: str,
    folder: Path,
    spec: DatasetSpec,
    selection: Selection,
    tasks: list[ShardTask],
    written: list[_WrittenShard],
) -> Manifest:
    """Write the catalog files and, last of all, the manifest."""
    geometry = kind.geometry(spec)
    splits: dict[str, SplitEntry] = {}
    elements: dict[str, NDArray[np.int64]] = {}
    for split, groups in selection.splits.items():
        mine = [shard for shard, task in zip(written, tasks, strict=True) if task.split == split]
        elements[split] = np.concatenate([shard.elements for shard in mine])
        splits[split] = SplitEntry(
            num_groups=len(groups),
            num_puzzles=groups.num_examples,
            num_examples=sum(shard.info.num_examples for shard in mine),
            digest=split_digest(
                geometry.sequence_length, (shard.info.group_digest_bytes() for shard in mine)
            ),
            shards=tuple(_entry(shard.info) for shard in mine),
        )
    manifest = Manifest(
        name=name,
        kind=spec.kind,
        spec=spec,
        spec_digest=spec.digest(),
        content_digest=content_digest({split: entry.digest for split, entry in splits.items()}),
        builder_version=BUILDER_VERSION,
        built_at=datetime.now(UTC).isoformat(timespec="seconds"),
        sequence_length=geometry.sequence_length,
        vocabulary_size=geometry.vocabulary_size,
        num_identifiers=len(geometry.identifiers),
        identifiers_digest=hashlib.sha256(canonical_json(list(geometry.identifiers))).hexdigest(),
        grid_rows=geometry.grid_rows,
        grid_columns=geometry.grid_columns,
        splits=splits,
        catalog=(),
        libraries={package: version(package) for package in ("array-record", "numba", "numpy", "pyarrow")},
    )
    _remove_leftovers(folder, {task.path.name for task in tasks})
    try:
        catalog = write_catalog_files(folder, catalog_tables(manifest, selection, elements))
        manifest = replace(manifest, catalog=tuple(catalog))
        write_json(folder / MANIFEST, manifest.to_json())
    except OSError as error:
        raise BuildError(
            f"{folder}: could not be written ({error}); free some space and build again"
        ) from error
    return manifest


def _entry(info: ShardInfo) -> ShardEntry:
    return ShardEntry(
        file=info.file,
        sha256=info.sha256,
        size_bytes=info.size_bytes,
        num_records=info.num_records,
        num_examples=info.num_examples,
        first_group=info.first_group,
        num_groups=info.num_groups,
    )


def _remove_leftovers(folder: Path, shards: set[str]) -> None:
    """Remove what killed or differently divided builds left: never anything that is not ours."""
    wanted = shards | {sidecar_path(folder / shard).name for shard in shards}
    for path in {
        *folder.glob("*.array_record"),
        *folder.glob("*.array_record.json"),
        *folder.rglob(".tmp-*"),
    }:
        if is_temporary(path) or path.name not in wanted:
            path.unlink()
