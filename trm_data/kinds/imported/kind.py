"""The kind of rows that were made elsewhere and imported: stored as they are, nothing is derived again."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trm_data.augment.base import Augmenter, Unchanged
from trm_data.engine.base import Engine
from trm_data.errors import SpecError
from trm_data.kinds.base import (
    BasePuzzles,
    CheckedPuzzles,
    Comparison,
    Geometry,
    KindDefaults,
    named_problems,
)
from trm_data.kinds.imported.options import NAME, ImportedOptions
from trm_data.kinds.table.kind import PALETTE, SYMBOLS
from trm_data.records import Augmentations, Groups, Rows, Selection
from trm_data.show.drawing import Drawing
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource, SourceRef, Sources
from trm_data.sources.published import ImportedRows, read_imported
from trm_data.specs import SPLITS, DatasetSpec, Options, SourceSpec, Split, canonical_json


def _options(spec: DatasetSpec) -> ImportedOptions:
    assert isinstance(spec.options, ImportedOptions)
    return spec.options


class ImportedKind(KindDefaults):
    """Imported rows."""

    name = NAME
    about = "Rows that were made elsewhere and imported as they are."
    derives_rows = False

    def check_spec(self, spec: DatasetSpec) -> None:
        """Imported rows are stored as they are."""
        if spec.augment == "virtual" or spec.aug:
            raise SpecError("imported rows cannot be augmented: build the dataset instead")

    def geometry(self, spec: DatasetSpec) -> Geometry:
        """As the folder says."""
        options = _options(spec)
        return Geometry(
            grid_rows=options.rows, grid_columns=options.columns, vocabulary_size=options.vocabulary_size
        )

    def open_sources(
        self, source: SourceRef, test_source: SourceRef | None, options: Options
    ) -> AbstractContextManager[Sources]:
        """A folder."""
        return _open_folder(source)

    def select(
        self, spec: DatasetSpec, sources: Sources, *, engine: Engine, progress: Progress, cache: Path
    ) -> Selection:
        """All rows of all splits."""
        assert sources.main.path is not None
        progress.start("read rows", None, "examples")
        found = read_imported(sources.main.path)
        progress.advance(sum(len(rows.inputs) for rows in found.splits.values()))
        names = list(found.names) or [str(identifier) for identifier in range(found.num_identifiers)]
        splits: dict[Split, Groups] = {
            split: _groups(found, found.splits[split], sources.main.spec.name)
            for split in SPLITS
            if split in found.splits
        }
        attachments = {"test_puzzles.json": found.test_puzzles} if found.test_puzzles else {}
        return Selection(
            splits,
            sources=found.files,
            num_identifiers=found.num_identifiers,
            identifiers_digest=hashlib.sha256(canonical_json(names)).hexdigest(),
            identifier_names=found.names,
            attachments=attachments,
        )

    def augmenter(self, spec: DatasetSpec, split: Split, groups: Groups) -> Augmenter:
        """Copy originals; the other rows are there as imported."""
        return Unchanged(groups.inputs, groups.labels, groups.first_examples)

    def check_puzzles(self, spec: DatasetSpec, split: Split, puzzles: BasePuzzles) -> CheckedPuzzles:
        """Tokens of the vocabulary: what the rows mean is not known here."""
        tokens = _options(spec).vocabulary_size
        beyond = (puzzles.inputs >= tokens).any(axis=1) | (puzzles.labels >= tokens).any(axis=1)
        groups = np.searchsorted(puzzles.first_examples, np.flatnonzero(beyond), side="right") - 1
        wrong = puzzles.first_group + np.unique(groups)
        problems = named_problems(split, "group", wrong, "has a token beyond the vocabulary")
        return CheckedPuzzles(problems, _hashes(puzzles.inputs, puzzles.first_examples))

    def compare_splits(self, spec: DatasetSpec, classes: object) -> Comparison:
        """Which symmetries the rows have is not known, so nothing can be compared."""
        return Comparison(notes=["imported rows: checked as files and rows, not as puzzles"])

    def draw(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> Drawing:
        """Tokens as digits and letters, in colours."""
        options = _options(spec)
        grid = tokens.reshape(options.rows, options.columns)
        symbols = tuple(
            "".join(SYMBOLS[token] if token < len(SYMBOLS) else "?" for token in row) for row in grid.tolist()
        )
        return Drawing(symbols, (grid % len(PALETTE)).astype(np.uint8), PALETTE)


@contextmanager
def _open_folder(source: SourceRef) -> Generator[Sources, None, None]:
    folder = Path(source.path).expanduser()
    found = read_imported(folder)
    spec = SourceSpec(kind="published", name=folder.resolve().name, sha256=found.sha256)
    yield Sources(LocalSource(spec, shown=source.path, path=folder))


def _groups(found: ImportedRows, rows: Rows, source: str) -> Groups:
    starts = np.flatnonzero(np.concatenate([[True], np.diff(rows.groups) != 0]))
    sizes = np.diff(np.append(starts, len(rows)))
    counts = rows.augmentations[starts + sizes - 1].astype(np.int64) + 1
    originals = rows.augmentations == 0
    first_examples = np.concatenate([[0], np.cumsum(sizes // counts)]).astype(np.int64)
    inputs, labels = rows.inputs[originals], rows.labels[originals]
    first = rows.puzzle_identifiers[starts]
    facts: dict[str, list[str]] = {}
    if found.names and found.num_identifiers > 1:
        facts["task"] = [found.names[identifier].split("|||")[0] for identifier in first.tolist()]
    return Groups(
        inputs=inputs,
        labels=labels,
        first_examples=first_examples,
        augmentations=Augmentations(
            counts.astype(np.int32), np.full(len(counts), -1, np.int64), np.empty(0, np.int32)
        ),
        keys=np.arange(len(counts), dtype=np.int64),
        first_identifiers=first,
        canonical_hashes=_hashes(inputs, first_examples),
        source_files=[source] * len(counts),
        source_rows=starts.astype(np.int64),
        facts=facts,
        imported=rows,
    )


def _hashes(inputs: NDArray[np.uint8], first_examples: NDArray[np.int64]) -> list[str]:
    """Of each group's original inputs."""
    bounds = first_examples.tolist()
    return [
        hashlib.blake2b(np.ascontiguousarray(inputs[start:stop]).tobytes(), digest_size=16).hexdigest()
        for start, stop in itertools.pairwise(bounds)
    ]
