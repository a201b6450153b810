"""The interface of a kind of puzzle, used by building, verifying, loading and showing.

A kind chooses base puzzles (`select`), provides the augmenter that makes their rows, and checks them. Everything else
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

from trm_data.engine import Engine
from trm_data.errors import SpecError
from trm_data.records import Groups, Reject, Rows, Selection
from trm_data.show.drawing import Drawing
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource, SourceRef, Sources
from trm_data.specs import DatasetSpec, Options, Split
from trm_data.symmetry.base import Augmenter

PROBLEMS_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Shapes and sizes of the datasets of a specification.

    Attributes:
        grid_rows: Rows of the drawn grid.
        grid_columns: Columns of the drawn grid.
        vocabulary_size: Number of tokens, PAD included.
        identifier_each: Whether every augmentation has its own puzzle identifier, or all share the blank one.
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
    """Base puzzles that `verify` recovered from a shard: G complete groups with E examples in all.

    Attributes:
        inputs: Tokens, uint8 [E, S].
        labels: Tokens, uint8 [E, S].
        first_examples: First example of each group, and E, int64 [G + 1].
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
    """Result of a kind's check of base puzzles.

    Attributes:
        problems: One line for each problem.
        canonical_hashes: Canonical hash of each group, for comparison with the catalog.
        classes: Location and hash of each item that must not be in two splits.
        counts: Other counts, by type.
    """

    problems: list[str]
    canonical_hashes: list[str] = field(default_factory=list[str])
    classes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    counts: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class Comparison:
    """Comparison of the splits of a dataset.

    Attributes:
        problems: Items that they must not share.
        notes: Known duplicates of published sets, by name.
    """

    problems: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Answer:
    """Result of a solver for a puzzle.

    Attributes:
        count: Number of answers: 0, 1, or 2 for several; None if the kind has no solver.
        tokens: One of the answers as the label of a row, uint8 [S]; None if there is none.
    """

    count: int | None = None
    tokens: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class Scores:
    """Scores of N predictions by the rules of a kind; None if the kind does not define that measure.

    Attributes:
        given_kept: Whether the given cells (clues, walls) are unchanged, bool [N].
        valid: Whether the prediction is an answer by the rules, equal to the label or not, bool [N].
        optimal: Whether it is valid and as good as the label, if answers differ in quality, bool [N].
    """

    given_kept: NDArray[np.bool_] | None = None
    valid: NDArray[np.bool_] | None = None
    optimal: NDArray[np.bool_] | None = None


class Kind(ABC):
    """One kind of puzzle. Methods that are not abstract have a default for most kinds."""

    name: str
    about: str = ""
    """One-sentence description of the puzzles for the dataset's card; empty if the name says enough."""
    citation: str = ""
    """Citation for puzzles that are not generated; empty if there is none."""
    derives_rows: bool = True
    """Whether rows are derived from base puzzles, so that `verify` can derive them again."""
    splits_may_share_rows: bool = False
    """Whether splits of the published sets are known to share rows; `verify` then reports them only as notes."""
    voted: bool = False
    """Whether the augmentations of a test input vote on its answer (`trm_eval.votes`); rows are then like those of
    ARC."""
    stored_share: float = 0.54
    """Bytes on disk per byte of cells, for estimates."""

    @abstractmethod
    def check_spec(self, spec: DatasetSpec) -> None:
        """Check that a specification can be built, before puzzles are chosen.

        Raises:
            SpecError: Names the option, its value and the allowed values.
        """
        raise NotImplementedError

    @abstractmethod
    def geometry(self, spec: DatasetSpec) -> Geometry:
        """Return shapes and sizes."""
        raise NotImplementedError

    def open_sources(
        self, source: SourceRef, test_source: SourceRef | None, options: Options
    ) -> AbstractContextManager[Sources]:
        """Make the sources readable on this machine within the context. Default: files, local or remote.

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
            spec: Specification of the dataset.
            sources: Source of the puzzles.
            engine: Runs the tasks.
            progress: Shows the progress of every stage.
            cache: This machine's cache folder for slow results that may be reused.

        Raises:
            BadRowError: A row is not a valid puzzle, and the specification says to stop.
            SpecError: The source has fewer puzzles than requested.
        """
        raise NotImplementedError

    @abstractmethod
    def augmenter(self, spec: DatasetSpec, split: Split, groups: Groups) -> Augmenter:
        """Return the augmenter of these groups. The same specification and groups give the same rows everywhere."""
        raise NotImplementedError

    def elements(
        self, spec: DatasetSpec, groups: Groups, rows: NDArray[np.int64], ks: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the symmetry index of the `ks[n]`-th augmentation of group `rows[n]`, int64 [N].

        Default: k itself is the index.
        """
        return ks

    def element_columns(self, elements: NDArray[np.int64]) -> dict[str, Any]:
        """Return extra columns of the catalog's table `augmentations` for symmetry elements.

        Default: no columns besides the index.
        """
        return {}

    def recover(
        self,
        spec: DatasetSpec,
        inputs: NDArray[np.uint8],
        labels: NDArray[np.uint8],
        offsets: NDArray[np.uint8] | None,
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the base examples from stored rows of originals (k = 0), without their translation, if there is one.

        Default: an original equals its base puzzle.
        """
        return inputs, labels

    def undo_unrecorded_translation(
        self, inputs: NDArray[np.uint8], labels: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the base examples from imported originals, without translations of unknown offset.

        Default: no translation.
        """
        return inputs, labels

    def facts(
        self, spec: DatasetSpec, inputs: NDArray[np.uint8], labels: NDArray[np.uint8]
    ) -> Mapping[str, Sequence[Any] | NDArray[Any]]:
        """Return columns of the catalog's table `puzzles` for single-example base puzzles, tokens uint8 [G, S].

        Default: no columns.

        The rows may be invalid puzzles: `check_puzzles` reports that afterwards.
        """
        return {}

    @abstractmethod
    def check_puzzles(self, spec: DatasetSpec, split: Split, puzzles: BasePuzzles) -> CheckedPuzzles:
        """Check base puzzles by the rules of the kind, without trusting the build."""
        raise NotImplementedError

    def check_augmentations(self, spec: DatasetSpec, split: Split, rows: Rows) -> list[str]:
        """Check the augmentations of rows that are not derived again, of whole groups; return the problems.

        Default: none, because rows are derived from checked base puzzles.
        """
        return []

    def compare_splits(self, spec: DatasetSpec, classes: Mapping[Split, list[tuple[str, str]]]) -> Comparison:
        """Return what the splits share, from the `classes` (location, hash) of all their puzzles.

        Default: every class that occurs twice is a problem.
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
        """Return a row as a drawing, for the terminal and for pictures."""
        raise NotImplementedError

    def parse(self, text: str, spec: DatasetSpec) -> NDArray[np.uint8]:
        """Parse a puzzle in text form to tokens [S]. Default: the kind has no text form.

        Raises:
            ValueError: The text is not such a puzzle; names the place and the allowed form.
        """
        raise ValueError(
            f"puzzles of the kind {spec.kind} have no form in text; name a row of a dataset: --row N"
        )

    def read_file(
        self, source: LocalSource, spec: DatasetSpec
    ) -> tuple[NDArray[np.uint8], list[Reject]] | None:
        """Return tokens [N, S] of the puzzles of a file and the rejected rows; None to use `parse` for each puzzle.

        Default: None.

        Raises:
            SourceError: The file has no supported format.
        """
        return None

    def answer(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> Answer:
        """Solve a puzzle [S]. Default: no solver."""
        return Answer()

    def score(
        self,
        spec: DatasetSpec,
        inputs: NDArray[np.uint8],
        labels: NDArray[np.uint8],
        predictions: NDArray[np.uint8],
    ) -> Scores:
        """Score predictions by the rules of the kind; all three are tokens, uint8 [N, S].

        Default: no measures besides equality with the label.

        Predictions are raw network output: any token of the vocabulary in any cell.
        """
        return Scores()

    def has_several_answers(self, spec: DatasetSpec) -> bool:
        """Return whether a puzzle may have several right answers, of which the label is one. Default: no."""
        return False

    def satisfies(
        self, spec: DatasetSpec, inputs: NDArray[np.uint8], predictions: NDArray[np.uint8]
    ) -> NDArray[np.bool_] | None:
        """Return whether predictions are answers by the rules alone, without labels, bool [N]; tokens uint8 [N, S].

        Default: None, no rules.
        """
        return None

    def expected_rows(self, spec: DatasetSpec) -> Mapping[str, float]:
        """Return the approximate rows of each split; sources may have placeholders.

        Default: base puzzles with one example each, and the same number of augmentations for all training puzzles.
        """
        train = (spec.size or 0) * (spec.aug + 1)
        return {"train": train, "validation": spec.val_size, "test": spec.test_size or 0}

    def identifier_names(
        self, groups: Groups, facts: Mapping[str, Sequence[Any]], elements: NDArray[np.int64], count: int
    ) -> list[str]:
        """Return the name of every puzzle identifier in the published layout; empty if there are no names.

        Default: no names.

        Args:
            groups: Groups of the training split, without cells.
            facts: The other columns of the catalog's table `puzzles`.
            elements: Symmetry of each augmentation of each group.
            count: Number of identifiers of the dataset.
        """
        return []

    def test_puzzles(
        self, facts: Mapping[str, Sequence[Any]], originals: Iterator[tuple[NDArray[Any], NDArray[Any]]]
    ) -> dict[str, Any]:
        """Return the content of the published layout's test_puzzles.json; empty if the layout has none.

        Default: empty.

        Args:
            facts: Columns of the catalog's table `puzzles` for the test split.
            originals: Inputs and labels [E, S] of the examples of each group, read lazily.
        """
        return {}


def named_problems(split: str, what: str, positions: NDArray[np.int64], problem: str) -> list[str]:
    """Return a line for each of the first positions, and one with the number of further ones."""
    lines = [f"{split} {what} {position}: {problem}" for position in positions[:PROBLEMS_SHOWN].tolist()]
    if len(positions) > PROBLEMS_SHOWN:
        lines.append(f"{split}: {len(positions) - PROBLEMS_SHOWN:,} more {what}s: {problem.split(' ', 1)[1]}")
    return lines


MOST_PUZZLES = 5_000_000
"""Maximum number of base puzzles of a dataset: choosing them takes 4.4 GB of memory (9x9, measured; docs/scale.md)."""
BRIEF_ROWS = 50_000
"""Number of rows that are made in about the time that workers take to start."""


def is_brief(spec: DatasetSpec, left: int | None) -> bool:
    """Return whether a dataset is so small that no worker is started for it.

    Args:
        spec: A specification.
        left: Maximum number of puzzles of its source; None if it has no end.
    """
    counts = [left if count is None else count for count in (spec.size, spec.val_size, spec.test_size)]
    each = 1 if spec.augment == "virtual" else spec.aug + 1
    train, *held_out = (BRIEF_ROWS + 1 if count is None else count for count in counts)
    return train * each + sum(held_out) <= BRIEF_ROWS


def check_total(count: int) -> None:
    """Raise SpecError for more base puzzles than a build holds in memory.

    Args:
        count: Number of base puzzles of all splits.
    """
    if count > MOST_PUZZLES:
        raise SpecError(
            f"--size, --val-size, --test-size: {count:,} base puzzles; at most {MOST_PUZZLES:,}, for which choosing "
            "takes 4.4 GB of memory. Build several datasets with different --seed and mix them (docs/scale.md)"
        )


def check_sizes(spec: DatasetSpec, most_augmentations: int, what: str) -> None:
    """Raise SpecError for invalid sizes, augmentations and seeds.

    Args:
        spec: A specification.
        most_augmentations: Number of augmentations of a puzzle besides the original.
        what: Description of these puzzles, for the message.
    """
    if spec.size is not None and spec.size < 1:
        raise SpecError(f"--size {spec.size}: expected at least 1")
    for option, value in (("aug", spec.aug), ("val-size", spec.val_size), ("test-size", spec.test_size)):
        if value is not None and value < 0:
            raise SpecError(f"--{option} {value}: at least 0")
    check_total((spec.size or 0) + (spec.val_size or 0) + (spec.test_size or 0))
    if spec.aug > most_augmentations:
        raise SpecError(f"--aug {spec.aug}: {what} has {most_augmentations:,} besides the original")
    if not 0 <= spec.seed < 2**63:
        raise SpecError(f"--seed {spec.seed}: expected 0 to 2^63 - 1")
