"""How fast Sudoku puzzles are generated, solved, rated, augmented and canonicalized, on one thread.

Input: puzzle lists (`--shared`, by default the folder `shared` beside the checkout). Output: a table; JSON.
Neighbours: `report` has what benchmarks share; reasoning-gym is the peer, timed as its user would call it.

    python benchmarks/bench_generate.py [--shared PATH] [--json PATH] [--repeats N]
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from report import Report
from scipy.stats import spearmanr  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from trm_data.augment.sudoku import SudokuSymmetry, augment_rows
from trm_data.canonical.sudoku import canonicalize
from trm_data.generate.sudoku import generate
from trm_data.solve.sudoku import rate, solve

GENERATED = 2000
PEER_PUZZLES = 30
AUGMENTATIONS = 1000
PEER_RATIO = 30
TARGETS = {"forum_hardest_1905_11plus.txt": 4_000, "royle_17_clue.txt": 60_000}


def main() -> None:
    """Runs all measurements and prints the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    beside = Path(__file__).resolve().parents[1].parent / "shared"
    parser.add_argument("--shared", type=Path, default=beside, help="folder that holds data/sudoku")
    parser.add_argument("--json", type=Path, help="where to write the report")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    report = Report("Sudoku generation and solving, one thread", ("numba", "numpy", "reasoning-gym"))
    measure_generation(report, arguments.repeats)
    measure_rows(report, arguments.repeats)
    measure_lists(report, arguments.shared / "data" / "sudoku", arguments.repeats)
    report.print()
    if arguments.json:
        report.write_json(arguments.json)


def measure_generation(report: Report, repeats: int) -> None:
    """Our generator and reasoning-gym's, and their ratio."""
    ours = report.measure(
        "generate 9x9, unique and minimal",
        lambda: generate(1, 0, 0, GENERATED, 3, 3),
        repeats=repeats, unit="puzzles/s/core", per=GENERATED, at_least=2500,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # in a package that the peer imports
        import reasoning_gym

    def peer() -> None:
        # a new dataset each time, as the peer may keep what it made
        dataset = reasoning_gym.create_dataset("sudoku", size=PEER_PUZZLES, seed=42)
        for _ in dataset:
            pass

    theirs = report.measure(
        "generate 9x9, reasoning-gym", peer, repeats=repeats, unit="puzzles/s/core", per=PEER_PUZZLES
    )
    report.add("ours / reasoning-gym", [ours.median / theirs.median], unit="ratio", n=1, at_least=PEER_RATIO)
    report.measure(
        "generate 16x16, unique",
        lambda: generate(1, 0, 0, 20, 4, 4),
        repeats=repeats,
        unit="puzzles/s/core",
        per=20,
    )


def measure_rows(report: Report, repeats: int) -> None:
    """Augmented rows, canonical forms and ratings of generated puzzles."""
    puzzles, solutions = generate(1, 0, 0, 1000, 3, 3)
    groups = np.repeat(np.arange(len(puzzles), dtype=np.int32), AUGMENTATIONS + 1)
    ks = np.tile(np.arange(AUGMENTATIONS + 1), len(puzzles))
    inputs, labels = (np.empty((len(ks), 81), np.uint8) for _ in range(2))
    keys = np.arange(len(puzzles))
    report.measure(
        "augment and encode 9x9",
        lambda: augment_rows(puzzles, solutions, keys, groups, ks, 1, 3, 3, inputs, labels),
        repeats=repeats, unit="rows/s/core", per=len(ks), at_least=5_000_000,
    )  # fmt: skip
    report.measure(
        "canonical form 9x9", lambda: canonicalize(puzzles, solutions, 3, 3),
        repeats=repeats, unit="puzzles/s/core", per=len(puzzles), at_least=10_000,
    )  # fmt: skip
    report.measure(
        "rate generated 9x9",
        lambda: rate(puzzles, 3, 3),
        repeats=repeats,
        unit="puzzles/s/core",
        per=len(puzzles),
    )


def measure_lists(report: Report, folder: Path, repeats: int) -> None:
    """Solving rates on public lists, and how our rating agrees with tdoku's."""
    for name, target in TARGETS.items():
        if not (folder / name).exists():
            report.note(f"{name} is missing: not solved")
            continue
        lines = (folder / name).read_text().splitlines()
        puzzles = parse([line.split()[0] for line in lines if line and not line.startswith("#")])
        for limit in (1, 2):
            report.measure(
                f"solve {name}, limit {limit}",
                lambda puzzles=puzzles, limit=limit: solve(puzzles, 3, 3, limit=limit),
                repeats=repeats, unit="puzzles/s/core", per=len(puzzles),
                at_least=target if limit == 1 else None,
            )  # fmt: skip
    path = folder / "sudoku_extreme_1k.csv"
    if not path.exists():
        report.note(f"{path.name} is missing: no rating to compare with")
        return
    with path.open() as file:
        rows = list(csv.DictReader(file))
    theirs = np.array([float(row["rating"]) for row in rows])
    puzzles = parse([row["question"] for row in rows])
    ours = rate(puzzles, 3, 3)
    report.add(
        "rating, Spearman with tdoku's",
        [float(spearmanr(ours, theirs)[0])],
        unit="correlation",
        n=len(rows),
        at_least=0.67,
    )
    same_zeros = float(np.mean((ours == 0) == (theirs == 0)))
    report.add("rating, both or neither need a guess", [same_zeros], unit="share", n=len(rows))
    image = SudokuSymmetry.from_index(987_654_321_987, 3, 3).apply(puzzles)
    itself = float(spearmanr(ours, rate(image, 3, 3))[0])
    report.add("rating, Spearman with a symmetry image's", [itself], unit="correlation", n=len(rows))


def parse(lines: Sequence[str]) -> NDArray[np.uint8]:
    """Lines of 81 characters as [N, 81]."""
    text = "".join(lines).replace(".", "0")
    return (np.frombuffer(text.encode(), np.uint8) - ord("0")).reshape(len(lines), -1)


if __name__ == "__main__":
    main()
