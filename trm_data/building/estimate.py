"""Estimates of a build: rows, bytes and seconds, from the rates in docs/benchmarks.md."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from trm_data.building.existing import already_built, find_folder, would_be_found
from trm_data.engine.local import LocalEngine, default_workers, number_of_workers
from trm_data.kinds.base import Kind, puzzles_asked
from trm_data.kinds.registry import code_of, is_compiled, load_kind
from trm_data.manifest import Manifest
from trm_data.records import Selection
from trm_data.request import BuildRequest
from trm_data.show.progress import NoProgress
from trm_data.sources.base import SourceRef, check_folder
from trm_data.specs import SourceSpec
from trm_data.storage.root import Layout

READ_BYTES = 20_000_000
"""Maximum size of files that are read completely; a text of 100,000 puzzles takes some seconds."""
TAKEN_PER_S = 120_000
"""Rate of the serial step from candidates to groups, which runs in one process (puzzles/s)."""
SPLIT_BYTES = 100_000
"""Size of the smallest split on disk: ArrayRecord writes 64 KiB at a time."""
COMPILE_S = 12.0
"""Time to compile kernels at the first build of a kind on a machine, in seconds."""
START_S = 1.5
"""Time until the workers are ready, in seconds."""


@dataclass(frozen=True)
class Estimate:
    """Predicted result of a build.

    Attributes:
        name: Name of the dataset.
        built: Whether a dataset of this name already exists.
        examples: Rows of each split.
        sequence_length: Cells of a row.
        size_bytes: Approximate size on disk.
        seconds: Approximate time on `workers` cores; the real time is half to twice as long.
        at_least: The time to find the requested puzzles is unknown; the build may take much longer.
        workers: Cores of this machine, or fewer if fewer were requested.
        rows_unread: Whether the rows were not read: the source may have bad rows or too few puzzles.
        rejects: Bad rows that would be left out, among the rows read.
    """

    name: str
    built: bool
    examples: dict[str, int]
    sequence_length: int
    size_bytes: int
    seconds: float
    at_least: bool
    workers: int
    rows_unread: bool
    rejects: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def estimate_build(request: BuildRequest, layout: Layout, *, workers: int | None = None) -> Estimate:
    """Estimate what building a request would make, with a number of workers (one for each core if None).

    Only local files are opened, and only small ones are read, once kernels are compiled.
    """
    kind, request = load_kind(request.kind), replace(request, kind_code=code_of(request.kind))
    placeholder = None if request.test_source is None else SourceSpec(kind="csv")
    source = SourceSpec(kind="generated" if request.source.kind == "generated" else "csv")
    spec = request.spec(source, placeholder)
    kind.check_spec(spec)
    cells = kind.geometry(spec).sequence_length
    cost = kind.cost(spec)
    examples = {split: round(count) for split, count in cost.examples.items()}
    workers = number_of_workers(workers)
    cores = min(workers, default_workers())
    cell_bytes = 2 * cells * cost.stored_examples
    there, selection = _look_into_files(kind, request, layout)
    if there is not None:
        examples = {split: entry.num_examples for split, entry in there.splits.items()}
    elif selection is not None:
        examples = {split: groups.num_examples for split, groups in selection.splits.items()}
        if spec.augment != "virtual":
            cell_bytes = 2 * cells * sum(examples.values())
    seconds = START_S + (cell_bytes / cost.cell_bytes_per_s + cost.choosing_s) / cores
    seconds += puzzles_asked(spec) / TAKEN_PER_S
    seconds += 0.0 if is_compiled(request.kind) else COMPILE_S
    examples = {split: count for split, count in examples.items() if count}
    return Estimate(
        request.dataset_name() if there is None else there.name,
        there is not None,
        examples,
        cells,
        round(cell_bytes * cost.stored_share) + SPLIT_BYTES * len(examples),
        round(seconds, 1),
        cost.at_least,
        cores,
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
        if there is not None or not is_compiled(request.kind) or not all(map(_is_small, refs)):
            return there, None
        with closing(LocalEngine(workers=1)) as engine:
            cache = layout.generated
            return None, kind.select(spec, sources, engine=engine, progress=NoProgress(), cache=cache)


def _is_small(ref: SourceRef) -> bool:
    path = Path(ref.path).expanduser()
    return path.is_file() and path.stat().st_size <= READ_BYTES
