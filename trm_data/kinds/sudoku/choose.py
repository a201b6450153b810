"""Sudoku candidates, generated or read, with solution, rating and canonical hash; answers of files are checked."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trm_data.encode.vocab import SUDOKU_BLANK
from trm_data.engine.base import Engine
from trm_data.kinds.candidates import Candidates, cache_folder
from trm_data.kinds.choosing import (
    Checked,
    Chooser,
    FileStream,
    GeneratedStream,
    Stream,
    chosen_groups,
    keyed_order,
)
from trm_data.kinds.sudoku.canonical import canonical_hashes, canonicalize
from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.kinds.sudoku.solve import rate, solve
from trm_data.kinds.sudoku.source import read_puzzles
from trm_data.kinds.sudoku.symmetry import SudokuAugmenter, num_elements, num_symmetries
from trm_data.records import Augmentations, Groups, Reject, Selection, SourceFile
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource, Sources
from trm_data.sources.rows import StatedRows
from trm_data.specs import DatasetSpec, Split


def choose_puzzles(
    spec: DatasetSpec,
    options: SudokuOptions,
    sources: Sources,
    *,
    engine: Engine,
    progress: Progress,
    cache: Path,
) -> Selection:
    """Return the groups of every split, the files they came from and the rejected rows."""
    bins = options.rating_bins
    selective = bool(bins) or options.min_rating is not None or options.max_rating is not None
    chooser = Chooser(
        spec,
        progress,
        bucket=partial(_bucket, options),
        num_buckets=max(1, len(bins)),
        selective=selective,
        names=_bin_names(bins),
        advice=_advice(spec, options),
    )
    open_stream = partial(_open, spec, options, chooser=chooser, engine=engine, cache=cache)
    main = open_stream(sources.main)
    test = main if sources.test is None else open_stream(sources.test)

    def make_groups(split: Split, chosen: Candidates) -> Groups:
        aug = spec.aug if split == "train" else 0
        by_file = chosen.facts["rated_by_file"].tolist()
        facts = {
            "rating": chosen.facts["rating"],
            "rating_source": ["file" if stated else "solver" for stated in by_file],
            "clues": np.count_nonzero(chosen.inputs != SUDOKU_BLANK, axis=1).astype(np.int32),
        }
        augmentations = distinct_augmentations(spec.seed, options.box, chosen, aug)
        return chosen_groups(chosen, test if split == "test" else main, augmentations, facts)

    return chooser.choose(main, test, make_groups)


def _bin_names(bins: tuple[float, ...]) -> list[str]:
    """Return a description of each rating bin."""
    uppers = [f" and below {upper:g}" for upper in bins[1:]]
    return (
        [f"rating {low:g} and above{upper}" for low, upper in zip(bins, [*uppers, ""], strict=True)]
        if bins
        else []
    )


def _advice(spec: DatasetSpec, options: SudokuOptions) -> str:
    """Return the hint for too few puzzles; random minimal puzzles are easy, few have a rating above 10."""
    if spec.source.kind == "generated" and options.box == (3, 3) and options.difficulty == "random":
        return ", or add --difficulty extreme for hard ones"
    low, high = options.min_rating, options.max_rating
    if low is not None or high is not None:
        bounds = f"{'' if low is None else f'{low:g}'}..{'' if high is None else f'{high:g}'}"
        return f", or for other ratings than {bounds}"
    return ""


def _open(
    spec: DatasetSpec,
    options: SudokuOptions,
    source: LocalSource,
    *,
    chooser: Chooser,
    engine: Engine,
    cache: Path,
) -> Stream:
    """Open a stream of candidates; a file is read whole."""
    if source.spec.kind == "generated":
        slow = options.difficulty == "extreme" or options.side > 9
        folder = cache_folder(cache, "sudoku", spec.seed, *options.box, options.difficulty)
        return GeneratedStream(
            partial(_generated, spec.seed, options), engine, cache=folder if slow else None
        )
    rows, rejects = read_puzzles(source, options.side, progress=chooser.progress)
    chooser.reject(rejects)
    chooser.sources.append(
        SourceFile(source.spec.name, source.spec.sha256, len(rows) + len(rejects), source.licence)
    )
    order = keyed_order(spec.seed, len(rows))
    low, high = options.min_rating, options.max_rating
    stated = rows.ratings[order]
    fits = np.isnan(stated)
    fits |= (stated >= (-np.inf if low is None else low)) & (stated <= (np.inf if high is None else high))
    check = partial(_checked, options.box, source.shown)
    return FileStream(source.spec.name, source.shown, check, rows, order[fits], engine)


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
        from trm_data.kinds.sudoku.generate import generate_hard

        puzzles, solutions = generate_hard(seed, stream, start, stop - start)
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
