"""Choose the puzzles of each split from streams of candidates, never two of one symmetry class.

Test puzzles are chosen first, then validation, then training. So nothing that is trained on is equivalent to
anything held out, and for the same held-out sizes a smaller training set is the beginning of a larger one.

Candidates come from a generator (each split has a stream of its own) or from a file (brought into a keyed
order once; the splits that read it take from it one after the other). Which puzzles are chosen depends on
neither the engine nor the size of chunks. ARC tasks are chosen in `kinds.arc.choose`.
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

from trm_data.engine.base import Engine, slices
from trm_data.errors import BadRowError, SpecError
from trm_data.kinds.candidates import BLOCK_CANDIDATES, Candidates, cached_block
from trm_data.kinds.sizes import check_total, is_brief
from trm_data.records import (
    Augmentations,
    Groups,
    Reject,
    Selection,
    SourceFile,
    single_examples,
)
from trm_data.seeds.draws import Purpose, shuffled
from trm_data.show.progress import Progress
from trm_data.sources.rows import SourceRows
from trm_data.specs import SPLITS, DatasetSpec, Split

CHOOSING_ORDER: tuple[Split, ...] = ("test", "validation", "train")
SIZE_OPTIONS: dict[Split, str] = {"train": "--size", "validation": "--val-size", "test": "--test-size"}
STREAMS: dict[Split, int] = {"train": 0, "validation": 1, "test": 2}
FEW_ROWS = 20_000
"""Python sorts up to this many rows in less time than the kernel takes to load."""


ROW_BITS = 48
"""Of a holder's number; above them is which stream its row is of."""


LEAST_ASKED, MOST_ASKED = 64, 4_096
"""Candidates that a choice asks a generator for at a time."""
MISSES_ALLOWED = 20_000
"""Generated puzzles in a row that may be unusable before a build gives up; ten times as many where only some are
wanted."""
MOST_REASONS = 5
"""Of rejected rows that a failing build names."""
_TASK = re.compile(r"^(line \d+, )?task [^\s,:]+[,:] ")
_NUMBERS = re.compile(r"\S+:\d+|\d[\d,]*")


def shares_of(count: int, wanted: Mapping[Split, int | None]) -> dict[Split, int] | None:
    """Sizes of the splits that some puzzles suffice for, in the proportions that were wanted; None if there are none.

    Args:
        count: Different puzzles.
        wanted: Sizes; None is all that are left.
    """
    splits: list[Split] = [split for split in SIZE_OPTIONS if wanted.get(split, 0) != 0]
    total = sum(max(count, 1) if wanted[split] is None else wanted[split] or 0 for split in splits)
    sizes: dict[Split, int] = {
        split: max(1, (count if wanted[split] is None else wanted[split] or 0) * count // max(total, 1))
        for split in splits
    }
    largest = max(splits, key=lambda split: sizes[split])
    sizes[largest] += count - sum(sizes.values())
    return sizes if sizes[largest] >= 1 else None


def said_of_rejects(rejects: Sequence[Reject], noun: str = "row") -> str:
    """How many rows were left out, by reason; nothing if there are none."""
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
"""Groups of the chosen puzzles of a split."""


R = TypeVar("R", bound=SourceRows)


class Stream(Protocol):
    """Candidates in an order of their own."""

    name: str
    """What the catalog says they come from."""
    shown: str
    """What messages say."""
    ends: bool
    """Whether it runs out, so that it is never asked for more than is wanted."""

    @property
    def left(self) -> int | None:
        """Candidates that it still has at most; None where it has no end."""
        ...

    def next_chunk(
        self, split: Split, count: int, made: Callable[[int], None], *, brief: bool
    ) -> Checked | None:
        """About `count` valid candidates and the rows that are none; None when there are no more.

        Of a stream that ends at most `count`. `made` is told how many more there are, as they come. `brief`: as for
        `Engine.run`, if the stream is not slow.
        """
        ...


class TooFewError(SpecError):
    """A stream has fewer usable puzzles than were asked for.

    Args:
        text: The message.
        stream: Which.
        found: Puzzles that may be asked for of this split instead; 0 where that is not known.
        split: Which split.
    """

    def __init__(self, text: str, stream: Stream, found: int = 0, split: Split = "train") -> None:
        super().__init__(text)
        self.stream, self.found = stream, found
        self.split: Split = split


class GeneratedStream:
    """Candidates from a generator. Puzzle i of a stream depends on the seed, the stream and i alone.

    Args:
        make: `make(stream, (start, stop))` makes the puzzles of these numbers; picklable.
        engine: Runs it.
        smallest: Puzzles of one task at least.
        cache: Folder for the candidates of a generator that is slow; None where they are made again.
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
        """The next puzzles of the split's stream; of a slow generator, whole blocks."""
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
        name: What the catalog says.
        shown: What messages say.
        check: `check(rows)` looks at some of the rows; picklable.
        rows: Those of the file.
        order: Positions of the rows that may be taken, in order.
        engine: Runs it.
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
        """Rows that were not taken yet."""
        return len(self._order) - self._next

    def next_chunk(
        self, split: Split, count: int, made: Callable[[int], None], *, brief: bool
    ) -> Checked | None:
        """The next rows, checked."""
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
    """The order in which the rows of a file are taken."""
    if count <= FEW_ROWS:
        return shuffled(seed, Purpose.SELECT, 0, 0, count)
    from trm_data.seeds import kernels as seeds_kernels

    return seeds_kernels.shuffled(seed, Purpose.SELECT, 0, 0, count)


def one_bucket(candidates: Candidates) -> NDArray[np.int64]:
    """Every candidate fits, in the one bucket there is."""
    return np.zeros(len(candidates), np.int64)


@dataclass
class _Likely:
    """Progress that is told of candidates as they are made; most of them will be chosen, at most `left`."""

    progress: Progress
    left: int
    told: int = 0

    def advance(self, count: int) -> None:
        more = min(count, self.left - self.told)
        self.told += more
        self.progress.advance(more)


class Chooser:
    """A choice of puzzles from streams, which remembers the symmetry classes that are taken.

    Args:
        spec: What is built.
        progress: Told of every split.
        bucket: For each candidate the bucket it belongs to, -1 where it does not fit.
        num_buckets: Every split takes as many puzzles from each bucket, in turn.
        selective: Whether most candidates may not fit.
        names: What each bucket holds, for messages.
        advice: What else a user can do where there are too few.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        progress: Progress,
        *,
        bucket: Callable[[Candidates], NDArray[np.int64]] = one_bucket,
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
        """Stop the build at the first bad row, or note them all, as the specification says."""
        if rejects and self._spec.on_bad_row == "stop":
            first = min(rejects, key=lambda reject: reject.line)
            raise BadRowError(first.file, first.line, f"{first.reason} (--on-bad-row skip skips it)")
        self.rejects.extend(rejects)

    def choose(
        self,
        main: Stream,
        test: Stream,
        make_groups: MakeGroups,
    ) -> Selection:
        """The puzzles of every split, in memory.

        Args:
            main: Where training and validation puzzles come from.
            test: Where test puzzles come from; it may be `main`.
            make_groups: Makes the groups of a split from what was chosen for it.
        """
        wanted: dict[Split, tuple[Stream, int | None]] = {
            "train": (main, self._spec.size),
            "validation": (main, self._spec.val_size),
            "test": (test, self._spec.test_size),
        }
        check_total(sum(stream.left or 0 if count is None else count for stream, count in wanted.values()))
        try:
            chosen = {
                split: make_groups(split, self._take(*wanted[split], split))
                for split in CHOOSING_ORDER
                if wanted[split][1] != 0
            }
        except TooFewError as error:
            of: dict[Split, int | None] = {
                split: count for split, (stream, count) in wanted.items() if stream is error.stream
            }
            raise SpecError(
                f"{error}{self._enough(error, of)}{self._advice}{said_of_rejects(self.rejects)}"
            ) from None
        ordered: dict[Split, Groups] = {split: chosen[split] for split in SPLITS if split in chosen}
        return Selection(ordered, self.sources, self.rejects)

    def _take(self, stream: Stream, count: int | None, split: Split) -> Candidates:
        """The next `count` usable puzzles of a stream, all that are left if None."""
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
            asked = left if stream.ends else max(left, 2 * misses, LEAST_ASKED)
            likely = _Likely(self.progress, 0 if self._selective else left)
            chunk = stream.next_chunk(split, min(asked, MOST_ASKED), likely.advance, brief=brief)
            if chunk is None and wanted_all:
                break
            if chunk is None or (misses > self._patience and not stream.ends):
                raise self._too_few(stream, split, count, quotas)
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
            raise TooFewError(f"{stream.shown} has too few usable puzzles for the {split} split", stream)
        return interleaved([Candidates.concatenate(parts) for parts in chosen if parts])

    def _too_few(self, stream: Stream, split: Split, count: int, quotas: list[int]) -> TooFewError:
        found = count - sum(quotas)
        hint = ""
        if len(quotas) > 1:
            short = ", ".join(self._names[i] for i, quota in enumerate(quotas) if quota > 0)
            hint = f" (too few of {short})"
        return TooFewError(
            f"{SIZE_OPTIONS[split]} {count}: {stream.shown} has only {found} usable, inequivalent "
            f"puzzles for the {split} split{hint}",
            stream,
            found if not stream.ends and len(quotas) == 1 else 0,
            split,
        )

    def _enough(self, error: TooFewError, wanted: Mapping[Split, int | None]) -> str:
        """How many different puzzles a stream that has ended has, and sizes that are possible."""
        stream = error.stream
        if not stream.ends:
            return f"; ask for fewer{f' ({SIZE_OPTIONS[error.split]} {error.found})' if error.found else ''}"
        different = self._different.get(stream.shown, 0)
        rows = sum(source.rows for source in self.sources if source.file == stream.name)
        counted = f". It has {different:,} different puzzle{'s' * (different != 1)} in {rows:,} rows"
        sizes = shares_of(different, wanted)
        if not different:
            return counted
        if self._num_buckets > 1 or sizes is None:
            return f"{counted}; ask for fewer"
        options = " ".join(
            f"{option} {sizes[split]}" for split, option in SIZE_OPTIONS.items() if split in sizes
        )
        return f"{counted}; for example {options}"

    def _usable(self, chunk: Candidates, stream: Stream, quotas: list[int]) -> list[list[int]]:
        """Positions of the first candidates that fit and whose class is new, by bucket; lowers the quotas."""
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
        """Where the holder of a class is."""
        return f"{list(self._holders)[holder >> ROW_BITS]}:{holder & ((1 << ROW_BITS) - 1)}"


def interleaved(buckets: list[Candidates]) -> Candidates:
    """The first of every bucket, then the second of every bucket, and so on."""
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
    """Groups of one example each, keyed by their place in the split, all with the blank identifier.

    Args:
        chosen: The puzzles.
        stream: Where they come from.
        augmentations: Of each.
        facts: Columns of the catalog.
    """
    count = len(chosen)
    return Groups(
        inputs=chosen.inputs,
        labels=chosen.labels,
        first_examples=single_examples(count),
        augmentations=augmentations,
        keys=np.arange(count, dtype=np.int64),
        first_identifiers=np.zeros(count, np.int32),
        canonical_hashes=chosen.hashes.tolist(),
        source_files=[stream.name] * count,
        source_rows=chosen.source_rows,
        facts=dict(facts),
    )
