"""The Sudoku kind: limits of its specification, shapes, the augmenter, and the check of base puzzles.

Neighbours: `choose` picks the puzzles of each split, `draw` shows one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from trm_data.encode.vocab import SUDOKU_BLANK, sudoku_vocabulary_size
from trm_data.engine.base import Engine
from trm_data.errors import SpecError
from trm_data.kinds.base import (
    Answer,
    BasePuzzles,
    CheckedPuzzles,
    Cost,
    Geometry,
    Kind,
    Scores,
    named_problems,
)
from trm_data.kinds.sizes import check_sizes, puzzles_asked
from trm_data.kinds.sudoku.canonical import canonical_hashes, canonicalize
from trm_data.kinds.sudoku.choose import choose_puzzles
from trm_data.kinds.sudoku.encode import DIGITS, check_digits, choose_digits, decode_grid
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.kinds.sudoku.solve import legal_grids, rate, solve
from trm_data.kinds.sudoku.source import decode_numbers, plain, read_puzzles
from trm_data.kinds.sudoku.symmetry import SudokuAugmenter, num_elements
from trm_data.records import Groups, Reject, Selection
from trm_data.show.drawing import Drawing
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource, Sources
from trm_data.sources.columns import is_json
from trm_data.specs import DatasetSpec, Split
from trm_data.symmetry.base import Augmenter, keyed_elements

BOXES = tuple((rows, columns) for rows in range(2, 9) for columns in range(2, 9) if rows * columns <= 16)


RANDOM_PER_S = {4: 30_000.0, 6: 9_700.0, 8: 3_500.0, 9: 11_000.0, 10: 860.0, 12: 420.0, 15: 40.0, 16: 30.0}
"""Random puzzles that a core of an AMD EPYC makes and rates per second, by side."""
EXTREME_PER_S = 18.0
"""The same rate for puzzles of the difficulty `extreme`."""
MINIMAL_4X4 = 36
"""Number of minimal 4x4 puzzles up to symmetry: 13 with 4 clues, 22 with 5, 1 with 6. Source: Wikipedia, Mathematics of
Sudoku; a build that requests more finds the same number."""


def _options(spec: DatasetSpec) -> SudokuOptions:
    assert isinstance(spec.options, SudokuOptions)
    return spec.options


def _check_enough(spec: DatasetSpec) -> None:
    """Raise SpecError for more generated 4x4 puzzles than exist."""
    sizes = {"size": spec.size or 0, "val-size": spec.val_size or 0, "test-size": spec.test_size or 0}
    if sum(sizes.values()) > MINIMAL_4X4:
        asked = " ".join(f"--{option} {size}" for option, size in sizes.items())
        raise SpecError(
            f"{asked}: only {MINIMAL_4X4} minimal 4x4 puzzles exist without images of each other. Choose fewer for "
            f"all splits together, or --box 2x3"
        )


class SudokuKind(Kind):
    """The Sudoku kind."""

    name = "sudoku"
    about = "Sudoku puzzles, each with exactly one solution."
    citation = "Sudoku-Extreme: Wang et al., Hierarchical Reasoning Model, arXiv 2506.21734"

    @override
    def check_spec(self, spec: DatasetSpec) -> None:
        options = _options(spec)
        box = options.box
        if box not in BOXES:
            allowed = ", ".join(f"{rows}x{columns}" for rows, columns in BOXES)
            raise SpecError(f"--box {box[0]}x{box[1]}: expected {allowed}")
        most = num_elements(*box) - 1
        check_sizes(spec, most, f"a {box[0]}x{box[1]} Sudoku")
        if box == (2, 2) and spec.source.kind == "generated":
            _check_enough(spec)
        low, high = options.min_rating, options.max_rating
        for option, value in (("min-rating", low), ("max-rating", high)):
            if value is not None and not 0 <= value < math.inf:
                raise SpecError(f"--{option} {value}: expected a number of at least 0")
        if low is not None and high is not None and low > high:
            raise SpecError(f"--min-rating {low:g} is above --max-rating {high:g}")
        bins = options.rating_bins
        if any(not 0 <= low < math.inf for low in bins) or list(bins) != sorted(set(bins)):
            shown = ",".join(f"{low:g}" for low in bins)
            raise SpecError(
                f"--rating-bins {shown}: expected rising numbers of at least 0, such as 0,1,10,50"
            )
        if bins and (low is not None or high is not None):
            raise SpecError("--rating-bins and --min-rating or --max-rating exclude each other")
        if bins and spec.size is None:
            raise SpecError("--rating-bins: needs --size N, which is divided equally among the bins")
        if options.difficulty == "extreme" and (box != (3, 3) or spec.source.kind != "generated"):
            raise SpecError("--difficulty extreme: only for generated puzzles with --box 3x3")

    @override
    def geometry(self, spec: DatasetSpec) -> Geometry:
        side = _options(spec).side
        return Geometry(grid_rows=side, grid_columns=side, vocabulary_size=sudoku_vocabulary_size(side))

    @override
    def select(
        self, spec: DatasetSpec, sources: Sources, *, engine: Engine, progress: Progress, cache: Path
    ) -> Selection:
        return choose_puzzles(spec, _options(spec), sources, engine=engine, progress=progress, cache=cache)

    @override
    def cost(self, spec: DatasetSpec) -> Cost:
        cost, options = super().cost(spec), _options(spec)
        if spec.source.kind != "generated":
            return cost
        rated = bool(options.rating_bins) or options.min_rating is not None or options.max_rating is not None
        random = RANDOM_PER_S.get(options.side, min(RANDOM_PER_S.values()))
        per_s = EXTREME_PER_S if options.difficulty == "extreme" else random
        return replace(cost, choosing_s=puzzles_asked(spec) / per_s, at_least=rated)

    @override
    def augmenter(self, spec: DatasetSpec, split: Split, groups: Groups) -> Augmenter:
        puzzles, solutions = groups.inputs - SUDOKU_BLANK, groups.labels - SUDOKU_BLANK
        return SudokuAugmenter(puzzles, solutions, groups.keys, spec.seed, *_options(spec).box)

    @override
    def elements(
        self, spec: DatasetSpec, groups: Groups, rows: NDArray[np.int64], ks: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return keyed_elements(spec.seed, groups.keys, rows, ks, num_elements(*_options(spec).box))

    @override
    def facts(
        self, spec: DatasetSpec, inputs: NDArray[np.uint8], labels: NDArray[np.uint8]
    ) -> Mapping[str, Sequence[Any] | NDArray[Any]]:
        options = _options(spec)
        digits = ((inputs >= SUDOKU_BLANK) & (inputs <= SUDOKU_BLANK + options.side)).all(axis=1)
        ratings = np.full(len(inputs), np.nan, np.float32)
        ratings[digits] = rate(inputs[digits] - SUDOKU_BLANK, *options.box)
        clues = np.count_nonzero(inputs > SUDOKU_BLANK, axis=1).astype(np.int32)
        return {"rating": ratings, "rating_source": ["solver"] * len(inputs), "clues": clues}

    @override
    def check_puzzles(self, spec: DatasetSpec, split: Split, puzzles: BasePuzzles) -> CheckedPuzzles:
        side, box = _options(spec).side, _options(spec).box
        first, largest = puzzles.first_group, SUDOKU_BLANK + side
        inputs, labels = puzzles.inputs, puzzles.labels
        bad_inputs = ((inputs < SUDOKU_BLANK) | (inputs > largest)).any(axis=1)
        bad_labels = ((labels <= SUDOKU_BLANK) | (labels > largest)).any(axis=1)
        wrong = first + np.flatnonzero(bad_inputs)
        problems = named_problems(split, "group", wrong, "has an input token that is no cell")
        wrong = first + np.flatnonzero(bad_labels)
        problems += named_problems(split, "group", wrong, "has a label token that is no digit")
        if problems:
            return CheckedPuzzles(problems)
        grids, solutions = inputs - SUDOKU_BLANK, labels - SUDOKU_BLANK
        solved = solve(grids, *box, limit=2)
        wrong = first + np.flatnonzero((solved.counts != 1) | (solved.solutions != solutions).any(axis=1))
        problems = named_problems(split, "group", wrong, "its label is not the puzzle's only solution")
        if problems:
            return CheckedPuzzles(problems)
        by_solver = np.array(puzzles.facts["rating_source"]) == "solver"
        stated = np.array(puzzles.facts["rating"], np.float32)
        off = by_solver.copy()
        off[by_solver] = rate(grids[by_solver], *box) != stated[by_solver]
        wrong = first + np.flatnonzero(off)
        problems = named_problems(
            split, "group", wrong, "its catalog row has another rating than the solver gives"
        )
        hashes = canonical_hashes(canonicalize(grids, solutions, *box).forms, *box)
        classes = [(f"{split} group {first + group}", hash_) for group, hash_ in enumerate(hashes)]
        return CheckedPuzzles(problems, hashes, classes)

    @override
    def parse(self, text: str, spec: DatasetSpec) -> NDArray[np.uint8]:
        side = _options(spec).side
        cells = plain(text, side)
        if is_json(cells):
            return decode_numbers(cells, side) + np.uint8(SUDOKU_BLANK)
        symbols = spec.source.symbols
        digits = check_digits(symbols, side) if symbols else choose_digits([(cells, "")], side)
        return decode_grid(cells, side, digits) + np.uint8(SUDOKU_BLANK)

    @override
    def read_file(self, source: LocalSource, spec: DatasetSpec) -> tuple[NDArray[np.uint8], list[Reject]]:
        rows, rejects = read_puzzles(source, _options(spec).side, distinct=False)
        return rows.questions + np.uint8(SUDOKU_BLANK), rejects

    @override
    def answer(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> Answer:
        solved = solve((tokens - SUDOKU_BLANK)[None], *_options(spec).box, limit=2)
        count = int(solved.counts[0])
        return Answer(count, solved.solutions[0] + np.uint8(SUDOKU_BLANK) if count else None)

    @override
    def score(
        self,
        spec: DatasetSpec,
        inputs: NDArray[np.uint8],
        labels: NDArray[np.uint8],
        predictions: NDArray[np.uint8],
    ) -> Scores:
        kept = ((predictions == inputs) | (inputs <= SUDOKU_BLANK)).all(axis=1)
        # PAD becomes 255, which is not a digit.
        legal = legal_grids(predictions - np.uint8(SUDOKU_BLANK), *_options(spec).box)
        return Scores(given_kept=kept, valid=kept & legal)

    @override
    def satisfies(
        self, spec: DatasetSpec, inputs: NDArray[np.uint8], predictions: NDArray[np.uint8]
    ) -> NDArray[np.bool_] | None:
        """Return whether each prediction is a legal grid that keeps the clues."""
        return self.score(spec, inputs, inputs, predictions).valid

    @override
    def draw(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> Drawing:
        return draw_grid(tokens, *_options(spec).box)


PALETTE = ("#ffffff", "#e8eef7")


def draw_grid(tokens: NDArray[np.uint8], box_rows: int, box_columns: int) -> Drawing:
    """Return a drawing of tokens [S], with boxes shaded alternately."""
    side = box_rows * box_columns
    symbols = tuple("".join(map(_symbol, cells)) for cells in tokens.reshape(side, side).tolist())
    i, j = np.indices((side, side))
    shaded = ((i // box_rows + j // box_columns) % 2).astype(np.uint8)
    return Drawing(symbols, shaded, PALETTE, (box_rows, box_columns), silent=" .")


def _symbol(token: int) -> str:
    digit = token - SUDOKU_BLANK
    return DIGITS[digit - 1] if 1 <= digit <= len(DIGITS) else "."
