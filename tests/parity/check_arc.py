"""Compares our ARC voting with the published evaluator's answers for the same predictions.

    python tests/parity/check_arc.py FIXTURE.npz

The file holds predictions of augmented test inputs with the symmetry of each (`task`, `test_index`, `dihedral_id`,
`color_map`, `input_tokens`, `predicted_tokens`, `q_halt_logit`), the tasks and the expected answers as JSON (`tasks`,
`expected`). It compares the inputs with their augmentation undone, pass@K for every K of the file, and every attempt
of the submission. Exits 0 if all are equal, 1 if one is not, 2 if the file is unreadable or incomplete.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trm_data.kinds.arc.encode import ARC_CELLS, COLOURS
from trm_eval.votes import Grid, VoteCounter, attempts, grid_of, undo

PASS = re.compile(r"(?:.*/)?pass@(\d+)")
TOLERANCE = 1e-9
"""Tolerance of pass@K, which both sides compute in float64."""


class UnsupportedFixtureError(Exception):
    """The file is not a fixture of this form."""


@dataclass(frozen=True)
class Row:
    """One line of the printed table."""

    quantity: str
    got: str
    want: str
    ok: bool


@dataclass(frozen=True)
class TestInput:
    """A test input of a task; equal inputs share a `number`, and their votes count for each of them."""

    task: str
    index: int
    number: int
    input: Grid
    solution: Grid | None


def load(path: str) -> dict[str, np.ndarray]:
    """Return the arrays of the file, for N predictions.

    Raises:
        UnsupportedFixtureError: The file is unreadable, or an array is missing or has another shape.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as e:
        raise UnsupportedFixtureError(f"not a readable .npz file ({e})") from e
    shapes: dict[str, tuple[int, ...]] = {
        "task": (),
        "test_index": (),
        "dihedral_id": (),
        "color_map": (COLOURS,),
        "input_tokens": (ARC_CELLS,),
        "predicted_tokens": (ARC_CELLS,),
        "q_halt_logit": (),
    }
    missing = sorted({*shapes, "tasks", "expected"} - set(arrays))
    if missing:
        raise UnsupportedFixtureError(f"the file lacks {', '.join(missing)}")
    count = len(arrays["task"])
    for name, shape in shapes.items():
        if arrays[name].shape != (count, *shape):
            raise UnsupportedFixtureError(f"{name}: got {arrays[name].shape}, expected {(count, *shape)}")
    return arrays


def load_json(arrays: Mapping[str, np.ndarray], name: str) -> dict[str, Any]:
    """Return a JSON object stored as bytes."""
    try:
        value = json.loads(arrays[name].tobytes())
    except ValueError as e:
        raise UnsupportedFixtureError(f"`{name}` is not JSON ({e})") from e
    if not isinstance(value, dict):
        raise UnsupportedFixtureError(f"`{name}`: expected a JSON object")
    return value


def read_test_inputs(tasks: Mapping[str, Any]) -> list[TestInput]:
    """Return every test input, in the order of the file."""
    found: list[TestInput] = []
    numbers: dict[tuple[str, Grid], int] = {}
    for task, content in tasks.items():
        for index, pair in enumerate(content["test"]):
            grid = grid_of(np.array(pair["input"], np.uint8))
            output = pair.get("output")
            solution = None if output is None else grid_of(np.array(output, np.uint8))
            number = numbers.setdefault((task, grid), len(numbers))
            found.append(TestInput(task, index, number, grid, solution))
    return found


def check_fixture(path: str) -> Iterator[Row]:
    """Vote on the file's predictions; yield one row per quantity.

    Raises:
        UnsupportedFixtureError: The file is unreadable or has another form.
    """
    arrays = load(path)
    tasks, expected = load_json(arrays, "tasks"), load_json(arrays, "expected")
    if not {"pass_at_k", "submission"} <= set(expected):
        raise UnsupportedFixtureError("`expected` lacks pass_at_k or submission")
    tests = read_test_inputs(tasks)
    places = {(test.task, test.index): test for test in tests}
    try:
        asked = [
            places[key] for key in zip(arrays["task"].tolist(), arrays["test_index"].tolist(), strict=True)
        ]
    except KeyError as e:
        raise UnsupportedFixtureError(
            f"a prediction is of the test input {e}, which `tasks` does not have"
        ) from e

    symmetry = arrays["dihedral_id"], arrays["color_map"].astype(np.uint8)
    inputs = undo(arrays["input_tokens"].astype(np.uint8), *symmetry)
    same = sum(grid == test.input for grid, test in zip(inputs, asked, strict=True))
    yield Row("inputs with augmentation undone", f"{same} equal", f"{len(asked)} equal", same == len(asked))

    counter = VoteCounter()
    grids = undo(arrays["predicted_tokens"].astype(np.uint8), *symmetry)
    numbers = np.array([test.number for test in asked], np.int64)
    counter.add(numbers, grids, arrays["q_halt_logit"], np.arange(len(grids)))
    ranking = counter.ranked()
    yield from compare_pass_at_k(ranking, tests, expected["pass_at_k"])

    candidates: dict[int, list[Grid]] = {}
    for number, grid in ranking.select("test_input", "grid").iter_rows():
        candidates.setdefault(number, []).append(grid)
    yield from compare_submission(candidates, tests, expected["submission"])


def compare_pass_at_k(ranking: Any, tests: list[TestInput], expected: Mapping[str, float]) -> Iterator[Row]:
    """Compare pass@K for every K of the file, over the tasks with known solutions."""
    unsolved = {test.task for test in tests if test.solution is None}
    scored = [test for test in tests if test.task not in unsolved]
    by_task = {task: i for i, task in enumerate(dict.fromkeys(test.task for test in scored))}
    ranks: list[int] = []
    for test in scored:  # equal inputs share candidates, but may have different solutions
        solutions: list[Grid | None] = [None] * (1 + max(other.number for other in tests))
        solutions[test.number] = test.solution
        ranks.append(int(right_ranks(ranking, solutions)[test.number]))
    of_task = np.array([by_task[test.task] for test in scored], np.int64)
    if not expected:
        raise UnsupportedFixtureError("`expected`: pass_at_k names no K")
    for name, want in expected.items():
        match = PASS.fullmatch(name)
        if match is None:
            raise UnsupportedFixtureError(f"pass_at_k: {name!r} is no pass@K")
        got = pass_at_k(np.array(ranks, np.int64), of_task, int(match[1]))
        yield Row(name, f"{got:.6f}", f"{want:.6f}", abs(got - want) <= TOLERANCE)


def right_ranks(ranking: pl.DataFrame, solutions: Sequence[Grid | None]) -> NDArray[np.int64]:
    """Return the rank of each test input's correct grid, int64 [T]; 0 if it is not a candidate or unknown."""
    ranks = np.zeros(len(solutions), np.int64)
    for number, place, grid in ranking.select("test_input", "rank", "grid").iter_rows():
        if grid == solutions[number]:
            ranks[number] = place
    return ranks


def pass_at_k(ranks: NDArray[np.int64], tasks: NDArray[np.int64], k: int) -> float:
    """Return the share of test inputs with the correct grid among the first K, averaged per task, then over tasks.

    Args:
        ranks: Rank of the correct grid of each test input, [T]; 0 if it is not a candidate.
        tasks: Number of each test input's task, [T].
        k: Number of candidates that count.

    Returns:
        Share from 0 to 1; NaN without test inputs.
    """
    if not len(tasks):
        return float("nan")
    _, numbers = np.unique(tasks, return_inverse=True)
    passed = (ranks > 0) & (ranks <= k)
    return float((np.bincount(numbers, passed) / np.bincount(numbers)).mean())


def compare_submission(
    candidates: Mapping[int, list[Grid]], tests: list[TestInput], expected: Mapping[str, Any]
) -> Iterator[Row]:
    """Compare every attempt at every test input; the file may leave out inputs without predictions."""
    of_task: dict[str, list[TestInput]] = {}
    for test in tests:
        of_task.setdefault(test.task, []).append(test)
    extra = sorted(set(expected) ^ set(of_task))
    yield Row("tasks of the submission", f"{len(of_task)}", f"{len(expected)}", not extra)
    for task, wanted in expected.items():
        mine = of_task.get(task, [])
        if len(wanted) != len(mine):
            mine = [test for test in mine if test.number in candidates]
        if len(wanted) != len(mine):
            yield Row(f"{task}: test inputs", f"{len(mine)}", f"{len(wanted)}", ok=False)
            continue
        for test, want in zip(mine, wanted, strict=True):
            got = attempts(candidates.get(test.number, []))
            for name in sorted({*got, *want}):
                ours, theirs = got.get(name), want.get(name)
                yield Row(f"{task} test {test.index} {name}", shape(ours), shape(theirs), ours == theirs)


def shape(grid: list[list[int]] | None) -> str:
    """Return rows and columns of a grid as text."""
    return "none" if grid is None else f"{len(grid)}x{len(grid[0]) if grid else 0}"


def main(arguments: list[str]) -> int:
    """Print the table; return 0 if everything is equal."""
    if len(arguments) != 1:
        print("usage: python tests/parity/check_arc.py FIXTURE.npz", file=sys.stderr)
        return 2
    failed = compared = 0
    try:
        for row in check_fixture(arguments[0]):
            if not compared:
                print(f"{'quantity':<44} {'ours':>12} {'published':>12}  equal")
            failed, compared = failed + (not row.ok), compared + 1
            print(f"{row.quantity:<44} {row.got:>12} {row.want:>12}  {'yes' if row.ok else 'NO'}")
    except (UnsupportedFixtureError, KeyError, TypeError, ValueError) as e:
        print(f"error: {arguments[0]}: {e}", file=sys.stderr)
        return 2
    print(f"{failed} of {compared} differ" if failed else f"all {compared} are equal")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
