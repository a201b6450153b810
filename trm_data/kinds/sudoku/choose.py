"""Chooses the puzzles of each split from streams of candidates, never two of one symmetry class.

Test puzzles are chosen first, then validation, then training. So nothing that is trained on is equivalent to
anything held out, and for the same held-out sizes a smaller training set is the beginning of a larger one.

Candidates come from the generator (each split has a stream of its own) or from a file (brought into a keyed
order once; the splits that read it take from it one after the other). Which puzzles are chosen depends on
neither the number of workers nor the size of chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trm_data.augment.sudoku import augment_rows, group_order, index_count
from trm_data.canonical.sudoku import canonical_hashes, canonicalize
from trm_data.engine.local import run_tasks, slices
from trm_data.errors import BadRowError, SpecError
from trm_data.generate.sudoku import generate
from trm_data.progress import Progress
from trm_data.records import Groups, Reject, Selection, SourceFile
from trm_data.seeds import Purpose
from trm_data.seeds_kernels import shuffled
from trm_data.solve.sudoku import rate, solve
from trm_data.sources.base import LocalSource
from trm_data.sources.sudoku import PuzzleRows, read_puzzles
from trm_data.specs import SPLITS, DatasetSpec, Split

CHOOSING_ORDER: tuple[Split, ...] = ("test", "validation", "train")
SIZE_OPTIONS: dict[Split, str] = {"train": "--size", "validation": "--val-size", "test": "--test-size"}
STREAMS: dict[Split, int] = {"train": 0, "validation": 1, "test": 2}
CHUNK_PUZZLES = 4_096
MISSES_ALLOWED = 20_000
"""Generated puzzles in a row that may be unusable before a build gives up; ten times as many with a rating."""


@dataclass(frozen=True)
class _Candidates:
    """Valid puzzles with what a choice needs to know. N of S cells."""

    puzzles: NDArray[np.uint8]
    solutions: NDArray[np.uint8]
    ratings: NDArray[np.float32]
    rated_by_file: NDArray[np.bool_]
    source_rows: NDArray[np.int64]
    hashes: NDArray[np.str_]
    automorphisms: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.puzzles)

    def take(self, keep: list[int]) -> _Candidates:
        """Those at the positions `keep`."""
        return _Candidates(*(column[keep] for column in self._columns()))

    @staticmethod
    def concatenate(parts: list[_Candidates]) -> _Candidates:
        """All of `parts` in order."""
        columns = zip(*(part._columns() for part in parts), strict=True)
        return _Candidates(*(np.concatenate(column) for column in columns))

    def _columns(self) -> tuple[np.ndarray, ...]:
        return (
            self.puzzles,
            self.solutions,
            self.ratings,
            self.rated_by_file,
            self.source_rows,
            self.hashes,
            self.automorphisms,
        )


class _Stream(Protocol):
    """Candidates in an order of their own."""

    name: str
    """What the catalog says they come from."""
    shown: str
    """What messages say."""
    ends: bool
    """Whether it runs out, so that it is never asked for more than is wanted."""

    def next_chunk(self, split: Split, count: int) -> _Candidates | None:
        """At most `count` valid candidates; None when there are no more."""
        ...


def choose_puzzles(
    spec: DatasetSpec,
    source: LocalSource,
    test_source: LocalSource | None,
    *,
    workers: int,
    progress: Progress,
) -> Selection:
    """The groups of every split, the files they came from and the rows that were left out.

    Raises:
        BadRowError: A row is no valid puzzle, and the specification says to stop.
        SpecError: The source has fewer usable puzzles than asked for.
    """
    chooser = _Chooser(spec, workers, progress)
    main = chooser.open(source)
    test = main if test_source is None else chooser.open(test_source)
    wanted: dict[Split, tuple[_Stream, int]] = {
        "train": (main, spec.size),
        "validation": (main, spec.val_size),
        "test": (test, spec.test_size),
    }
    chosen = {split: chooser.take(*wanted[split], split) for split in CHOOSING_ORDER if wanted[split][1]}
    ordered: dict[Split, Groups] = {split: chosen[split] for split in SPLITS if split in chosen}
    return Selection(ordered, chooser.sources, chooser.rejects)


class _Chooser:
    """Takes puzzles from streams and remembers the symmetry classes that are taken."""

    def __init__(self, spec: DatasetSpec, workers: int, progress: Progress) -> None:
        self.spec = spec
        self.box = spec.options.box
        self.workers = workers
        self.progress = progress
        self.sources: list[SourceFile] = []
        self.rejects: list[Reject] = []
        self._taken: dict[str, str] = {}

    def open(self, source: LocalSource) -> _Stream:
        """A stream of candidates; a file is read whole."""
        if source.spec.kind == "generated":
            return _Generated(self)
        rows, rejects = read_puzzles(source, self.spec.options.side)
        self.reject(rejects)
        self.sources.append(
            SourceFile(source.spec.name, source.spec.sha256, len(rows) + len(rejects), source.licence)
        )
        return _FromFile(self, source, rows)

    def reject(self, rejects: list[Reject]) -> None:
        """Stop the build at the first bad row, or note them all, as the specification says."""
        if rejects and self.spec.on_bad_row == "stop":
            first = min(rejects, key=lambda reject: reject.line)
            raise BadRowError(first.file, first.line, f"{first.reason} (--on-bad-row skip leaves it out)")
        self.rejects.extend(rejects)

    def take(self, stream: _Stream, count: int, split: Split) -> Groups:
        """The next `count` usable puzzles of a stream."""
        self.progress.start(f"choose {split} puzzles", count, "puzzles")
        parts: list[_Candidates] = []
        found = misses = 0
        rated = self.spec.options.min_rating is not None or self.spec.options.max_rating is not None
        patience = MISSES_ALLOWED * 10 if rated else MISSES_ALLOWED
        while found < count:
            left = count - found
            wanted = left if stream.ends else max(left, 2 * misses, 64)
            chunk = stream.next_chunk(split, min(wanted, CHUNK_PUZZLES))
            if chunk is None or misses > patience:
                raise SpecError(
                    f"{SIZE_OPTIONS[split]} {count}: {stream.shown} has only {found} usable, inequivalent "
                    f"puzzles for the {split} split; ask for fewer"
                )
            keep = self._usable(chunk, stream, left)
            parts.append(chunk.take(keep))
            found += len(keep)
            misses = 0 if keep else misses + len(chunk)
            self.progress.advance(len(keep))
        return self._groups(_Candidates.concatenate(parts), stream, split)

    def _usable(self, chunk: _Candidates, stream: _Stream, wanted: int) -> list[int]:
        """Positions of the first `wanted` candidates whose rating fits and whose symmetry class is new."""
        low, high = self.spec.options.min_rating, self.spec.options.max_rating
        keep: list[int] = []
        for position in range(len(chunk)):
            if len(keep) == wanted:
                break
            rating = float(chunk.ratings[position])
            if (low is not None and rating < low) or (high is not None and rating > high):
                continue
            hash_ = str(chunk.hashes[position])
            row = int(chunk.source_rows[position])
            if hash_ not in self._taken:
                self._taken[hash_] = f"{stream.shown}:{row}"
                keep.append(position)
            elif stream.ends:
                reason = f"equivalent under symmetry to {self._taken[hash_]}"
                self.reject([Reject(stream.shown, row, reason)])
        return keep

    def _groups(self, chosen: _Candidates, stream: _Stream, split: Split) -> Groups:
        aug = self.spec.aug if split == "train" else 0
        return Groups(
            inputs=chosen.puzzles,
            solutions=chosen.solutions,
            ratings=chosen.ratings,
            rating_sources=["file" if stated else "solver" for stated in chosen.rated_by_file.tolist()],
            source_files=[stream.name] * len(chosen),
            source_rows=chosen.source_rows,
            clues=np.count_nonzero(chosen.puzzles, axis=1).astype(np.int32),
            canonical_hashes=chosen.hashes.tolist(),
            augmentations=distinct_augmentations(
                self.spec, chosen.puzzles, chosen.solutions, chosen.automorphisms, aug
            ),
        )


class _Generated:
    """Candidates from the generator. Puzzle i of a stream depends on the seed, the stream and i alone."""

    name = "generated"
    shown = "the generator"
    ends = False

    def __init__(self, chooser: _Chooser) -> None:
        self._chooser = chooser
        self._next: dict[Split, int] = {}

    def next_chunk(self, split: Split, count: int) -> _Candidates | None:
        """The next puzzles of the split's stream."""
        first = self._next.get(split, 0)
        self._next[split] = first + count
        chooser = self._chooser

        def make(bounds: tuple[int, int]) -> _Candidates:
            start, stop = first + bounds[0], first + bounds[1]
            puzzles, solutions = generate(
                chooser.spec.seed, STREAMS[split], start, stop - start, *chooser.box
            )
            unstated = np.full(stop - start, np.nan, np.float32)
            return _rated(puzzles, solutions, unstated, np.arange(start, stop), chooser.box)

        return _Candidates.concatenate(run_tasks(make, slices(count, chooser.workers), chooser.workers))


class _FromFile:
    """Candidates from the rows of a file, in an order keyed by the seed."""

    ends = True

    def __init__(self, chooser: _Chooser, source: LocalSource, rows: PuzzleRows) -> None:
        self.name = source.spec.name
        self.shown = source.shown
        self._chooser = chooser
        self._rows = rows
        order = shuffled(chooser.spec.seed, Purpose.SELECT, 0, 0, len(rows))
        low, high = chooser.spec.options.min_rating, chooser.spec.options.max_rating
        stated = rows.ratings[order]
        fits = np.isnan(stated)
        fits |= (stated >= (-np.inf if low is None else low)) & (stated <= (np.inf if high is None else high))
        self._order = order[fits]
        self._next = 0

    def next_chunk(self, split: Split, count: int) -> _Candidates | None:
        """The next rows, solved and compared with their answers."""
        taken = self._order[self._next : self._next + count]
        self._next += len(taken)
        if not len(taken):
            return None
        workers = self._chooser.workers

        def make(bounds: tuple[int, int]) -> tuple[_Candidates, list[Reject]]:
            return self._checked(taken[slice(*bounds)])

        made = run_tasks(make, slices(len(taken), workers), workers)
        self._chooser.reject([reject for _, rejects in made for reject in rejects])
        return _Candidates.concatenate([candidates for candidates, _ in made])

    def _checked(self, positions: NDArray[np.int64]) -> tuple[_Candidates, list[Reject]]:
        """The rows that have one solution, which fits their answer, and the others with the reason."""
        puzzles, answers = self._rows.puzzles[positions], self._rows.answers[positions]
        lines = self._rows.lines[positions]
        solved = solve(puzzles, *self._chooser.box, limit=2)
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
            rejects.append(Reject(self.shown, int(lines[position]), reason))
        candidates = _rated(
            puzzles[good],
            solved.solutions[good],
            self._rows.ratings[positions][good],
            lines[good],
            self._chooser.box,
        )
        return candidates, rejects


def _rated(
    puzzles: NDArray[np.uint8],
    solutions: NDArray[np.uint8],
    stated: NDArray[np.float32],
    source_rows: NDArray[np.int64],
    box: tuple[int, int],
) -> _Candidates:
    """Add rating (where the file states none), canonical hash and automorphisms."""
    unrated = np.isnan(stated)
    ratings = stated.copy()
    if unrated.any():
        ratings[unrated] = rate(puzzles[unrated], *box)
    canonical = canonicalize(puzzles, solutions, *box)
    hashes = np.array(canonical_hashes(canonical.forms, *box), dtype=np.str_)
    return _Candidates(puzzles, solutions, ratings, ~unrated, source_rows, hashes, canonical.automorphisms)


def distinct_augmentations(
    spec: DatasetSpec,
    puzzles: NDArray[np.uint8],
    solutions: NDArray[np.uint8],
    automorphisms: NDArray[np.int64],
    aug: int,
) -> list[NDArray[np.int32]]:
    """For each group the k of its augmentations, such that no two of a group are equal.

    Augmentations are distinct as symmetries; as puzzles they are too, unless the puzzle is symmetric itself.
    Then its images are compared and repeated ones are passed over, as long as there are others.
    """
    usual = np.arange(aug + 1, dtype=np.int32)
    if not aug:
        return [usual] * len(puzzles)
    chosen = [usual] * len(puzzles)
    for group in np.flatnonzero(automorphisms > 1).tolist():
        chosen[group] = _distinct_images(spec, puzzles, solutions, group, int(automorphisms[group]), aug)
    return chosen


def _distinct_images(
    spec: DatasetSpec,
    puzzles: NDArray[np.uint8],
    solutions: NDArray[np.uint8],
    group: int,
    automorphisms: int,
    aug: int,
) -> NDArray[np.int32]:
    box = spec.options.box
    order = index_count(*box)
    wanted = min(aug + 1, group_order(*box) // automorphisms)
    seen: set[bytes] = set()
    survivors: list[int] = []
    start = 0
    while len(survivors) < wanted and start < order:
        ks = np.arange(start, min(start + 2 * aug + 2, order), dtype=np.int64)
        start += len(ks)
        images = np.empty((len(ks), puzzles.shape[1]), np.uint8)
        augment_rows(
            puzzles[group : group + 1],
            solutions[group : group + 1],
            np.array([group], np.int64),
            np.zeros(len(ks), np.int32),
            ks,
            spec.seed,
            *box,
            images,
            np.empty_like(images),
        )
        for k, image in zip(ks.tolist(), images, strict=True):
            if len(survivors) < wanted and image.tobytes() not in seen:
                seen.add(image.tobytes())
                survivors.append(k)
    return np.array(survivors, np.int32)
