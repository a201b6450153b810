"""Choose the puzzles of each split from streams of candidates, at most one per symmetry class.

Test puzzles are chosen first, then validation, then training. So no training puzzle is equivalent to a held-out
puzzle, and for the same held-out sizes a smaller training set is a prefix of a larger one.

Candidates come from a generator (each split has its own stream) or from a file (put into a keyed order once; the
splits that read it take rows one split after another). The choice does not depend on the engine or the chunk size.
ARC tasks are chosen in `kinds.arc.choose`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from trm_data.engine import Engine, slices
from trm_data.errors import BadRowError, SpecError
from trm_data.kinds.base import check_total, is_brief
from trm_data.kinds.candidates import BLOCK_CANDIDATES, Candidates, cached_block
from trm_data.records import (
    Augmentations,
    Groups,
    Reject,
    Selection,
    SourceFile,
)
from trm_data.seeds.draws import Purpose, shuffled
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource
from trm_data.sources.rows import SourceRows
from trm_data.specs import SPLITS, DatasetSpec, Split

CHOOSING_ORDER: tuple[Split, ...] = ("test", "validation", "train")
SIZE_OPTIONS: dict[Split, str] = {"train": "--size", "validation": "--val-size", "test": "--test-size"}
STREAMS: dict[Split, int] = {"train": 0, "validation": 1, "test": 2}
FEW_ROWS = 20_000
"""Maximum number of rows that Python sorts in less time than the kernel takes to load."""


ROW_BITS = 48
"""Number of low bits of a holder's number that hold its row; the higher bits hold its stream."""


LEAST_ASKED, MOST_ASKED = 64, 4_096
"""Minimum and maximum number of candidates requested from a generator at a time."""
MISSES_ALLOWED = 20_000
"""Consecutive unusable puzzles from a generator before a build fails; ten times as many if only some puzzles are
wanted."""
MOST_REASONS = 5
"""Maximum number of rejection reasons in the error of a failed build."""
_TASK = re.compile(r"^(line \d+, )?task [^\s,:]+[,:] ")
_NUMBERS = re.compile(r"\S+:\d+|\d[\d,]*")


def said_of_rejects(rejects: Sequence[Reject], noun: str = "row") -> str:
    """Describe the number of rejected rows, by reason; empty if there are none."""
    if not rejects:
        return ""
    by_reason: dict[str, list[str]] = {}
    for reject in rejects:
        reason = _TASK.sub("", reject.reason)
        by_reason.setdefault(_NUMBERS.sub("N", reason), []).append(reason)
    ordered = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    said = [f"{len(found):,} {found[0] if len(set(found)) == 1 else reason}" for reason, found in ordered]
    more = f" and {len(said) - MOST_REASONS} further reasons" if len(said) > MOST_REASONS else ""
    count = f"{noun} was" if len(rejects) == 1 else f"{noun}s were"
    return f". {len(rejects):,} {count} left out: {'; '.join(said[:MOST_REASONS])}{more}"


Checked = tuple[Candidates, list[Reject]]
MakeGroups = Callable[[Split, Candidates], Groups]
"""Makes the groups of a split from its chosen puzzles."""


R = TypeVar("R", bound=SourceRows)


class Stream(Protocol):
    """A sequence of candidates."""

    name: str
    """Name of the source in the catalog."""
    shown: str
    """Name of the source in messages."""
    ends: bool
    """Whether the stream is finite; a finite stream is asked for no more candidates than are wanted."""

    @property
    def left(self) -> int | None:
        """Maximum number of remaining candidates; None if the stream has no end."""
        ...

    def next_chunk(
        self, split: Split, count: int, made: Callable[[int], None], *, brief: bool
    ) -> Checked | None:
        """Return about `count` valid candidates and the rejected rows; None if the stream is exhausted.

        A finite stream returns at most `count`. `made` receives the number of new candidates as they come. `brief`: as
        for `Engine.run`, if the stream is not slow.
        """
        ...


class GeneratedStream:
    """Candidates from a generator. Puzzle i of a stream depends only on the seed, the stream and i.

    Args:
        make: `make(stream, (start, stop))` makes the puzzles of these numbers; picklable.
        engine: Runs `make`.
        smallest: Minimum number of puzzles of one task.
        cache: Cache folder for the candidates of a slow generator; None to make them again each time.
    """

    name = "generated"
    shown = "the generator"
    ends = False
    left: int | None = None

    def __init__(
        self,
        make: Callable[[int, tuple[int, int]], Candidates],
        engine: Engine,
        *,
        smallest: int = 512,
        cache: Path | None = None,
    ) -> None:
        self._make, self._engine, self._smallest, self._cache = make, engine, smallest, cache
        self._next: dict[Split, int] = {}

    def next_chunk(
        self, split: Split, count: int, made: Callable[[int], None], *, brief: bool
    ) -> Checked | None:
        """Return the next puzzles of the split's stream; a slow generator gives whole blocks."""
        first = self._next.get(split, 0)

        def done(candidates: Candidates) -> None:
            made(len(candidates))

        if self._cache is None:
            bounds = slices(count, self._engine.workers, smallest=self._smallest)
            make = partial(self._make, STREAMS[split])
            items = [(first + a, first + b) for a, b in bounds]
            parts = self._engine.run(make, items, done, brief=brief)
        else:
            block = first // BLOCK_CANDIDATES
            blocks = range(block, block - (-count // BLOCK_CANDIDATES))
            make = partial(cached_block, self._make, self._cache, STREAMS[split])
            parts = self._engine.run(make, blocks, done)
        self._next[split] = first + sum(map(len, parts))
        return Candidates.concatenate(parts), []


class FileStream(Generic[R]):
    """Candidates from the rows of a file, in an order keyed by the seed.

    Args:
        name: Name of the source in the catalog.
        shown: Name of the source in messages.
        check: `check(rows)` checks some of the rows; picklable.
        rows: Rows of the file.
        order: Positions of the usable rows, in order.
        engine: Runs `check`.
    """

    ends = True

    def __init__(
        self,
        name: str,
        shown: str,
        check: Callable[[R], Checked],
        rows: R,
        order: NDArray[np.int64],
        engine: Engine,
    ) -> None:
        self.name, self.shown = name, shown
        self._check, self._rows, self._order, self._engine = check, rows, order, engine
        self._next = 0

    @property
    def left(self) -> int | None:
        """Number of rows not taken yet."""
        return len(self._order) - self._next

    def next_chunk(
        self, split: Split, count: int, made: Callable[[int], None], *, brief: bool
    ) -> Checked | None:
        """Return the next rows, checked."""
        taken = self._order[self._next : self._next + count]
        self._next += len(taken)
        if not len(taken):
            return None
        bounds = slices(len(taken), self._engine.workers)
        parts = [self._rows.take(taken[start:stop]) for start, stop in bounds]
        checked = self._engine.run(self._check, parts, lambda part: made(len(part[0])), brief=brief)
        rejects = [reject for _, found in checked for reject in found]
        return Candidates.concatenate([candidates for candidates, _ in checked]), rejects


def keyed_order(seed: int, count: int) -> NDArray[np.int64]:
    """Return the keyed order in which the rows of a file are taken."""
    if count <= FEW_ROWS:
        return shuffled(seed, Purpose.SELECT, 0, 0, count)
    from trm_data.seeds import kernels as seeds_kernels

    return seeds_kernels.shuffled(seed, Purpose.SELECT, 0, 0, count)


@dataclass
class _Likely:
    """Progress of candidates as they are made; most will be chosen, so at most `left` are counted."""

    progress: Progress
    left: int
    told: int = 0

    def advance(self, count: int) -> None:
        more = min(count, self.left - self.told)
        self.told += more
        self.progress.advance(more)


class Chooser:
    """Chooses puzzles from streams, and remembers the symmetry classes already taken.

    Args:
        spec: Specification of the dataset.
        progress: Shows the progress of every split.
        bucket: Returns the bucket of each candidate, -1 if it does not fit.
        num_buckets: Number of buckets; every split takes equally many puzzles from each, in turn.
        selective: Whether most candidates may not fit.
        names: Description of each bucket, for messages.
        advice: Further hint for the user if there are too few puzzles.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        progress: Progress,
        *,
        bucket: Callable[[Candidates], NDArray[np.int64]] = lambda found: np.zeros(len(found), np.int64),
        num_buckets: int = 1,
        selective: bool = False,
        names: Sequence[str] = (),
        advice: str = "",
    ) -> None:
        self.sources: list[SourceFile] = []
        self.rejects: list[Reject] = []
        self._spec = spec
        self.progress = progress
        self._bucket = bucket
        self._num_buckets = num_buckets
        self._names, self._advice = names, advice
        self._selective = selective
        self._patience = MISSES_ALLOWED * (10 if selective else 1)
        self._taken: dict[str, int] = {}
        self._holders: dict[str, int] = {}
        self._different: dict[str, int] = {}

    def reject(self, rejects: list[Reject]) -> None:
        """Stop the build at the first bad row, or record all of them, as specified."""
        if rejects and self._spec.on_bad_row == "stop":
            first = min(rejects, key=lambda reject: reject.line)
            has_remedy = "--" in first.reason  # such as the option that reads all rows
            skip = "" if has_remedy else " (--on-bad-row skip skips it)"
            raise BadRowError(first.file, first.line, first.reason + skip)
        self.rejects.extend(rejects)

    def file_stream(
        self,
        source: LocalSource,
        read: tuple[R, list[Reject]],
        check: Callable[[R], Checked],
        engine: Engine,
        fits: NDArray[np.bool_] | None = None,
    ) -> FileStream[R]:
        """Return the stream of a file's rows that fit, bool [N]; record the file and its rejects."""
        rows, rejects = read
        self.reject(rejects)
        count, spec = len(rows) + len(rejects), source.spec
        self.sources.append(SourceFile(spec.name, spec.sha256, count, source.licence))
        order = keyed_order(self._spec.seed, len(rows))
        order = order if fits is None else order[fits[order]]
        return FileStream(spec.name, source.shown, check, rows, order, engine)

    def choose(
        self,
        main: Stream,
        test: Stream,
        make_groups: MakeGroups,
    ) -> Selection:
        """Return the puzzles of every split, in memory.

        Args:
            main: Stream of training and validation puzzles.
            test: Stream of test puzzles; may be `main`.
            make_groups: Makes the groups of a split from its chosen puzzles.
        """
        wanted: dict[Split, tuple[Stream, int | None]] = {
            "train": (main, self._spec.size),
            "validation": (main, self._spec.val_size),
            "test": (test, self._spec.test_size),
        }
        check_total(sum(stream.left or 0 if count is None else count for stream, count in wanted.values()))
        chosen = {
            split: make_groups(split, self._take(*wanted[split], split))
            for split in CHOOSING_ORDER
            if wanted[split][1] != 0
        }
        ordered: dict[Split, Groups] = {split: chosen[split] for split in SPLITS if split in chosen}
        return Selection(ordered, self.sources, self.rejects)

    def _take(self, stream: Stream, count: int | None, split: Split) -> Candidates:
        """Return the next `count` usable puzzles of a stream, or all remaining ones if None."""
        wanted_all = count is None
        if count is None:
            count = stream.left or 0
        quotas = [-(-(count - bucket) // self._num_buckets) for bucket in range(self._num_buckets)]
        chosen: list[list[Candidates]] = [[] for _ in quotas]
        self.progress.start(f"choose {split} puzzles", count, "puzzles")
        brief = is_brief(self._spec, stream.left)
        misses = 0
        while any(quota > 0 for quota in quotas):
            left = sum(quotas)
            wanted = left if stream.ends else max(left, 2 * misses, LEAST_ASKED)
            likely = _Likely(self.progress, 0 if self._selective else left)
            chunk = stream.next_chunk(split, min(wanted, MOST_ASKED), likely.advance, brief=brief)
            if chunk is None and wanted_all:
                break
            if chunk is None or (misses > self._patience and not stream.ends):
                lacking = [self._names[i] for i, quota in enumerate(quotas) if quota > 0 and self._names]
                short = f" (too few of {', '.join(lacking)})" if lacking else ""
                asked = f"{SIZE_OPTIONS[split]} {count}: "
                raise self._too_few(stream, asked, split, count - left, short)
            candidates, rejects = chunk
            self.reject(rejects)
            usable = self._usable(candidates, stream, quotas)
            for bucket, positions in enumerate(usable):
                if positions:
                    chosen[bucket].append(candidates.take(positions))
            found = sum(map(len, usable))
            misses = 0 if found else misses + len(candidates)
            self.progress.advance(found - likely.told)
        if not any(chosen):
            raise self._too_few(stream, "", split, 0)
        return interleaved([Candidates.concatenate(parts) for parts in chosen if parts])

    def _too_few(self, stream: Stream, asked: str, split: Split, found: int, short: str = "") -> SpecError:
        """Return the error for a stream without enough puzzles, with what it has and lacks."""
        said = f"{asked}{stream.shown} has only {found} usable, inequivalent puzzles for the {split} split{short}"
        different = self._different.get(stream.shown, 0)
        if stream.ends:
            rows = sum(source.rows for source in self.sources if source.file == stream.name)
            said += f". It has {different:,} different puzzle{'s' * (different != 1)} in {rows:,} rows"
        if different or not stream.ends:
            said += f"; ask for fewer{self._advice}"
        return SpecError(said + said_of_rejects(self.rejects))

    def _usable(self, chunk: Candidates, stream: Stream, quotas: list[int]) -> list[list[int]]:
        """Return the positions of the first candidates that fit and have a new class, by bucket; reduce the quotas."""
        found: list[list[int]] = [[] for _ in quotas]
        buckets = self._bucket(chunk).tolist()
        holder = self._holders.setdefault(stream.shown, len(self._holders)) << ROW_BITS
        for position, (bucket, row, hash_) in enumerate(
            zip(buckets, chunk.source_rows.tolist(), chunk.hashes.tolist(), strict=True)
        ):
            if bucket < 0 or quotas[bucket] <= 0:
                continue
            if hash_ not in self._taken:
                self._taken[hash_] = holder | row
                self._different[stream.shown] = self._different.get(stream.shown, 0) + 1
                found[bucket].append(position)
                quotas[bucket] -= 1
            elif stream.ends:
                reason = f"equivalent under symmetry to {self._shown(self._taken[hash_])}"
                self.reject([Reject(stream.shown, row, reason)])
        return found

    def _shown(self, holder: int) -> str:
        """Return the location of the puzzle that holds a class."""
        return f"{list(self._holders)[holder >> ROW_BITS]}:{holder & ((1 << ROW_BITS) - 1)}"


def interleaved(buckets: list[Candidates]) -> Candidates:
    """Return the first candidate of every bucket, then the second of every bucket, and so on."""
    if len(buckets) == 1:
        return buckets[0]
    places = np.concatenate([np.arange(len(bucket)) for bucket in buckets])
    numbers = np.concatenate([np.full(len(bucket), i) for i, bucket in enumerate(buckets)])
    return Candidates.concatenate(buckets).take(np.lexsort((numbers, places)))


def chosen_groups(
    chosen: Candidates,
    stream: Stream,
    augmentations: Augmentations,
    facts: Mapping[str, Any],
) -> Groups:
    """Return groups of one example each, keyed by their position in the split, all with the blank identifier.

    Args:
        chosen: The puzzles.
        stream: Their source.
        augmentations: Augmentations of each puzzle.
        facts: Columns of the catalog.
    """
    count = len(chosen)
    return Groups(
        inputs=chosen.inputs,
        labels=chosen.labels,
        first_examples=np.arange(count + 1, dtype=np.int64),
        augmentations=augmentations,
        keys=np.arange(count, dtype=np.int64),
        first_identifiers=np.zeros(count, np.int32),
        canonical_hashes=chosen.hashes.tolist(),
        source_files=[stream.name] * count,
        source_rows=chosen.source_rows,
        facts=dict(facts),
    )
