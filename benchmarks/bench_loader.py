"""How fast batches of 768 come out of the loader: 1,001,000 Sudoku rows, global shuffle, through Grain.

Then virtual Sudoku, virtual ARC and resident ARC rows. In the same run: Grain's ordinary pipeline (one record an
element, shuffle, map, batch) over the same rows stored one a record, and a bare numpy gather of random resident rows as
the limit.

    python benchmarks/bench_loader.py [--batch N] [--repeats N] [--json PATH]
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import grain
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter
from report import Report

import trm_data
from trm_data.building.flow import build_dataset
from trm_data.kinds.arc.options import ArcOptions
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.loader.dataset import RESIDENT_BUDGET_BYTES
from trm_data.loader.rows import StoredRows
from trm_data.sources.base import parse_source
from trm_data.specs import BuildRequest
from trm_data.storage.root import resolve_root

PUZZLES = 1_000
AUGMENTATIONS = 1_000
BATCHES = 2_000
PEER_BATCHES = 20
PEER_ROWS = 100_000
PEER_FILE_ROWS = 10_000
"""Reading slows with the records in a file, so the peer gets files of a size it reads well."""
TARGET_EXAMPLES_PER_S = 2_000_000
TARGET_PEER_RATIO = 100
TARGET_LIMIT_SHARE = 1 / 3
OTHER_BATCHES = 400
VIRTUAL_TARGET = 1_000_000
ARC_TARGET = 500_000
ARC_VIRTUAL_TARGET = 150_000
ARC_STORED_AUG = 300


def main() -> None:
    """Build the rows, run all three, print the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=768)
    parser.add_argument("--repeats", type=int, default=5)
    beside = Path(__file__).resolve().parents[2] / "shared"
    parser.add_argument("--shared", type=Path, default=beside, help="folder that holds data/arc")
    parser.add_argument("--json", type=Path, help="where to write the report")
    arguments = parser.parse_args()
    report = Report(
        f"loader, batch {arguments.batch}, {PUZZLES * (AUGMENTATIONS + 1):,} Sudoku rows, global shuffle",
        ("array-record", "grain", "numba", "numpy"),
    )
    with tempfile.TemporaryDirectory() as folder:
        request = BuildRequest(
            kind="sudoku",
            source=parse_source("generated"),
            size=PUZZLES,
            aug=AUGMENTATIONS,
            options=SudokuOptions(),
            name="rows",
        )
        build_dataset(request, resolve_root(Path(folder)))
        dataset = trm_data.open_dataset("rows", folder)
        measure(report, dataset, Path(folder), arguments.batch, arguments.repeats)
        del dataset
        virtual = dataclasses.replace(request, augment="virtual", name="virtual")
        build_dataset(virtual, resolve_root(Path(folder)))
        measure_other(report, "virtual Sudoku", "virtual", folder, arguments, VIRTUAL_TARGET)
        arc = arguments.shared / "data" / "arc"
        if arc.is_dir():
            measure_arc(report, arc, folder, arguments)
        else:
            report.note(f"{arc} is missing: ARC was not measured")
    report.print()
    if arguments.json:
        report.write_json(arguments.json)


def measure(report: Report, dataset: trm_data.Dataset, folder: Path, batch: int, repeats: int) -> None:
    """Ours with and without threads, the limit, the ordinary pipeline."""
    examples = BATCHES * batch
    limit = report.measure(
        "limit: numpy gather of random rows",
        lambda: gather_plainly(dataset, batch),
        repeats=repeats,
        unit="examples/s",
        per=examples,
    )
    ours = None
    for threads in (1, 0):
        with trm_data.make_loader(dataset, global_batch_size=batch, seed=0, threads=threads) as loader:
            line = report.measure(
                f"make_loader, {threads} prefetching threads",
                lambda loader=loader: [next(loader) for _ in range(BATCHES)],
                repeats=repeats,
                unit="examples/s",
                per=examples,
                at_least=TARGET_EXAMPLES_PER_S,
            )
        ours = ours or line
    assert ours is not None
    paths = write_one_a_record(dataset, folder)
    peer = report.measure(
        "peer: grain, one record an element",
        lambda: read_ordinarily(paths, batch),
        repeats=min(repeats, 3),
        unit="examples/s",
        per=PEER_BATCHES * batch,
    )
    report.add(
        "ours / peer", [ours.median / peer.median], unit="times", n=examples, at_least=TARGET_PEER_RATIO
    )
    report.add(
        "ours / limit", [ours.median / limit.median], unit="share", n=examples, at_least=TARGET_LIMIT_SHARE
    )


def measure_arc(report: Report, arc: Path, folder: str, arguments: argparse.Namespace) -> None:
    """ARC-1 with 1,000 augmentations, virtual, and as many of its rows as fit the memory of most machines, stored."""
    options = ArcOptions(subsets=("training", "evaluation", "concept"))
    request = BuildRequest(
        kind="arc",
        source=parse_source(f"kaggle:{arc}", allowed=("kaggle",)),
        aug=AUGMENTATIONS,
        test_size=None,
        augment="virtual",
        options=options,
        name="arc-virtual",
    )
    build_dataset(request, resolve_root(Path(folder)))
    measure_other(report, "virtual ARC-1 x 1,000", "arc-virtual", folder, arguments, ARC_VIRTUAL_TARGET)
    stored = dataclasses.replace(request, augment="stored", aug=ARC_STORED_AUG, name="arc")
    build_dataset(stored, resolve_root(Path(folder)))
    name = f"ARC-1 x {ARC_STORED_AUG}, resident rows"
    measure_other(report, name, "arc", folder, arguments, ARC_TARGET, budget_bytes=8_000_000_000)


def measure_other(
    report: Report,
    what: str,
    name: str,
    folder: str,
    arguments: argparse.Namespace,
    target: float,
    budget_bytes: int = RESIDENT_BUDGET_BYTES,
) -> None:
    """The loader of another dataset, with a prefetching thread and without."""
    dataset = trm_data.open_dataset(name, folder, budget_bytes=budget_bytes)
    for threads in (1, 0):
        with trm_data.make_loader(
            dataset, global_batch_size=arguments.batch, seed=0, threads=threads
        ) as loader:
            report.measure(
                f"{what}, {threads} prefetching threads",
                lambda loader=loader: [next(loader) for _ in range(OTHER_BATCHES)],
                repeats=arguments.repeats,
                unit="examples/s",
                per=OTHER_BATCHES * arguments.batch,
                at_least=target,
            )


def gather_plainly(dataset: trm_data.Dataset, batch: int) -> None:
    """Batches of uniformly random rows by fancy indexing, and nothing else."""
    random = np.random.default_rng(0)
    assert isinstance(dataset.reader, StoredRows)
    stored = dataset.reader.rows
    for _ in range(BATCHES):
        rows = random.integers(0, len(dataset), batch)
        _ = stored.inputs[rows], stored.labels[rows], stored.puzzle_identifiers[rows]


def write_one_a_record(dataset: trm_data.Dataset, folder: Path) -> list[str]:
    """Rows one example a record, as an ordinary Grain pipeline wants them, in files small enough to seek in."""
    rows = dataset.read(np.arange(PEER_ROWS))
    pairs = np.concatenate([rows["inputs"], rows["labels"]], axis=1)
    paths: list[str] = []
    for start in range(0, len(pairs), PEER_FILE_ROWS):
        paths.append(str(folder / f"peer-{start}.array_record"))
        writer = ArrayRecordWriter(paths[-1], "group_size:1,uncompressed")
        for row in pairs[start : start + PEER_FILE_ROWS]:
            writer.write(row.tobytes())
        writer.close()
    return paths


def read_ordinarily(paths: list[str], batch: int) -> None:
    """Shuffle, decode each record, batch: with Grain's defaults."""

    def decode(record: bytes) -> dict[str, Any]:
        row = np.frombuffer(record, np.uint8)
        return {"inputs": row[:81], "labels": row[81:], "puzzle_identifiers": np.int32(0)}

    source: Any = grain.sources.ArrayRecordDataSource(paths)
    pipeline = grain.MapDataset.source(source).seed(0).shuffle().map(decode).batch(batch).to_iter_dataset()
    batches = iter(pipeline)
    for _ in range(PEER_BATCHES):
        next(batches)
    batches.close()


if __name__ == "__main__":
    main()
