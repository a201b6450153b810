"""Build a dataset: resolve the specification, choose the puzzles, write the shards, the catalog and the manifest.

Read `build_dataset` from top to bottom. Every step can be interrupted: without the manifest, files are not a dataset.
The same command then resumes where it stopped and keeps the complete shards.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

from trm_data.building.estimate import already_built, find_folder
from trm_data.building.finish import finish_build
from trm_data.building.shard_job import ShardJob, write_job
from trm_data.engine import Engine
from trm_data.engine.local import LocalEngine
from trm_data.errors import SpecError
from trm_data.kernel import compile_parts
from trm_data.kinds import base
from trm_data.kinds.registry import code_of, is_compiled, load_kind, warm_module
from trm_data.manifest import Manifest
from trm_data.records import Selection
from trm_data.shards.writer import shard_name
from trm_data.show.progress import NoProgress, Progress
from trm_data.specs import BuildRequest, DatasetSpec, check_name
from trm_data.storage.lease import leased, writing
from trm_data.storage.root import DatasetFolder, Layout
from trm_data.storage.store import Lease

DEFAULT_SHARD_EXAMPLES = 131_072


@dataclass(frozen=True)
class BuildResult:
    """Result of a build."""

    manifest: Manifest
    folder: Path
    """Folder in which the files were written; for a root on a bucket, the build leaves no files there."""
    place: str
    """Location of the dataset, for messages."""
    unchanged: bool = False
    """Whether a complete dataset for this specification existed already."""
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
    """Build a dataset, unless it is already built.

    Args:
        request: What to build.
        layout: The root to build under.
        engine: Runs the tasks; default: one process for each core. The content does not depend on it.
        shard_examples: Approximate number of examples in a shard; a group is never split.
        progress: Shows the progress of every stage.

    Raises:
        SpecError: The request cannot be built, or the name is taken by another dataset.
        SourceError: A source cannot be read.
        BadRowError: A row of a source is not a valid puzzle.
        BuildError: Writing failed, or another build of the same name is running.
        BucketError: The bucket of the root is unreachable or refuses.
    """
    begun = time.perf_counter()
    progress = progress or NoProgress()
    check_shard_examples(shard_examples)
    kind, request = load_kind(request.kind), replace(request, kind_code=code_of(request.kind))
    check_name(request.dataset_name())
    with ExitStack() as stack:
        engine = engine or stack.enter_context(closing(LocalEngine()))
        if is_compiled(request.kind):
            engine.prepare(warm_module(request.kind))
        sources = stack.enter_context(kind.open_sources(request.source, request.test_source, request.options))
        spec = request.spec(sources.main.spec, None if sources.test is None else sources.test.spec)
        kind.check_spec(spec)
        folder = find_folder(layout, request, spec)
        lease = None
        found = already_built(folder, spec)  # needs no lock, so the root may be read-only
        if found is None:
            stack.enter_context(writing(folder))
            lease = stack.enter_context(leased(folder))
            found = already_built(folder, spec)  # perhaps by the previous holder of the lease
        if lease is None or found is not None:
            assert found is not None
            seconds = time.perf_counter() - begun
            return BuildResult(found, folder.here, folder.place, unchanged=True, seconds=seconds)
        folder.withdraw_manifest(lease)
        folder.remove_temporary()
        if not is_compiled(request.kind):
            compile_parts(warm_module(request.kind), progress, generated=request.source.kind == "generated")
            engine.prepare(warm_module(request.kind))
        selection = kind.select(spec, sources, engine=engine, progress=progress, cache=layout.generated)
        jobs = _plan_shards(folder, lease, spec, selection, shard_examples)
        splits = selection.splits.values()
        rows = sum(
            len(groups.inputs) if spec.augment == "virtual" else groups.num_examples for groups in splits
        )
        progress.start("write rows", rows, "examples")
        written = engine.run(
            write_job,
            jobs,
            lambda written: progress.advance(written.info.num_examples),
            brief=rows <= base.BRIEF_ROWS,
        )
        engine.close()  # the catalog needs the memory
        manifest = finish_build(kind, folder, lease, spec, selection, jobs, written, progress)
    result = BuildResult(manifest, folder.here, folder.place, rejects=len(selection.rejects))
    kept, seconds = sum(shard.kept for shard in written), time.perf_counter() - begun
    new = len(written) - kept
    return replace(
        result, shards_written=new, shards_kept=kept, seconds=seconds, warnings=tuple(selection.warnings)
    )


def check_shard_examples(shard_examples: int) -> None:
    """Raise SpecError for shards without rows."""
    if shard_examples < 1:
        raise SpecError(f"--shard-examples {shard_examples}: expected at least 1")


def _plan_shards(
    folder: DatasetFolder,
    lease: Lease,
    spec: DatasetSpec,
    selection: Selection,
    shard_examples: int,
) -> list[ShardJob]:
    """Cut every split into shards of whole groups, with about the same number of groups each."""
    jobs: list[ShardJob] = []
    for split, groups in selection.splits.items():
        examples = len(groups.inputs) if spec.augment == "virtual" else groups.num_examples
        count = min(len(groups), -(-examples // shard_examples))
        bounds = [len(groups) * shard // count for shard in range(count + 1)]
        for shard in range(count):
            start, stop = bounds[shard], bounds[shard + 1]
            file = shard_name(split, shard, count)
            part = groups.slice(start, stop)
            jobs.append(ShardJob(spec, split, folder, file, part, start, lease))
    return jobs
