"""The interface of a kind of puzzle, used by building, verifying, loading and showing.

A kind chooses base puzzles (`select`), says which augmenter makes rows of them, and checks them. All bookkeeping
(shards, identifiers, digests, re-deriving rows) is the same for every kind. docs/own-puzzles.md shows how to add one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.engine.base import Engine
from trm_data.records import Groups, Reject, Selection
from trm_data.show.drawing import Drawing
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource, SourceRef, Sources
from trm_data.specs import DatasetSpec, Options, Split
from trm_data.symmetry.base import Augmenter

PROBLEMS_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Shapes and sizes that a dataset of some specification has.

    Attributes:
        grid_rows: Rows of the grid as it is drawn.
        grid_columns: Columns of the grid as it is drawn.
        vocabulary_size: Tokens, PAD included.
        identifier_each: Whether every augmentation has a puzzle identifier of its own, or all share the blank one.
    """

    grid_rows: int
    grid_columns: int
    vocabulary_size: int
    identifier_each: bool = False

    @property
    def sequence_length(self) -> int:
        """Cells S of a row."""
        return self.grid_rows * self.grid_columns


@dataclass(frozen=True)
class BasePuzzles:
    """Base puzzles as `verify` recovered them from a shard: G whole groups of E examples.

    Attributes:
        inputs: Tokens, uint8 [E, S].
        labels: Tokens, uint8 [E, S].
        first_examples: Where each group's examples begin, int64 [G + 1].
        first_group: Number of the first group in its split.
        facts: Columns of the catalog's table `puzzles` for these groups.
    """

    inputs: NDArray[np.uint8]
    labels: NDArray[np.uint8]
    first_examples: NDArray[np.int64]
    first_group: int
    facts: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class CheckedPuzzles:
    """What a kind found when it checked base puzzles.

    Attributes:
        problems: One line for each thing that is wrong.
        canonical_hashes: Of each group, for comparison with the catalog.
        classes: Where each thing is that must not be in two splits, and its hash.
        counts: What else was counted, by what.
    """

    problems: list[str]
    canonical_hashes: list[str] = field(default_factory=list[str])
    classes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    counts: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class Comparison:
    """What the splits of a dataset share.

    Attributes:
        problems: What they must not share.
        notes: Known duplicates of published sets, by name.
    """

    problems: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What building a specification takes, about; from figures measured in docs/benchmarks.md.

    Attributes:
        examples: Rows of each split.
        stored_examples: Rows that are written, of all splits.
        stored_share: Bytes on disk for each byte of cells.
        cell_bytes_per_s: Bytes of cells that a core writes in a second.
        choosing_s: Seconds of one core for making the puzzles, where they are generated.
        at_least: It may take much longer: how many puzzles must be made for those that are wanted is not known.
    """

    examples: Mapping[Split, float]
    stored_examples: float
    stored_share: float
    cell_bytes_per_s: float
    choosing_s: float
    at_least: bool = False


@dataclass(frozen=True)
class Answer:
    """What a solver finds out about a puzzle.

    Attributes:
        count: Answers it has: 0, 1, or 2 for several; None where the kind has no solver.
        tokens: One of them as the label of a row, uint8 [S]; None without.
    """

    count: int | None = None
    tokens: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class Scores:
    """What a kind says of N predictions beside their equality with the labels; None for a notion that it has not.

    Attributes:
        given_kept: What the puzzle gives (clues, walls) is unchanged, bool [N].
        valid: The prediction is an answer to the puzzle by its rules, the label or another, bool [N].
        optimal: It is valid, and as good as the label where answers differ in that, bool [N].
    """

    given_kept: NDArray[np.bool_] | None = None
    valid: NDArray[np.bool_] | None = None
    optimal: NDArray[np.bool_] | None = None


class Kind(ABC):
    """One kind of puzzle. Methods that are not abstract have a default that suits most kinds."""

    name: str
    about: str = ""
    """What the puzzles are, in a sentence for the dataset's card; empty if the name says enough."""
    citation: str = ""
    """What to cite where they are not generated; empty if there is nothing."""
    derives_rows: bool = True
    """Whether rows are made from base puzzles, so that `verify` can make them again."""
    splits_may_share_rows: bool = False
    """Whether equal rows in two splits are known of the published sets, so that `verify` only notes them."""
    voted: bool = False
    """Whether the augmentations of a test input vote on its answer (`trm_eval.votes`); its rows are like ARC's then."""
    stored_share: float = 0.54
    """Bytes on disk for each byte of cells, for estimates."""
    cell_bytes_per_s: float = 70e6
    """Bytes of cells that a core writes in a second, for estimates."""
    generated_per_s: float = 1000.0
    """Puzzles that a core generates in a second, for estimates."""

    @abstractmethod
    def check_spec(self, spec: DatasetSpec) -> None:
        """Refuse a specification that cannot be built, before puzzles are chosen.

        Raises:
            SpecError: Which option, what it got, what is allowed.
        """
        raise NotImplementedError

    @abstractmethod
    def geometry(self, spec: DatasetSpec) -> Geometry:
        """Shapes and sizes."""
        raise NotImplementedError

    def open_sources(
        self, source: SourceRef, test_source: SourceRef | None, options: Options
    ) -> AbstractContextManager[Sources]:
        """Make the sources readable here, for as long as the context lasts. Default: files, local or remote.

        Raises:
            SourceError: One does not exist or cannot be fetched.
        """
        from trm_data.sources.base import open_sources

        return open_sources(source, test_source)

    @abstractmethod
    def select(
        self, spec: DatasetSpec, sources: Sources, *, engine: Engine, progress: Progress, cache: Path
    ) -> Selection:
        """Choose the puzzles of every split: valid, and disjoint under the symmetries of the kind.

        ARC is the exception: its published sets share a few pairs, which `compare_splits` names.

        Args:
            spec: What is built.
            sources: Source of the puzzles.
            engine: Runs the tasks.
            progress: Told of every step.
            cache: Folder of this machine for what takes long to make and may be needed again (`kinds.cached`).

        Raises:
            BadRowError: A row is no valid puzzle, and the specification says to stop.
            SpecError: The source has fewer puzzles than asked for.
        """
        raise NotImplementedError

    @abstractmethod
    def augmenter(self, spec: DatasetSpec, split: Split, groups: Groups) -> Augmenter:
        """What makes rows of these groups. The same specification and groups give the same rows anywhere."""
        raise NotImplementedError

    def elements(
        self, spec: DatasetSpec, groups: Groups, rows: NDArray[np.int64], ks: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Index of the symmetry that the `ks[n]`-th augmentation of group `rows[n]` is, int64 [N].

        Default: k numbers the symmetries itself.
        """
        return ks

    def element_columns(self, elements: NDArray[np.int64]) -> dict[str, Any]:
        """What the catalog's table `augmentations` says of symmetry elements beside their index.

        Default: the index says it all.
        """
        return {}

    def recover(
        self,
        spec: DatasetSpec,
        inputs: NDArray[np.uint8],
        labels: NDArray[np.uint8],
        offsets: NDArray[np.uint8] | None,
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The base examples from stored rows of originals (k = 0); undoes their translation, where there is one.

        Default: an original is its base puzzle.
        """
        return inputs, labels

    def settle(
        self, inputs: NDArray[np.uint8], labels: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The base examples from originals that were made elsewhere: undoes a translation that nobody wrote down.

        Default: nothing is translated.
        """
        return inputs, labels

    def facts(
        self, spec: DatasetSpec, inputs: NDArray[np.uint8], labels: NDArray[np.uint8]
    ) -> Mapping[str, Sequence[Any] | NDArray[Any]]:
        """Columns of the catalog's table `puzzles` for base puzzles of one example each, tokens uint8 [G, S].

        Default: nothing is known of a puzzle beside its cells.

        The rows may be no puzzles at all: `check_puzzles` says so afterwards.
        """
        return {}

    @abstractmethod
    def check_puzzles(self, spec: DatasetSpec, split: Split, puzzles: BasePuzzles) -> CheckedPuzzles:
        """Check base puzzles by the rules of the kind, without trusting the build."""
        raise NotImplementedError

    def compare_splits(self, spec: DatasetSpec, classes: Mapping[Split, list[tuple[str, str]]]) -> Comparison:
        """What the splits share, from the `classes` of all their puzzles (where it is, hash).

        Default: no class is anywhere twice.
        """
        seen: dict[str, str] = {}
        problems = [
            f"{where}: is equivalent under symmetry to {seen[hash_]}"
            for found in classes.values()
            for where, hash_ in found
            if seen.setdefault(hash_, where) != where
        ]
        return Comparison(problems)

    @abstractmethod
    def draw(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> Drawing:
        """A row as a drawing, for the terminal and for pictures."""
        raise NotImplementedError

    def parse(self, text: str, spec: DatasetSpec) -> NDArray[np.uint8]:
        """Tokens [S] of a puzzle as a person types it. Default: nobody types such puzzles.

        Raises:
            ValueError: The text is no such puzzle; says where and what is allowed.
        """
        raise ValueError(
            f"puzzles of the kind {spec.kind} have no form in text; name a row of a dataset: --row N"
        )

    def read_file(
        self, source: LocalSource, spec: DatasetSpec
    ) -> tuple[NDArray[np.uint8], list[Reject]] | None:
        """Tokens [N, S] of the puzzles of a file, and what is wrong with others; None where `parse` reads one by one.

        Default: texts are parsed one by one.

        Raises:
            SourceError: The file has no form that is read.
        """
        return None

    def answer(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> Answer:
        """What a solver finds out about a puzzle [S]. Default: there is no solver."""
        return Answer()

    def score(
        self,
        spec: DatasetSpec,
        inputs: NDArray[np.uint8],
        labels: NDArray[np.uint8],
        predictions: NDArray[np.uint8],
    ) -> Scores:
        """Judge predictions by the rules of the kind; all three are tokens, uint8 [N, S].

        Default: nothing is known of an answer but whether it is the label.

        Predictions are whatever a network says: any token of the vocabulary anywhere.
        """
        return Scores()

    def has_several_answers(self, spec: DatasetSpec) -> bool:
        """Whether a puzzle may have several right answers, of which the label is one. Default: it has one."""
        return False

    def satisfies(
        self, spec: DatasetSpec, inputs: NDArray[np.uint8], predictions: NDArray[np.uint8]
    ) -> NDArray[np.bool_] | None:
        """Whether predictions answer their puzzles by the rules alone, without a label, bool [N]; tokens uint8 [N, S].

        Default: None, there are no rules but the label.
        """
        return None

    def cost(self, spec: DatasetSpec) -> Cost:
        """What a build would take; sources may have placeholders for digests and names.

        Default: of base puzzles with one example each, all training puzzles with as many augmentations.
        """
        puzzles: dict[Split, int] = {
            "train": spec.size or 0,
            "validation": spec.val_size,
            "test": spec.test_size or 0,
        }
        examples: dict[Split, int] = {**puzzles, "train": puzzles["train"] * (spec.aug + 1)}
        generated = sum(puzzles.values()) if spec.source.kind == "generated" else 0
        return Cost(
            examples=examples,
            stored_examples=sum((puzzles if spec.augment == "virtual" else examples).values()),
            stored_share=self.stored_share,
            cell_bytes_per_s=self.cell_bytes_per_s,
            choosing_s=generated / self.generated_per_s,
        )

    def identifier_names(
        self, groups: Groups, facts: Mapping[str, Sequence[Any]], elements: NDArray[np.int64], count: int
    ) -> list[str]:
        """Name of every puzzle identifier in the published layout; empty where there are no names.

        Default: identifiers are numbers only.

        Args:
            groups: Groups of the training split, without their cells.
            facts: The other columns of the catalog's table `puzzles`.
            elements: Symmetry of each augmentation of each group.
            count: Identifiers of the dataset.
        """
        return []

    def test_puzzles(
        self, facts: Mapping[str, Sequence[Any]], originals: Iterator[tuple[NDArray[Any], NDArray[Any]]]
    ) -> dict[str, Any]:
        """Content of the published layout's test_puzzles.json; empty where it has none.

        Default: the published layout has no such file for this kind.

        Args:
            facts: Columns of the catalog's table `puzzles` for the test split.
            originals: Inputs and labels [E, S] of the examples of each group, read when they are asked for.
        """
        return {}


def named_problems(split: str, what: str, positions: NDArray[np.int64], problem: str) -> list[str]:
    """A line for each of the first few, and one for how many more there are."""
    lines = [f"{split} {what} {position}: {problem}" for position in positions[:PROBLEMS_SHOWN].tolist()]
    if len(positions) > PROBLEMS_SHOWN:
        lines.append(f"{split}: {len(positions) - PROBLEMS_SHOWN:,} more {what}s: {problem.split(' ', 1)[1]}")
    return lines
