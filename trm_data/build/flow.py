"""Builds a dataset: resolve the specification, choose the puzzles, write the shards, the catalog, the manifest.

Reads top to bottom in `build_dataset`. Every step can be interrupted: what is on disk then is no dataset, and
the same command goes on where it stopped, with the shards that are already whole.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from trm_data.build.shard_job import ShardJob, WrittenShard, write_job
from trm_data.card import CARD, dataset_card
from trm_data.catalog.schema import TABLES
from trm_data.catalog.tables import catalog_tables
from trm_data.catalog.write import refresh_catalog, write_attachments, write_catalog_files
from trm_data.engine.base import Engine
from trm_data.engine.local import LocalEngine
from trm_data.errors import BuildError, CorruptDatasetError, DatasetNotFoundError, QueryError, SpecError
from trm_data.kinds import sizes
from trm_data.kinds.base import Kind
from trm_data.kinds.registry import load_kind, warm_module
from trm_data.manifest import Manifest, ShardEntry, SplitEntry, read_manifest, write_manifest
from trm_data.records import Selection
from trm_data.request import BuildRequest
from trm_data.shards.digest import content_digest, split_digest
from trm_data.shards.writer import ShardInfo
from trm_data.show.progress import NoProgress, Progress
from trm_data.specs import BUILDER_VERSION, DatasetSpec, canonical_json
from trm_data.storage.datasets import (
    clear_local,
    damaged_files,
    place,
    publish_built,
    publish_note,
    remove_leftovers,
    remove_temporary,
    withdraw_manifest,
)
from trm_data.storage.naming import shard_name
from trm_data.storage.root import Layout
from trm_data.storage.turn import Turn, turn_to_write, writing

DEFAULT_SHARD_EXAMPLES = 131_072
BLANK_IDENTIFIERS = hashlib.sha256(canonical_json(["<blank>"])).hexdigest()
"""Digest of the identifiers of a dataset whose puzzles all share the blank one."""


@dataclass(frozen=True)
class BuildResult:
    """What a build did."""

    manifest: Manifest
    folder: Path
    """Where its files were written; of a root on a bucket, nothing is left there."""
    place: str
    """Where the dataset is, as a person knows it."""
    unchanged: bool = False
    """The dataset was already there, whole, for this specification."""
    shards_written: int = 0
    shards_kept: int = 0
    rejects: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()


def build_dataset(
    request: BuildRequest,
    layout: Layout,
    *,
    engine: Engine | None = None,
    shard_examples: int = DEFAULT_SHARD_EXAMPLES,
    progress: Progress | None = None,
) -> BuildResult:
    """Build a dataset, or find that it is already built.

    Args:
        request: What to build.
        layout: The root to build under.
        engine: Runs the tasks; processes, one for each core, if None. The content does not depend on it.
        shard_examples: Examples in a shard, about; a group is never divided.
        progress: Told of every stage.

    Raises:
        SpecError: The request cannot be built, or the name is taken by another dataset.
        SourceError: A source cannot be read.
        BadRowError: A row of a source is no valid puzzle.
        BuildError: Writing failed, or another build of the same name is running.
        BucketError: The bucket of the root cannot be reached, or refuses.
    """
    begun = time.perf_counter()
    progress = progress or NoProgress()
    if shard_examples < 1:
        raise SpecError(f"--shard-examples {shard_examples}: at least 1")
    kind = load_kind(request.kind)
    name = request.dataset_name()
    folder = layout.dataset(name)
    with ExitStack() as stack:
        engine = engine or stack.enter_context(closing(LocalEngine()))
        engine.prepare(warm_module(request.kind))
        sources = stack.enter_context(kind.open_sources(request.source, request.test_source, request.options))
        spec = request.spec(sources.main.spec, None if sources.test is None else sources.test.spec)
        kind.check_spec(spec)
        stack.enter_context(writing(layout, name))
        found = _already_built(layout, name, spec)
        turn = stack.enter_context(turn_to_write(layout, name)) if found is None else Turn(None)
        found = found or _already_built(layout, name, spec)  # perhaps by the machine whose turn it was
        if found is not None:
            seconds = time.perf_counter() - begun
            return BuildResult(found, folder, place(layout, name), unchanged=True, seconds=seconds)
        withdraw_manifest(layout, name)
        remove_temporary(layout, name)
        selection = kind.select(spec, sources, engine=engine, progress=progress, kept=layout.generated)
        folder.mkdir(parents=True, exist_ok=True)
        jobs = _plan_shards(kind, layout, name, spec, selection, shard_examples)
        written = _write_shards(engine, jobs, progress)
        engine.close()  # the catalog needs the memory
        manifest = _finish(kind, name, layout, turn, spec, selection, jobs, written, progress)
    warnings = [*selection.warnings, *_refresh_index(layout, name)]
    kept = sum(shard.kept for shard in written)
    return BuildResult(
        manifest,
        folder,
        place(layout, name),
        shards_written=len(written) - kept,
        shards_kept=kept,
        rejects=len(selection.rejects),
        seconds=time.perf_counter() - begun,
        warnings=tuple(warnings),
    )


def _refresh_index(layout: Layout, name: str) -> list[str]:
    """Bring the SQL index up to date. The dataset is whole without it, so a failure is no failed build."""
    try:
        return refresh_catalog(layout, changed=name)
    except (OSError, QueryError) as error:
        return [f"the SQL index was not updated ({error}); the next trm-data sql does it"]


def _already_built(layout: Layout, name: str, spec: DatasetSpec) -> Manifest | None:
    """The manifest, if the dataset is there whole.

    Raises:
        SpecError: The name belongs to another dataset.
        BuildError: There is a manifest that cannot be read, so whose dataset it is cannot be known.
    """
    try:
        manifest = read_manifest(layout, name)
    except DatasetNotFoundError:
        return None
    except CorruptDatasetError as error:
        raise BuildError(f"{error}; to build it anew, delete {place(layout, name)}") from error
    if manifest.spec_digest != spec.digest():
        raise SpecError(
            f"the name {name!r} is taken by another dataset ({_difference(manifest, spec)}); choose another "
            f"with --name, or remove it: trm-data rm {name}"
        )
    return None if damaged_files(layout, name, manifest.files) else manifest


def _difference(manifest: Manifest, spec: DatasetSpec) -> str:
    """In which fields the dataset that is there differs from the one asked for."""
    if manifest.builder_version != BUILDER_VERSION:
        return f"builder version {manifest.builder_version}, now {BUILDER_VERSION}"
    there, asked = manifest.spec.to_json(), spec.to_json()
    return ", ".join(
        f"{key}: {there[key]} there, {asked[key]} asked" for key in asked if there[key] != asked[key]
    )


def _plan_shards(
    kind: Kind, layout: Layout, name: str, spec: DatasetSpec, selection: Selection, shard_examples: int
) -> list[ShardJob]:
    """Cut every split into shards of whole groups, even in groups."""
    identifier_each = kind.geometry(spec).identifier_each
    jobs: list[ShardJob] = []
    for split, groups in selection.splits.items():
        examples = len(groups.inputs) if spec.augment == "virtual" else groups.num_examples
        count = min(len(groups), -(-examples // shard_examples))
        bounds = [len(groups) * shard // count for shard in range(count + 1)]
        for shard in range(count):
            start, stop = bounds[shard], bounds[shard + 1]
            file = shard_name(split, shard, count)
            part = groups.slice(start, stop)
            jobs.append(ShardJob(spec, split, layout, name, file, part, start, identifier_each))
    return jobs


def _write_shards(engine: Engine, jobs: list[ShardJob], progress: Progress) -> list[WrittenShard]:
    """Write every shard that is not there yet."""
    virtual = bool(jobs) and jobs[0].spec.augment == "virtual"
    total = sum(len(job.groups.inputs) if virtual else job.groups.num_examples for job in jobs)
    progress.start("write rows", total, "examples")
    brief = total <= sizes.BRIEF_ROWS
    return engine.run(
        write_job, jobs, lambda written: progress.advance(written.info.num_examples), brief=brief
    )


def _finish(
    kind: Kind,
    name: str,
    layout: Layout,
    turn: Turn,
    spec: DatasetSpec,
    selection: Selection,
    jobs: list[ShardJob],
    written: list[WrittenShard],
    progress: Progress,
) -> Manifest:
    """Write the catalog files and, last of all, the manifest."""
    progress.start("write catalog", len(TABLES), "tables")
    folder = layout.dataset(name)
    shards_of: dict[str, list[WrittenShard]] = {
        split: [shard for shard, job in zip(written, jobs, strict=True) if job.split == split]
        for split in selection.splits
    }
    manifest = _manifest(kind, name, spec, selection, shards_of)
    turn.check()
    remove_leftovers(layout, name, [job.file for job in jobs])
    made = {split: [shard.made for shard in shards] for split, shards in shards_of.items()}
    try:
        catalog = write_catalog_files(folder, catalog_tables(kind, manifest, selection, made))
        catalog += write_attachments(folder, selection.attachments)
        manifest = replace(manifest, catalog=tuple(catalog))
        turn.check()
        for file in catalog:
            publish_built(layout, name, file)
        publish_note(layout, name, CARD, dataset_card(manifest, selection.sources).encode())
        turn.check()
        if layout.url and (problems := damaged_files(layout, name, manifest.files)):
            raise BuildError(f"{problems[0]}; something else writes there: stop that and build again")
        write_manifest(layout, manifest)
        clear_local(layout, name)
        progress.advance(len(TABLES))
    except OSError as error:
        raise BuildError(
            f"{folder}: could not be written ({error}); free some space and build again"
        ) from error
    return manifest


def _manifest(
    kind: Kind, name: str, spec: DatasetSpec, selection: Selection, shards_of: dict[str, list[WrittenShard]]
) -> Manifest:
    """What the dataset is, its catalog files aside."""
    geometry = kind.geometry(spec)
    splits: dict[str, SplitEntry] = {}
    for split, groups in selection.splits.items():
        augmented = spec.augment == "virtual" and groups.num_puzzles > len(groups)
        digests = (shard.info.group_digest_bytes() for shard in shards_of[split])
        splits[split] = SplitEntry(
            num_groups=len(groups),
            num_puzzles=groups.num_puzzles,
            num_examples=groups.num_examples,
            digest=split_digest(
                geometry.sequence_length, digests, virtual=spec.digest() if augmented else ""
            ),
            shards=tuple(_entry(shard.info) for shard in shards_of[split]),
        )
    return Manifest(
        name=name,
        kind=spec.kind,
        spec=spec,
        spec_digest=spec.digest(),
        content_digest=content_digest({split: entry.digest for split, entry in splits.items()}),
        builder_version=BUILDER_VERSION,
        built_at=datetime.now(UTC).isoformat(timespec="seconds"),
        sequence_length=geometry.sequence_length,
        vocabulary_size=geometry.vocabulary_size,
        num_identifiers=selection.num_identifiers,
        identifiers_digest=selection.identifiers_digest or BLANK_IDENTIFIERS,
        grid_rows=geometry.grid_rows,
        grid_columns=geometry.grid_columns,
        splits=splits,
        catalog=(),
        libraries={package: version(package) for package in ("array-record", "numba", "numpy", "pyarrow")},
    )


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
