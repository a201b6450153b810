"""Memory and speed of the process that chooses: 9x9 puzzles that cost nothing to make, with hashes like real ones.

    python benchmarks/bench_choosing.py [--sizes 250000 1000000 5000000] [--classes 20000000] [--json PATH]

Each size in a process of its own: chosen, put into groups, read again for shards of 131,072 and for the catalog. The
peer does the same with everything in memory. `--classes`: as many symmetry classes are taken and looked up, alone.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from report import Report

from trm_data.kinds import chosen, classes
from trm_data.kinds.candidates import Candidates
from trm_data.kinds.choosing import Chooser, chosen_groups
from trm_data.kinds.classes import Classes
from trm_data.records import Augmentations, Groups
from trm_data.show.progress import NoProgress
from trm_data.specs import DatasetSpec, Options, SourceSpec, Split

SHARD = 131_072
AT_A_TIME = 100_000
TWICE = 1_000
"""One of so many candidates comes again."""


class MadeUp:
    """Candidates with random cells and hashes."""

    name = shown = "made up"
    ends = False
    left: int | None = None

    def __init__(self) -> None:
        self._draws = np.random.default_rng(0)
        self._made = 0
        self._before = np.empty(0, np.str_)

    def next_chunk(
        self, split: Split, count: int, made: Callable[[int], None], *, brief: bool
    ) -> tuple[Candidates, list[Any]]:
        """The next ones."""
        hashes = random_hashes(self._draws, count)
        hashes[: len(self._before)][:: 2 * TWICE] = self._before[: count : 2 * TWICE]
        self._before = hashes
        cells = self._draws.integers(1, 11, (2, count, 81), np.uint8)
        rows = np.arange(self._made, self._made + count)
        self._made += count
        facts = {"rating": np.zeros(count, np.float32), "rated_by_file": np.zeros(count, np.bool_)}
        return Candidates(cells[0], cells[1], rows, hashes, np.ones(count, np.int64), facts), []


def random_hashes(draws: np.random.Generator, count: int) -> Any:
    """Hexadecimal digits, text [N]."""
    text = draws.bytes(16 * count).hex().encode()
    return np.frombuffer(text, "S32").astype(np.str_)


def choose(count: int, folder: Path) -> float:
    """Choose, and read what is chosen as a build does; the seconds of choosing."""

    def make_groups(split: Split, some: Candidates, first: int) -> Groups:
        facts = {"rating": some.facts["rating"], "rating_source": ["solver"] * len(some)}
        return chosen_groups(some, stream, Augmentations.regular(len(some), 0), facts, first)

    stream = MadeUp()
    spec = DatasetSpec(kind="made up", source=SourceSpec(kind="generated"), size=count, options=Options())
    begun = time.perf_counter()
    groups = Chooser(spec, NoProgress(), folder=folder).choose(stream, stream, make_groups).splits["train"]
    seconds = time.perf_counter() - begun
    for start in range(0, count, SHARD):
        groups.slice(start, min(start + SHARD, count)).whole()
    for _ in groups.parts():
        pass
    return seconds


def take(count: int, folder: Path) -> float:
    """Take classes, looked up first; the seconds."""
    draws, taken = np.random.default_rng(0), Classes(folder)
    begun = time.perf_counter()
    for _ in range(count // AT_A_TIME):
        hashes = random_hashes(draws, AT_A_TIME)
        known = taken.look_up(hashes)
        before = [-1] * len(hashes) if known is None else known.tolist()
        for position, (hash_, holder) in enumerate(zip(hashes.tolist(), before, strict=True)):
            if holder < 0 and hash_ not in taken.newest:
                taken.newest[hash_] = position
        taken.settle()
    return time.perf_counter() - begun


def main() -> None:
    """Measure each size in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=[250_000, 1_000_000, 5_000_000])
    parser.add_argument("--classes", type=int, nargs="*", default=[1_000_000, 5_000_000, 20_000_000])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        measure_one(*arguments.one)
        return
    report = Report("choosing 9x9 puzzles that cost nothing to make, one process", ("numpy", "pyarrow"))
    for what, sizes in (("choose", arguments.sizes), ("take", arguments.classes)):
        for count in sizes:
            for memory in ("as it is", "all in memory"):
                command = [sys.executable, __file__, "--one", what, str(count), memory]
                done = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
                name = f"{'puzzles chosen' if what == 'choose' else 'classes taken'}, {memory}"
                report.add(name, [count / float(done[0])], unit="a second", n=count)
                report.add(name, [float(done[1])], unit="peak MB", n=count)
    report.print()
    if arguments.json:
        report.write_json(arguments.json)


def measure_one(what: str, count: str, memory: str) -> None:
    """Print seconds and peak memory."""
    if memory == "all in memory":
        classes.NEWEST = chosen.PART_BYTES = sys.maxsize
    with tempfile.TemporaryDirectory(dir=".") as folder:
        seconds = (choose if what == "choose" else take)(int(count), Path(folder))
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)


if __name__ == "__main__":
    main()
