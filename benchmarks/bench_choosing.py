"""Memory and speed of the process that chooses: 9x9 puzzles that cost nothing to make, with hashes like real ones.

    python benchmarks/bench_choosing.py [--sizes 250000 1000000 5000000] [--json PATH]

Each size in a process of its own: chosen, put into groups, and cut for shards of 131,072.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from report import Report

from trm_data.kinds.candidates import Candidates
from trm_data.kinds.choosing import Chooser, chosen_groups
from trm_data.records import Augmentations, Groups
from trm_data.show.progress import NoProgress
from trm_data.specs import DatasetSpec, Options, SourceSpec, Split

SHARD = 131_072
TWICE = 1_000
"""One of this many candidates comes again."""


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


def choose(count: int) -> float:
    """Choose, and cut what is chosen as a build does; the seconds of choosing."""

    def make_groups(split: Split, some: Candidates) -> Groups:
        facts = {"rating": some.facts["rating"], "rating_source": ["solver"] * len(some)}
        return chosen_groups(some, stream, Augmentations.regular(len(some), 0), facts)

    stream = MadeUp()
    spec = DatasetSpec(kind="made up", source=SourceSpec(kind="generated"), size=count, options=Options())
    begun = time.perf_counter()
    groups = Chooser(spec, NoProgress()).choose(stream, stream, make_groups).splits["train"]
    seconds = time.perf_counter() - begun
    for start in range(0, count, SHARD):
        groups.slice(start, min(start + SHARD, count))
    return seconds


def main() -> None:
    """Measure each size in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=[250_000, 1_000_000, 5_000_000])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        measure_one(arguments.one)
        return
    report = Report("choosing 9x9 puzzles that cost nothing to make, one process", ("numpy", "pyarrow"))
    for count in arguments.sizes:
        command = [sys.executable, __file__, "--one", str(count)]
        done = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        report.add("puzzles chosen", [count / float(done[0])], unit="a second", n=count)
        report.add("puzzles chosen", [float(done[1])], unit="peak MB", n=count)
    report.print()
    if arguments.json:
        report.write_json(arguments.json)


def measure_one(count: int) -> None:
    """Print seconds and peak memory."""
    print(choose(count), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)


if __name__ == "__main__":
    main()
