"""The kind of imported rows, which are stored unchanged."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from trm_data.engine import Engine
from trm_data.errors import SpecError
from trm_data.kinds.base import (
    PROBLEMS_SHOWN,
    Answer,
    BasePuzzles,
    CheckedPuzzles,
    Comparison,
    Geometry,
    Kind,
    Scores,
)
from trm_data.kinds.imported.options import NAME, ImportedOptions
from trm_data.kinds.registry import load_kind, options_from_json
from trm_data.kinds.table.kind import draw_tokens
from trm_data.records import Augmentations, Groups, Rows, Selection, group_counts
from trm_data.show.drawing import Drawing
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource, SourceRef, Sources
from trm_data.sources.published import ImportedRows, read_imported
from trm_data.specs import SPLITS, DatasetSpec, Options, SourceSpec, Split, canonical_json
from trm_data.symmetry.base import Augmenter, Unchanged

CHECKED_AT_ONCE = 4096
"""Number of puzzles that are checked together."""


def _options(spec: DatasetSpec) -> ImportedOptions:
    assert isinstance(spec.options, ImportedOptions)
    return spec.options


def _rules(spec: DatasetSpec) -> tuple[Kind, DatasetSpec] | None:
    """Return the kind whose rules apply to the rows, and a specification for it; None if there is no such kind."""
    options = _options(spec)
    if not options.of:
        return None
    inner = options_from_json(options.of, json.loads(options.of_options))
    return load_kind(options.of), replace(spec, kind=options.of, options=inner)


class ImportedKind(Kind):
    """Imported rows; if their kind is known, they are checked and drawn by its rules."""

    name = NAME
    about = "Rows that were made elsewhere and imported as they are."
    derives_rows = False

    @override
    def check_spec(self, spec: DatasetSpec) -> None:
        if spec.augment == "virtual" or spec.aug:
            raise SpecError("imported rows cannot be augmented: build the dataset instead")
        if (rules := _rules(spec)) is not None:
            kind, inner = rules
            try:
                expected, found = kind.geometry(inner), self.geometry(spec)
                if replace(expected, identifier_each=False) != found:
                    raise SpecError(
                        f"--kind {kind.name}: its rows are {_said(expected)}, these are {_said(found)} "
                        "(--kind rows imports them without its rules)"
                    )
                kind.check_spec(inner)
            except (TypeError, ValueError, AttributeError) as error:  # options of an edited export are data
                raise SpecError(
                    f"not options of the kind {kind.name}: {error} (--kind rows needs none)"
                ) from error

    @override
    def geometry(self, spec: DatasetSpec) -> Geometry:
        options = _options(spec)
        return Geometry(
            grid_rows=options.rows, grid_columns=options.columns, vocabulary_size=options.vocabulary_size
        )

    @override
    def open_sources(
        self, source: SourceRef, test_source: SourceRef | None, options: Options
    ) -> AbstractContextManager[Sources]:
        folder = Path(source.path).expanduser()
        found = read_imported(folder)
        spec = SourceSpec(kind="published", name=folder.resolve().name, sha256=found.sha256)
        return nullcontext(Sources(LocalSource(spec, shown=source.path, path=folder)))

    @override
    def select(
        self, spec: DatasetSpec, sources: Sources, *, engine: Engine, progress: Progress, cache: Path
    ) -> Selection:
        assert sources.main.path is not None
        progress.start("read rows", None, "examples")
        found = read_imported(sources.main.path)
        progress.advance(sum(len(rows.inputs) for rows in found.splits.values()))
        names = list(found.names) or [str(identifier) for identifier in range(found.num_identifiers)]
        rules = _rules(spec)
        splits: dict[Split, Groups] = {}
        classes: dict[Split, list[tuple[str, str]]] = {}
        for split in SPLITS:
            if split not in found.splits:
                continue
            splits[split], classes[split] = _groups(found, split, sources.main.spec.name, rules)
            if problems := self.check_augmentations(spec, split, found.splits[split]):
                raise _without_rules(sources.main.spec.name, problems, _options(spec).of)
        warnings: list[str] = []
        if rules is not None and (shared := rules[0].compare_splits(rules[1], classes).problems):
            warnings.append(
                f"{len(shared):,} puzzles are in two splits, up to symmetry (the first: {shared[0]}). The rows are "
                f"imported as they are; trm-data build {rules[1].kind} of the original puzzles keeps splits apart"
            )
        if rules is None and (repeated := _training_rows_held_out(found)):
            warnings.append(
                f"{len(repeated):,} training rows have the input of a row that is held out (the first: {repeated[0]}). "
                "The rows are imported as they are; their symmetries are not known without --kind"
            )
        attachments = {"test_puzzles.json": found.test_puzzles} if found.test_puzzles else {}
        return Selection(
            splits,
            sources=found.files,
            num_identifiers=found.num_identifiers,
            identifiers_digest=hashlib.sha256(canonical_json(names)).hexdigest(),
            identifier_names=found.names,
            attachments=attachments,
            warnings=warnings,
        )

    @override
    def augmenter(self, spec: DatasetSpec, split: Split, groups: Groups) -> Augmenter:
        return Unchanged(groups.inputs, groups.labels, groups.first_examples)

    @override
    def check_puzzles(self, spec: DatasetSpec, split: Split, puzzles: BasePuzzles) -> CheckedPuzzles:
        if (rules := _rules(spec)) is not None:
            kind, inner = rules
            inputs, labels = kind.undo_unrecorded_translation(puzzles.inputs, puzzles.labels)
            return kind.check_puzzles(inner, split, replace(puzzles, inputs=inputs, labels=labels))
        return CheckedPuzzles([], _hashes(puzzles.inputs, puzzles.first_examples))

    @override
    def check_augmentations(self, spec: DatasetSpec, split: Split, rows: Rows) -> list[str]:
        """Check every augmentation by the rules of its kind, and that it is an image of its original."""
        if (rules := _rules(spec)) is None or not rows.augmentations.any():
            return []
        numbers = np.stack([rows.groups, rows.augmentations], axis=1)
        starts = np.flatnonzero(np.concatenate([[True], (np.diff(numbers, axis=0) != 0).any(axis=1)]))
        bounds = np.append(starts, len(rows))
        originals: dict[int, str] = {}
        problems: list[str] = []
        for begin in range(0, len(starts), CHECKED_AT_ONCE):
            part = bounds[begin : begin + CHECKED_AT_ONCE + 1]
            checked = _check_puzzles(rules, split, rows, part)
            if checked.problems:
                each = (_check_puzzles(rules, split, rows, part[i : i + 2]) for i in range(len(part) - 1))
                wrong = ((i, found.problems[0]) for i, found in enumerate(each) if found.problems)
                for i, problem in itertools.islice(wrong, PROBLEMS_SHOWN - len(problems)):
                    problems.append(f"{_place(split, rows, part[i])}: {problem.rpartition(': ')[2]}")
            for start, hash_ in zip(part, checked.canonical_hashes, strict=False):
                if hash_ != originals.setdefault(int(rows.groups[start]), hash_):
                    problems.append(f"{_place(split, rows, start)}: is not an image of its original")
            if len(problems) >= PROBLEMS_SHOWN:
                return [*problems[:PROBLEMS_SHOWN], f"{split}: there may be more; the check ended there"]
        return problems

    @override
    def compare_splits(self, spec: DatasetSpec, classes: Mapping[Split, list[tuple[str, str]]]) -> Comparison:
        if (rules := _rules(spec)) is None:
            return Comparison(notes=["imported rows: checked as files and rows, not as puzzles"])
        found = rules[0].compare_splits(rules[1], classes)
        more = len(found.problems) - PROBLEMS_SHOWN
        shown = [*found.problems[:PROBLEMS_SHOWN], *([f"{more:,} more of them"] if more > 0 else [])]
        return Comparison(notes=[*shown, *found.notes])

    @override
    def parse(self, text: str, spec: DatasetSpec) -> NDArray[np.uint8]:
        rules = _rules(spec)
        return super().parse(text, spec) if rules is None else rules[0].parse(text, rules[1])

    @override
    def answer(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> Answer:
        rules = _rules(spec)
        return Answer() if rules is None else rules[0].answer(tokens, rules[1])

    @override
    def score(
        self,
        spec: DatasetSpec,
        inputs: NDArray[np.uint8],
        labels: NDArray[np.uint8],
        predictions: NDArray[np.uint8],
    ) -> Scores:
        rules = _rules(spec)
        return Scores() if rules is None else rules[0].score(rules[1], inputs, labels, predictions)

    @override
    def has_several_answers(self, spec: DatasetSpec) -> bool:
        rules = _rules(spec)
        return rules is not None and rules[0].has_several_answers(rules[1])

    @override
    def satisfies(
        self, spec: DatasetSpec, inputs: NDArray[np.uint8], predictions: NDArray[np.uint8]
    ) -> NDArray[np.bool_] | None:
        rules = _rules(spec)
        return None if rules is None else rules[0].satisfies(rules[1], inputs, predictions)

    @override
    def draw(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> Drawing:
        if (rules := _rules(spec)) is not None:
            return rules[0].draw(tokens, rules[1])
        options = _options(spec)
        return draw_tokens(tokens.reshape(options.rows, options.columns))


def _check_puzzles(
    rules: tuple[Kind, DatasetSpec], split: Split, rows: Rows, bounds: NDArray[np.int64]
) -> CheckedPuzzles:
    """Check puzzles of rows by the rules of their kind; `bounds` has the first row of each, and their end."""
    kind, inner = rules
    part = slice(int(bounds[0]), int(bounds[-1]))
    inputs, labels = kind.undo_unrecorded_translation(rows.inputs[part], rows.labels[part])
    facts: dict[str, Any] = dict(kind.facts(inner, inputs, labels))
    if kind.geometry(inner).identifier_each:
        facts["task"] = [""] * (len(bounds) - 1)
    return kind.check_puzzles(inner, split, BasePuzzles(inputs, labels, bounds - bounds[0], 0, facts))


def _place(split: Split, rows: Rows, row: int) -> str:
    return f"{split} group {rows.groups[row]}, augmentation {rows.augmentations[row]}"


def _said(geometry: Geometry) -> str:
    return f"{geometry.grid_rows}x{geometry.grid_columns} with {geometry.vocabulary_size} tokens"


def _without_rules(source: str, problems: Sequence[str], kind: str) -> SpecError:
    """Return the error for rows that break the rules of their kind."""
    return SpecError(
        f"{source}: {'; '.join(problems)} (--kind rows imports them without the rules of {kind})"
    )


def _groups(
    found: ImportedRows, split: Split, source: str, rules: tuple[Kind, DatasetSpec] | None
) -> tuple[Groups, list[tuple[str, str]]]:
    """Return the groups of a split with the facts that their kind computes, and their classes."""
    rows = found.splits[split]
    starts, counts, examples = group_counts(rows)
    originals = rows.augmentations == 0
    first_examples = np.concatenate([[0], np.cumsum(examples)]).astype(np.int64)
    inputs, labels = rows.inputs[originals], rows.labels[originals]
    first = rows.puzzle_identifiers[starts]
    facts: dict[str, Any] = {}
    if found.names and found.num_identifiers > 1:
        facts["task"] = [found.names[identifier].split("|||")[0] for identifier in first.tolist()]
    hashes, classes = _hashes(inputs, first_examples), list[tuple[str, str]]()
    if rules is not None:
        kind, inner = rules
        settled = kind.undo_unrecorded_translation(inputs, labels)
        if kind.geometry(inner).identifier_each:
            facts.setdefault("task", [str(identifier) for identifier in first.tolist()])
        facts |= kind.facts(inner, *settled)
        checked = kind.check_puzzles(inner, split, BasePuzzles(*settled, first_examples, 0, facts))
        if checked.problems:
            raise _without_rules(source, checked.problems, inner.kind)
        hashes, classes = checked.canonical_hashes or hashes, checked.classes
    groups = Groups(
        inputs=inputs,
        labels=labels,
        first_examples=first_examples,
        augmentations=Augmentations(
            counts.astype(np.int32), np.full(len(counts), -1, np.int64), np.empty(0, np.int32)
        ),
        keys=np.arange(len(counts), dtype=np.int64),
        first_identifiers=first,
        canonical_hashes=hashes,
        source_files=[source] * len(counts),
        source_rows=starts.astype(np.int64),
        facts=facts,
        imported=rows,
    )
    return groups, classes


def _training_rows_held_out(found: ImportedRows) -> list[str]:
    """Return the places of training rows whose input is also a row of another split."""
    if "train" not in found.splits:
        return []
    held = {
        row.tobytes(): f"{split} row {number}"
        for split in SPLITS
        if split != "train" and split in found.splits
        for number, row in enumerate(found.splits[split].inputs)
    }
    return [
        f"train row {number} and {held[key]}"
        for number, row in enumerate(found.splits["train"].inputs)
        if (key := row.tobytes()) in held
    ]


def _hashes(inputs: NDArray[np.uint8], first_examples: NDArray[np.int64]) -> list[str]:
    """Return a hash of each group's original inputs."""
    bounds = first_examples.tolist()
    return [
        hashlib.blake2b(np.ascontiguousarray(inputs[start:stop]).tobytes(), digest_size=16).hexdigest()
        for start, stop in itertools.pairwise(bounds)
    ]
