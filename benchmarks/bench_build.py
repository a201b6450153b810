"""How fast 1,000 Sudoku puzzles with 1,000 augmentations each (1,001,000 examples) become a dataset.

Ours is the whole command `trm-data build sudoku`, start of Python included, with warm kernel caches. The peer,
in the same run, is a plain loop over examples in Python and numpy that makes the same augmentations and saves
.npy files: what the published builder does, which took 57.8 s, 3.6 GB of memory and 1.3 GB on disk.

    python benchmarks/bench_build.py [--csv FILE] [--repeats N] [--peer-repeats N] [--json PATH]
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from report import Report

PUZZLES = 1_000
AUGMENTATIONS = 1_000
EXAMPLES = PUZZLES * (AUGMENTATIONS + 1)
PUBLISHED_S = 57.8
TARGETS = {"times faster than the peer": 25.0, "seconds": 2.5, "peak MB": 400.0, "disk MB": 90.0}


@dataclass(frozen=True)
class Ran:
    """What a child process took."""

    seconds: float
    peak_mb: float


def main() -> None:
    """Run both and print the report; as `--peer CSV OUT`, be the peer."""
    if sys.argv[1:2] == ["--peer"]:
        build_plainly(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = Path(__file__).resolve().parents[2] / "shared" / "data" / "sudoku" / "sudoku_extreme_1k.csv"
    parser.add_argument("--csv", type=Path, default=shared, help="1,000 puzzles; generated ones if missing")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peer-repeats", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where to write the report")
    arguments = parser.parse_args()
    report = Report(
        f"build {PUZZLES:,} x {AUGMENTATIONS:,} Sudoku ({EXAMPLES:,} examples), whole command",
        ("array-record", "duckdb", "numba", "numpy", "pyarrow"),
    )
    with tempfile.TemporaryDirectory() as folder:
        source = arguments.csv
        if not source.is_file():
            source = write_generated(Path(folder) / "generated.csv")
            report.note(f"{arguments.csv.name} is missing: built from generated puzzles instead")
        measure(report, source, Path(folder), arguments.repeats, arguments.peer_repeats)
    report.print()
    if arguments.json:
        report.write_json(arguments.json)


def measure(report: Report, source: Path, folder: Path, repeats: int, peer_repeats: int) -> None:
    """Time ours (for one worker too) and the peer, and put them in proportion."""
    command = [
        str(Path(sys.executable).with_name("trm-data")),
        "build",
        "sudoku",
        "--source",
        f"csv:{source}",
    ]
    command += ["--size", str(PUZZLES), "--aug", str(AUGMENTATIONS), "--quiet"]

    def ours(*options: str) -> list[Ran]:
        runs: list[Ran] = []
        for _ in range(repeats + 1):
            shutil.rmtree(folder / "ours", ignore_errors=True)
            runs.append(run([*command, *options, "--root", str(folder / "ours")]))
        return runs[1:]

    runs = ours()
    disk_mb = size_mb(folder / "ours")
    single = ours("--workers", "1")
    peers = [
        run([sys.executable, __file__, "--peer", str(source), str(folder / "peer")])
        for _ in range(peer_repeats)
    ]
    seconds = [ran.seconds for ran in runs]
    peer = report.add("peer: plain Python loop", [ran.seconds for ran in peers], unit="s", n=EXAMPLES)
    line = report.add("trm-data build", seconds, unit="s", n=EXAMPLES)
    report.add("trm-data build --workers 1", [ran.seconds for ran in single], unit="s", n=EXAMPLES)
    ratios = [peer.median / value for value in seconds]
    report.add(
        "peer / ours", ratios, unit="times", n=EXAMPLES, at_least=TARGETS["times faster than the peer"]
    )
    report.add("peer, peak memory", [ran.peak_mb for ran in peers], unit="MB", n=EXAMPLES)
    report.add("ours, peak memory", [ran.peak_mb for ran in runs], unit="MB", n=EXAMPLES)
    report.add("peer, on disk", [size_mb(folder / "peer")], unit="MB", n=EXAMPLES)
    report.add("ours, on disk", [disk_mb], unit="MB", n=EXAMPLES)
    peak = max(ran.peak_mb for ran in runs)
    for name, value in (("seconds", line.median), ("peak MB", peak), ("disk MB", disk_mb)):
        verdict = "reached" if value <= TARGETS[name] else "MISSED"
        report.note(f"{name}: {value:,.1f}, target at most {TARGETS[name]:g}: {verdict}")
    off = peer.median / PUBLISHED_S - 1
    report.note(f"the peer takes {off:+.0%} of the published builder's {PUBLISHED_S} s (must be within 30%)")


def run(command: list[str]) -> Ran:
    """Run a command and wait for it; its wall-clock time and peak resident memory."""
    begun = time.perf_counter()
    pid = os.posix_spawn(
        command[0],
        command,
        dict(os.environ),
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)],
    )
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return Ran(time.perf_counter() - begun, usage.ru_maxrss / 1000)


def size_mb(folder: Path) -> float:
    """Size of all files below a folder, in MB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def write_generated(path: Path) -> Path:
    """1,000 generated puzzles in the CSV columns of Sudoku-Extreme."""
    from trm_data.encode.grid import encode_grid
    from trm_data.generate.sudoku import generate

    puzzles, solutions = generate(0, 0, 0, PUZZLES, 3, 3)
    rows = (f",{encode_grid(p)},{encode_grid(s)},1" for p, s in zip(puzzles, solutions, strict=True))
    path.write_text("\n".join(["source,question,answer,rating", *rows]) + "\n")
    return path


def build_plainly(source: Path, folder: Path) -> None:
    """The peer: one augmentation after the other, kept in lists, saved as int64 arrays."""
    folder.mkdir(exist_ok=True)
    generator = np.random.RandomState(0)
    inputs: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    with source.open() as file:
        for row in csv.DictReader(file):
            puzzle = np.array([0 if c == "." else int(c) for c in row["question"]]).reshape(9, 9)
            solution = np.array([int(c) for c in row["answer"]]).reshape(9, 9)
            inputs.append(puzzle)
            labels.append(solution)
            for _ in range(AUGMENTATIONS):
                new_puzzle, new_solution = augment_plainly(puzzle, solution, generator)
                inputs.append(new_puzzle)
                labels.append(new_solution)
    for name, grids in (("inputs", inputs), ("labels", labels)):
        flat = np.concatenate(grids).reshape(len(grids), -1)
        np.save(folder / f"all__{name}.npy", flat + 1)


def augment_plainly(
    puzzle: np.ndarray, solution: np.ndarray, generator: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """One random symmetry, cell by cell."""
    digits = np.concatenate([[0], generator.permutation(np.arange(1, 10))])
    transpose = generator.rand() < 0.5
    rows = np.concatenate([3 * band + generator.permutation(3) for band in generator.permutation(3)])
    columns = np.concatenate([3 * stack + generator.permutation(3) for stack in generator.permutation(3)])
    places = np.array([rows[cell // 9] * 9 + columns[cell % 9] for cell in range(81)])

    def apply(grid: np.ndarray) -> np.ndarray:
        turned = grid.T if transpose else grid
        return digits[turned.flatten()[places].reshape(9, 9)]

    return apply(puzzle), apply(solution)


if __name__ == "__main__":
    main()
