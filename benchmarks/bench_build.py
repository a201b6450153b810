"""How fast datasets are built: the whole command, start of Python included, with warm kernel caches.

Sudoku: 1,000 puzzles with 1,000 augmentations each (1,001,000 examples). The peer, in the same run, is a plain loop
over examples in Python and numpy that makes the same augmentations and saves .npy files: what the published builder
does, which took 57.8 s, 3.6 GB of memory and 1.3 GB on disk. ARC: ARC-1 with ConceptARC, 960 tasks, 1,000
augmentations; the peer is such a loop over some of the tasks. Maze: 1,000 mazes under the 8 symmetries.

    python benchmarks/bench_build.py [--kind sudoku|maze|arc] [--shared DIR] [--repeats N] [--json PATH]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from report import Report

PUZZLES = 1_000
AUGMENTATIONS = 1_000
EXAMPLES = PUZZLES * (AUGMENTATIONS + 1)
PUBLISHED_S = 57.8
PUBLISHED_ARC_S = 258.0
PUBLISHED_ARC_PUZZLES = 876_405
PEER_TASKS = 30
ARC_TIMES = 20.0
ARC_PEAK_MB = 1_500.0
README_S = 2.0
MEMORY_EVERY_S = 0.03
PEERS = Path(__file__).with_name("peers.py")
TARGETS = {"times faster than the peer": 25.0, "seconds": 2.5, "peak MB": 400.0, "disk MB": 90.0}


def main() -> None:
    """Run one kind and print the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--kind", choices=("sudoku", "maze", "arc"), default="sudoku")
    parser.add_argument("--shared", type=Path, default=shared, help="folder of the real puzzles")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peer-repeats", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where to write the report")
    arguments = parser.parse_args()
    packages = ("array-record", "duckdb", "numba", "numpy", "pyarrow")
    with tempfile.TemporaryDirectory() as folder:
        if arguments.kind == "sudoku":
            title = f"build {PUZZLES:,} x {AUGMENTATIONS:,} Sudoku ({EXAMPLES:,} examples), whole command"
            report = Report(title, packages)
            source = arguments.shared / "sudoku" / "sudoku_extreme_1k.csv"
            if not source.is_file():
                source = write_generated(Path(folder) / "generated.csv")
                report.note("sudoku_extreme_1k.csv is missing: built from generated puzzles instead")
            measure(report, source, Path(folder), arguments.repeats, arguments.peer_repeats)
        elif arguments.kind == "arc":
            report = Report("build ARC-1 x 1,000 (960 tasks with ConceptARC), whole command", packages)
            measure_arc(report, arguments.shared / "arc", Path(folder), arguments.repeats)
        else:
            report = Report("build 1,000 mazes of 30x30 under the 8 symmetries, whole command", packages)
            measure_mazes(report, arguments.shared / "maze", Path(folder), arguments.repeats)
    report.print()
    if arguments.json:
        report.write_json(arguments.json)


def measure_arc(report: Report, data: Path, folder: Path, repeats: int) -> None:
    """Full ARC-1, and the peer on a share of the training tasks, both as puzzles in a second."""
    if not data.is_dir():
        report.note(f"{data} is missing: nothing was measured")
        return
    ours = [str(Path(sys.executable).with_name("trm-data")), "build", "arc", "--quiet", "--aug", "1000"]
    ours += ["--source", f"kaggle:{data}", "--name", "arc", "--root", str(folder / "ours")]
    peak = peak_mb(ours)
    seconds: list[float] = []
    verified: list[float] = []
    for _ in range(repeats):
        shutil.rmtree(folder / "ours", ignore_errors=True)
        seconds.append(run(ours))
        verified.append(run([ours[0], "verify", "arc", "--root", str(folder / "ours")]))
    manifest = json.loads((folder / "ours" / "datasets" / "arc" / "manifest.json").read_text())
    puzzles = manifest["splits"]["train"]["num_puzzles"]
    examples = sum(split["num_examples"] for split in manifest["splits"].values())
    command = [sys.executable, str(PEERS), "arc", str(data), str(folder / "peer"), str(PEER_TASKS)]
    peer_rates: list[float] = []
    peer_puzzles = 0
    for _ in range(repeats):
        begun = time.perf_counter()
        peer_puzzles = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        peer_rates.append(peer_puzzles / (time.perf_counter() - begun))
    rates = [puzzles / value for value in seconds]
    report.add("trm-data build", seconds, unit="s", n=examples)
    report.add("trm-data build", rates, unit="puzzles/s", n=puzzles)
    report.add("trm-data verify, after each build", verified, unit="s", n=examples)
    slower = report.add(
        "verify / build", [v / b for v, b in zip(verified, seconds, strict=True)], unit="times", n=examples
    )
    peer = report.add(
        f"peer: plain Python loop, {PEER_TASKS} tasks", peer_rates, unit="puzzles/s", n=peer_puzzles
    )
    ratios = [rate / peer.median for rate in rates]
    report.add("ours / peer", ratios, unit="times", n=puzzles, at_least=ARC_TIMES)
    report.add("ours, peak memory of all processes", [peak], unit="MB", n=examples)
    report.add("ours, on disk", [size_mb(folder / "ours")], unit="MB", n=examples)
    verdict = "reached" if slower.median <= 1 else "MISSED"
    report.note(f"verify takes {slower.median:.2f} times the build, target at most 1: {verdict}")
    verdict = "reached" if peak <= ARC_PEAK_MB else "MISSED"
    report.note(f"peak memory {peak:,.0f} MB, target at most {ARC_PEAK_MB:,.0f} MB: {verdict}")
    report.note(
        f"the published builder took {PUBLISHED_ARC_S:g} s for {PUBLISHED_ARC_PUZZLES:,} puzzles on another machine, "
        f"in a run of its own ({PUBLISHED_ARC_PUZZLES / PUBLISHED_ARC_S:,.0f} puzzles/s, 15.5 GB of memory, 6.8 GB on "
        "disk)"
    )


def measure_mazes(report: Report, data: Path, folder: Path, repeats: int) -> None:
    """Read and generated mazes."""
    command = [str(Path(sys.executable).with_name("trm-data")), "build", "maze", "--quiet", "--aug", "8"]
    sources = {"generated": ["--val-size", "0", "--test-size", "0"]}
    if (data / "maze_30x30_hard_1k_train.csv").is_file():
        sources["read"] = ["--source", f"csv:{data / 'maze_30x30_hard_1k_train.csv'}"]
    for name, options in sources.items():
        ours = [*command, *options, "--size", "1000", "--name", name, "--root", str(folder / "ours")]
        seconds: list[float] = []
        for _ in range(repeats if name == "read" else 1):
            shutil.rmtree(folder / "ours", ignore_errors=True)
            seconds.append(run(ours))
        report.add(f"trm-data build, {name} mazes", seconds, unit="s", n=8_000)
        shutil.rmtree(folder / "ours", ignore_errors=True)
        report.add(f"peak memory of all processes, {name}", [peak_mb(ours)], unit="MB", n=8_000)


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
    command += ["--root", str(folder / "ours")]

    def ours(*options: str) -> list[float]:
        seconds: list[float] = []
        for _ in range(repeats + 1):
            shutil.rmtree(folder / "ours", ignore_errors=True)
            seconds.append(run([*command, *options]))
        return seconds[1:]

    seconds = ours()
    shutil.rmtree(folder / "ours")
    peak = peak_mb(command)
    disk_mb = size_mb(folder / "ours")
    single = ours("--workers", "1")
    theirs = [sys.executable, str(PEERS), "sudoku", str(source), str(folder / "peer")]
    peer = report.add(
        "peer: plain Python loop", [run(theirs) for _ in range(peer_repeats)], unit="s", n=EXAMPLES
    )
    line = report.add("trm-data build", seconds, unit="s", n=EXAMPLES)
    report.add("trm-data build --workers 1", single, unit="s", n=EXAMPLES)
    ratios = [peer.median / value for value in seconds]
    report.add(
        "peer / ours", ratios, unit="times", n=EXAMPLES, at_least=TARGETS["times faster than the peer"]
    )
    report.add("peer, peak memory", [peak_mb(theirs)], unit="MB", n=EXAMPLES)
    report.add("ours, peak memory of all processes", [peak], unit="MB", n=EXAMPLES)
    report.add("peer, on disk", [size_mb(folder / "peer")], unit="MB", n=EXAMPLES)
    report.add("ours, on disk", [disk_mb], unit="MB", n=EXAMPLES)
    measure_readme(report, command[0], folder, repeats)
    for name, value in (("seconds", line.median), ("peak MB", peak), ("disk MB", disk_mb)):
        verdict = "reached" if value <= TARGETS[name] else "MISSED"
        report.note(f"{name}: {value:,.1f}, target at most {TARGETS[name]:g}: {verdict}")
    off = peer.median / PUBLISHED_S - 1
    report.note(f"the peer takes {off:+.0%} of the published builder's {PUBLISHED_S} s (must be within 30%)")


def measure_readme(report: Report, program: str, folder: Path, repeats: int) -> None:
    """The build that README names first."""
    command = [program, "build", "sudoku", "--size", "500", "--aug", "1000", "--quiet"]
    command += ["--root", str(folder / "readme")]
    seconds: list[float] = []
    for _ in range(repeats):
        shutil.rmtree(folder / "readme", ignore_errors=True)
        seconds.append(run(command))
    line = report.add("trm-data build sudoku --size 500 --aug 1000", seconds, unit="s", n=501_700)
    verdict = "reached" if line.median <= README_S else "MISSED"
    report.note(f"500 x 1,000 generated: {line.median:.2f} s, target at most {README_S:g} s: {verdict}")


def run(command: list[str]) -> float:
    """Run a command and wait for it; its wall-clock seconds."""
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def peak_mb(command: list[str]) -> float:
    """Run a command once more, watched: the peak memory of all its processes, looked at every few hundredths."""
    process = psutil.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, memory(process))
        time.sleep(MEMORY_EVERY_S)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return peak / 1e6


def memory(process: psutil.Popen) -> int:
    """Bytes that a process and those it started hold now; what several share is counted once (PSS, on Linux)."""
    held = 0
    with contextlib.suppress(psutil.Error):
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                info = one.memory_full_info()
                held += getattr(info, "pss", info.uss)
    return held


def size_mb(folder: Path) -> float:
    """Size of all files below a folder, in MB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def write_generated(path: Path) -> Path:
    """1,000 generated puzzles in the CSV columns of Sudoku-Extreme."""
    from trm_data.kinds.sudoku.generate import generate
    from trm_data.kinds.sudoku.source import encode_grid

    puzzles, solutions = generate(0, 0, 0, PUZZLES, 3, 3)
    rows = (f",{encode_grid(p)},{encode_grid(s)},1" for p, s in zip(puzzles, solutions, strict=True))
    path.write_text("\n".join(["source,question,answer,rating", *rows]) + "\n")
    return path


if __name__ == "__main__":
    main()
