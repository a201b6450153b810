"""The Sudoku kind: limits of its specification, shapes, the augmenter, the choice and the check of base puzzles.

Candidates are generated or read, with solution, rating and canonical hash; answers of files are checked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from trm_data.encode import SUDOKU_BLANK, sudoku_vocabulary_size
from trm_data.engine import Engine
from trm_data.errors import SpecError
from trm_data.kinds.base import (
    Answer,
    BasePuzzles,
    CheckedPuzzles,
    Geometry,
    Scores,
    check_sizes,
    named_problems,
)
from trm_data.kinds.candidates import Candidates, cache_folder
from trm_data.kinds.choosing import (
    Checked,
    Chooser,
    GeneratedStream,
    Stream,
)
from trm_data.kinds.grids import StreamKind
from trm_data.kinds.sudoku.generate import generate, generate_hard
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.kinds.sudoku.solve import legal_grids, rate, solve
from trm_data.kinds.sudoku.source import (
    DIGITS,
    check_digits,
    choose_digits,
    decode_grid,
    decode_numbers,
    plain,
    read_puzzles,
)
from trm_data.kinds.sudoku.symmetry import (
    SudokuAugmenter,
    canonical_hashes,
    canonicalize,
    num_elements,
    num_symmetries,
)
from trm_data.records import Augmentations, Groups, Reject
from trm_data.show.drawing import Drawing
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource
from trm_data.sources.columns import is_json
from trm_data.sources.rows import StatedRows
from trm_data.specs import DatasetSpec, Split
from trm_data.symmetry.base import Augmenter, keyed_elements

PALETTE = ("#ffffff", "#e8eef7")
BOXES = tuple((rows, columns) for rows in range(2, 9) for columns in range(2, 9) if rows * columns <= 16)


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


class SudokuKind(StreamKind):
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
    def chooser(self, spec: DatasetSpec, progress: Progress) -> Chooser:
        options, bins = _options(spec), _options(spec).rating_bins
        uppers = [*(f" and below {upper:g}" for upper in bins[1:]), ""]
        return Chooser(
            spec,
            progress,
            bucket=partial(_bucket, options),
            num_buckets=max(1, len(bins)),
            selective=bool(bins) or options.min_rating is not None or options.max_rating is not None,
            names=[f"rating {low:g} and above{upper}" for low, upper in zip(bins, uppers, strict=False)],
            advice=_advice(spec, options),
        )

    @override
    def open_stream(
        self, spec: DatasetSpec, source: LocalSource, *, chooser: Chooser, engine: Engine, cache: Path
    ) -> Stream:
        options = _options(spec)
        if source.spec.kind == "generated":
            slow = options.difficulty == "extreme" or options.side > 9
            folder = cache_folder(cache, "sudoku", spec.seed, *options.box, options.difficulty)
            return GeneratedStream(
                partial(_generated, spec.seed, options), engine, cache=folder if slow else None
            )
        read = read_puzzles(source, options.side, progress=chooser.progress)
        low, high, stated = options.min_rating, options.max_rating, read[0].ratings
        fits = (stated >= (-np.inf if low is None else low)) & (stated <= (np.inf if high is None else high))
        check = partial(_checked, options.box, source.shown)
        return chooser.file_stream(source, read, check, engine, fits | np.isnan(stated))

    @override
    def augmentations(self, spec: DatasetSpec, chosen: Candidates, aug: int) -> Augmentations:
        return distinct_augmentations(spec.seed, _options(spec).box, chosen, aug)

    @override
    def chosen_facts(self, chosen: Candidates) -> Mapping[str, Any]:
        by_file = chosen.facts["rated_by_file"].tolist()
        return {
            "rating": chosen.facts["rating"],
            "rating_source": ["file" if stated else "solver" for stated in by_file],
            "clues": np.count_nonzero(chosen.inputs != SUDOKU_BLANK, axis=1).astype(np.int32),
        }

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
        """Draw a grid with boxes shaded alternately."""
        side, (box_rows, box_columns) = _options(spec).side, _options(spec).box
        digits = {SUDOKU_BLANK + digit: mark for digit, mark in enumerate(DIGITS, start=1)}
        cells = tokens.reshape(side, side).tolist()
        symbols = tuple("".join(digits.get(token, ".") for token in row) for row in cells)
        i, j = np.indices((side, side))
        shaded = ((i // box_rows + j // box_columns) % 2).astype(np.uint8)
        return Drawing(symbols, shaded, PALETTE, (box_rows, box_columns), silent=" .")


def _advice(spec: DatasetSpec, options: SudokuOptions) -> str:
    """Return the hint for too few puzzles; random minimal puzzles are easy, few have a rating above 10."""
    if spec.source.kind == "generated" and options.box == (3, 3) and options.difficulty == "random":
        return ", or add --difficulty extreme for hard ones"
    low, high = options.min_rating, options.max_rating
    if low is not None or high is not None:
        bounds = f"{'' if low is None else f'{low:g}'}..{'' if high is None else f'{high:g}'}"
        return f", or for other ratings than {bounds}"
    return ""


def _bucket(options: SudokuOptions, candidates: Candidates) -> NDArray[np.int64]:
    """Return the rating bin of each candidate, -1 if its rating is outside the bounds."""
    ratings = candidates.facts["rating"]
    buckets = np.zeros(len(ratings), np.int64)
    if options.rating_bins:
        buckets = np.searchsorted(np.array(options.rating_bins), ratings, side="right") - 1
    if options.min_rating is not None:
        buckets[ratings < options.min_rating] = -1
    if options.max_rating is not None:
        buckets[ratings > options.max_rating] = -1
    return buckets


def _generated(seed: int, options: SudokuOptions, stream: int, bounds: tuple[int, int]) -> Candidates:
    start, stop = bounds
    if options.difficulty == "extreme":
        puzzles, solutions, _ = generate_hard(seed, stream, start, stop - start)
    else:
        puzzles, solutions = generate(seed, stream, start, stop - start, *options.box)
    unstated = np.full(stop - start, np.nan, np.float32)
    return _rated(puzzles, solutions, unstated, np.arange(start, stop), options.box)


def _checked(box: tuple[int, int], shown: str, rows: StatedRows) -> Checked:
    """Return the rows with one solution that matches their answer, and the rejected rows with the reason."""
    puzzles, answers, lines = rows.questions, rows.answers, rows.lines
    solved = solve(puzzles, *box, limit=2)
    stated = answers.any(axis=1)
    wrong = stated & (answers != solved.solutions).any(axis=1)
    good = (solved.counts == 1) & ~wrong
    rejects: list[Reject] = []
    for position in np.flatnonzero(~good).tolist():
        if solved.counts[position] == 0:
            reason = "the puzzle has no solution"
        elif solved.counts[position] > 1:
            reason = "the puzzle has several solutions"
        else:
            cell = int(np.argmax(answers[position] != solved.solutions[position])) + 1
            reason = f"the answer is not the puzzle's solution (they differ at position {cell})"
        rejects.append(Reject(shown, int(lines[position]), reason))
    return _rated(puzzles[good], solved.solutions[good], rows.ratings[good], lines[good], box), rejects


def _rated(
    puzzles: NDArray[np.uint8],
    solutions: NDArray[np.uint8],
    stated: NDArray[np.float32],
    source_rows: NDArray[np.int64],
    box: tuple[int, int],
) -> Candidates:
    """Add rating (if the file has none), canonical hash and automorphisms."""
    unrated = np.isnan(stated)
    ratings = stated.copy()
    if unrated.any():
        ratings[unrated] = rate(puzzles[unrated], *box)
    canonical = canonicalize(puzzles, solutions, *box)
    hashes = np.array(canonical_hashes(canonical.forms, *box), dtype=np.str_)
    return Candidates(
        (puzzles + SUDOKU_BLANK).astype(np.uint8),
        (solutions + SUDOKU_BLANK).astype(np.uint8),
        source_rows,
        hashes,
        canonical.automorphisms,
        {"rating": ratings, "rated_by_file": ~unrated},
    )


def distinct_augmentations(seed: int, box: tuple[int, int], chosen: Candidates, aug: int) -> Augmentations:
    """Return for each group the k of its augmentations, such that no two puzzles of a group are equal.

    Different symmetries give different puzzles, unless the puzzle itself is symmetric. Then its images are compared,
    and repeated ones are skipped, as long as others remain.
    """
    symmetric = np.flatnonzero(chosen.automorphisms > 1).tolist() if aug else []
    if not symmetric:
        return Augmentations.regular(len(chosen), aug)
    lists = [np.arange(aug + 1, dtype=np.int32)] * len(chosen)
    for group in symmetric:
        lists[group] = _distinct_images(seed, box, chosen, group, aug)
    return Augmentations.of_lists(lists)


def _distinct_images(
    seed: int, box: tuple[int, int], chosen: Candidates, group: int, aug: int
) -> NDArray[np.int32]:
    order = num_elements(*box)
    wanted = min(aug + 1, num_symmetries(*box) // int(chosen.automorphisms[group]))
    augmenter = SudokuAugmenter(
        chosen.inputs[group : group + 1] - SUDOKU_BLANK,
        chosen.labels[group : group + 1] - SUDOKU_BLANK,
        np.array([group], np.int64),
        seed,
        *box,
    )
    seen: set[bytes] = set()
    survivors: list[int] = []
    start = 0
    while len(survivors) < wanted and start < order:
        ks = np.arange(start, min(start + 2 * aug + 2, order), dtype=np.int64)
        start += len(ks)
        images = np.empty((len(ks), chosen.inputs.shape[1]), np.uint8)
        zeros = np.zeros(len(ks), np.int64)
        augmenter.fill(zeros, ks, zeros, images, np.empty_like(images))
        for k, image in zip(ks.tolist(), images, strict=True):
            if len(survivors) < wanted and image.tobytes() not in seen:
                seen.add(image.tobytes())
                survivors.append(k)
    return np.array(survivors, np.int32)
