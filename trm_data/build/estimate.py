"""What a build would make, without making it: rows, bytes, seconds; from figures measured in docs/benchmarks.md."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from trm_data.engine.local import default_workers
from trm_data.errors import DatasetNotFoundError
from trm_data.kinds.registry import load_kind
from trm_data.manifest import read_manifest
from trm_data.request import BuildRequest
from trm_data.specs import ArcOptions, SourceSpec, SudokuOptions
from trm_data.storage.root import Layout

STORED_SHARE = {"sudoku": 0.54, "maze": 0.25, "arc": 0.044}
"""Bytes on disk for each byte of cells."""
CELL_BYTES_PER_S = {"sudoku": 70e6, "maze": 150e6, "arc": 250e6}
"""Bytes of cells that a core writes in a second."""
PUZZLES_PER_S = {"sudoku": 7_000.0, "sudoku extreme": 6.0, "maze": 30.0}
"""Generated puzzles of a core in a second."""
START_S = 1.5
ARC_TASKS = {"training": 400, "evaluation": 400, "concept": 160, "training2": 1000, "evaluation2": 120}
ARC_EXAMPLES = {"train": 4.15, "validation": 1.05, "test": 1.05}
"""Examples of a task's augmentation, on average."""
ARC_KEPT = 0.91
"""Share of 1,000 augmentations that are distinct: symmetric tasks have fewer."""


@dataclass(frozen=True)
class Estimate:
    """What a build would make.

    Attributes:
        name: Of the dataset.
        built: Whether a dataset of this name is already there.
        examples: Rows of each split.
        sequence_length: Cells of a row.
        size_bytes: On disk, about.
        seconds: About, on `workers` cores.
        workers: Cores of this machine.
    """

    name: str
    built: bool
    examples: dict[str, int]
    sequence_length: int
    size_bytes: int
    seconds: float
    workers: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def estimate_build(request: BuildRequest, layout: Layout) -> Estimate:
    """What building a request would make, about.

    Raises:
        SpecError: It cannot be built.
    """
    kind = load_kind(request.kind)
    placeholder = None if request.test_source is None else SourceSpec(kind="csv")
    source = SourceSpec(kind="generated" if request.source.kind == "generated" else "csv")
    spec = request.spec(source, placeholder)
    kind.check_spec(spec)
    cells = kind.geometry(spec).sequence_length
    groups = _groups(request)
    stored, examples = 0.0, {}
    for split, count in groups.items():
        arc = request.kind == "arc"
        puzzles = (
            count
            * (request.aug + 1 if split == "train" or arc else 1)
            * (ARC_KEPT if arc and request.aug >= 500 else 1)
        )
        per_puzzle = ARC_EXAMPLES[split] if arc else 1.0
        examples[split] = round(puzzles * per_puzzle)
        stored += (count if request.augment == "virtual" else puzzles) * per_puzzle
    workers = default_workers()
    known = request.kind if request.kind in STORED_SHARE else "sudoku"
    cell_bytes = 2 * cells * stored
    seconds = START_S + cell_bytes / CELL_BYTES_PER_S[known] / workers
    if request.source.kind == "generated":
        options = request.options
        hard = isinstance(options, SudokuOptions) and options.difficulty == "extreme"
        rate = PUZZLES_PER_S.get("sudoku extreme" if hard else request.kind, 1000.0)
        seconds += sum(groups.values()) / rate / workers
    try:
        manifest = read_manifest(layout, request.dataset_name())
        examples = {split: entry.num_examples for split, entry in manifest.splits.items()}
        built = True
    except DatasetNotFoundError:
        built = False
    return Estimate(
        request.dataset_name(),
        built,
        {split: count for split, count in examples.items() if count},
        cells,
        round(cell_bytes * STORED_SHARE[known]),
        round(seconds, 1),
        workers,
    )


def _groups(request: BuildRequest) -> dict[str, int]:
    """Base puzzles of each split; for files without a stated number, what the published set has."""
    if isinstance(request.options, ArcOptions):
        every = sum(ARC_TASKS.get(subset, 0) for subset in request.options.subsets)
        tasks = request.size or every
        tested = round(tasks * ARC_TASKS.get(request.options.evaluation, 0) / max(1, every))
        return {"train": tasks, "validation": request.val_size, "test": tested}
    return {"train": request.size or 0, "validation": request.val_size, "test": request.test_size or 0}
