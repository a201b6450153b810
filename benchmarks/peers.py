"""The peers: plain loops over examples in Python and numpy that do what the published builders do.

They stand in for the published code (PyTorch's, not installed here): the same augmentations, one example after the
other, kept in lists, saved as npy files. `python benchmarks/peers.py sudoku CSV OUT` or `arc DIR OUT TASKS` runs one.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from pathlib import Path

import numpy as np

AUGMENTATIONS = 1_000
Pairs = list[tuple[np.ndarray, np.ndarray]]


def build_sudoku(source: Path, folder: Path) -> None:
    """One augmentation after the other, kept in lists, saved as int64 arrays."""
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
                new_puzzle, new_solution = augment_sudoku(puzzle, solution, generator)
                inputs.append(new_puzzle)
                labels.append(new_solution)
    for name, grids in (("inputs", inputs), ("labels", labels)):
        flat = np.concatenate(grids).reshape(len(grids), -1)
        np.save(folder / f"all__{name}.npy", flat + 1)


def augment_sudoku(
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


def build_arc(folder: Path, out: Path, count: int) -> int:
    """`count` training tasks, each with 1,000 distinct augmentations; returns the number of puzzles."""
    out.mkdir(exist_ok=True)
    challenges = json.loads((folder / "arc-agi_training_challenges.json").read_text())
    generator = np.random.default_rng(0)
    inputs: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    puzzles = 0
    for task in list(challenges.values())[:count]:
        pairs: Pairs = [
            (np.array(pair["input"], np.uint8), np.array(pair["output"], np.uint8)) for pair in task["train"]
        ]
        variants = augment_task(pairs, generator)
        puzzles += len(variants)
        for variant in variants:
            still = int(generator.integers(0, len(variant)))
            for number, (left, right) in enumerate(variant):
                row_in, row_out = encode_pair(left, right, generator, translate=number != still)
                inputs.append(row_in)
                labels.append(row_out)
    np.save(out / "all__inputs.npy", np.stack(inputs))
    np.save(out / "all__labels.npy", np.stack(labels))
    return puzzles


def augment_task(pairs: Pairs, generator: np.random.Generator) -> list[Pairs]:
    """The task and up to 1,000 images of it whose sets of grids differ, in up to 5,000 attempts."""
    seen = {hash_pairs(pairs)}
    variants = [pairs]
    for _ in range(5 * AUGMENTATIONS):
        turn = int(generator.integers(0, 8))
        colours = np.concatenate([[0], generator.permutation(np.arange(1, 10))]).astype(np.uint8)
        image: Pairs = [
            (dihedral(colours[left], turn), dihedral(colours[right], turn)) for left, right in pairs
        ]
        name = hash_pairs(image)
        if name not in seen:
            seen.add(name)
            variants.append(image)
        if len(variants) > AUGMENTATIONS:
            break
    return variants


def dihedral(grid: np.ndarray, turn: int) -> np.ndarray:
    """One of the eight symmetries."""
    if turn < 4:
        return np.rot90(grid, turn)
    return (np.fliplr(grid), np.flipud(grid), grid.T, np.fliplr(np.rot90(grid)))[turn - 4]


def hash_pairs(pairs: Pairs) -> str:
    """A name for a set of pairs of grids."""
    names = sorted(
        hashlib.sha256(b"".join((bytes(left.shape), left.tobytes(), right.tobytes()))).hexdigest()
        for left, right in pairs
    )
    return hashlib.sha256("".join(names).encode()).hexdigest()


def encode_pair(
    left: np.ndarray, right: np.ndarray, generator: np.random.Generator, *, translate: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Both grids on a 30x30 canvas, with their border."""
    row = column = 0
    if translate:
        row = int(generator.integers(0, 30 - max(left.shape[0], right.shape[0]) + 1))
        column = int(generator.integers(0, 30 - max(left.shape[1], right.shape[1]) + 1))
    rows: list[np.ndarray] = []
    for grid in (left, right):
        high, wide = grid.shape
        canvas = np.pad(grid + 2, ((row, 30 - row - high), (column, 30 - column - wide)))
        if row + high < 30:
            canvas[row + high, column : column + wide] = 1
        if column + wide < 30:
            canvas[row : row + high, column + wide] = 1
        rows.append(canvas.flatten())
    return rows[0], rows[1]


if __name__ == "__main__":
    if sys.argv[1] == "sudoku":
        build_sudoku(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        sys.stdout.write(f"{build_arc(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))}\n")
