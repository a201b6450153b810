"""Choose ARC tasks and assign their pairs to splits.

Every chosen task has its demonstrations in training, because its identifiers must be learned. The test pairs of the
evaluation subset are the test split. The test pairs of other tasks are also training examples, except those of the
validation tasks. Tasks come in a keyed order, so a smaller set is a prefix of a larger one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from trm_data.engine import Engine, slices
from trm_data.errors import SpecError
from trm_data.kinds.arc.encode import Pair, encode_pairs
from trm_data.kinds.arc.options import ArcOptions
from trm_data.kinds.arc.source import ArcTasks, Task
from trm_data.kinds.arc.symmetry import NUM_SYMMETRIES, distinct_augmentations, pair_hashes, puzzle_key
from trm_data.kinds.choosing import keyed_order, said_of_rejects
from trm_data.records import Augmentations, Groups, Selection
from trm_data.show.progress import Progress
from trm_data.specs import SPLITS, DatasetSpec, Split, canonical_json
from trm_data.symmetry.base import keyed_elements

TASKS_AT_A_TIME = 30


@dataclass(frozen=True)
class _Example:
    """A pair, and its hash up to symmetry."""

    pair: Pair
    hash: str


@dataclass(frozen=True)
class _Chosen:
    """A task with its examples in each split, and its augmentations."""

    task: Task
    examples: dict[Split, list[_Example]]
    ks: NDArray[np.int32]
    first_identifier: int


def choose_tasks(
    spec: DatasetSpec,
    options: ArcOptions,
    read: ArcTasks,
    source_name: str,
    *,
    engine: Engine,
    progress: Progress,
) -> Selection:
    """Return the groups of every split."""
    warnings = [*read.notes]
    left_out = said_of_rejects(read.rejects, "task")
    if not read.tasks:
        raise SpecError(f"{source_name}: has no usable task{left_out}")
    tasks = _in_order(spec, options, read.tasks, warnings, left_out)
    progress.start("choose tasks", len(tasks), "tasks")
    examples = _examples(tasks)  # while the workers start
    validation = _validation_tasks(spec, options, tasks, examples, left_out)
    parts = [
        tasks[start:stop] for start, stop in slices(len(tasks), engine.workers, smallest=TASKS_AT_A_TIME)
    ]
    distinct = engine.run(
        partial(_distinct_ks, spec), parts, lambda part: progress.advance(len(part)), brief=not spec.aug
    )
    chosen: list[_Chosen] = []
    identifier = 1
    for task, ks in zip(tasks, chain.from_iterable(distinct), strict=True):
        split = _examples_of_splits(task, examples[task.name], options, held_out=task.name in validation)
        chosen.append(_Chosen(task, split, ks, identifier))
        identifier += len(ks)
    splits: dict[Split, Groups | None] = {split: _groups(chosen, split, source_name) for split in SPLITS}
    unscored = sum(not _scored(task.examples["test"]) for task in chosen if task.examples["test"])
    if unscored:
        warnings.append(f"{unscored} test tasks have no solutions: they are built, and marked unscored")
    if splits["test"] is None:
        warnings.append(f"no task of {options.evaluation!r} was chosen: there is no test split")
    found: dict[Split, Groups] = {split: groups for split, groups in splits.items() if groups is not None}
    return Selection(
        found,
        sources=read.files,
        rejects=list(read.rejects),
        num_identifiers=identifier,
        identifiers_digest=_identifiers_digest(spec.seed, chosen),
        warnings=warnings,
    )


def _distinct_ks(spec: DatasetSpec, tasks: list[Task]) -> list[NDArray[np.int32]]:
    """Return for each task the k of its augmentations, no two of which are equal."""
    keys = np.array([puzzle_key(task.name) for task in tasks], np.int64)
    return distinct_augmentations([[*task.train, *task.test] for task in tasks], keys, spec.seed, spec.aug)


def _in_order(
    spec: DatasetSpec, options: ArcOptions, tasks: list[Task], warnings: list[str], left_out: str
) -> list[Task]:
    """Return the tasks to use, in the keyed order."""
    if options.drop_duplicates:
        names = {task.name for task in tasks}
        dropped = {
            known.train_task
            for known in KNOWN_DUPLICATES
            if known.train_task != known.test_task and {known.train_task, known.test_task} <= names
        }
        tasks = [task for task in tasks if task.name not in dropped]
        warnings += [f"left out {name}: a known duplicate" for name in sorted(dropped)]
    tasks = [tasks[i] for i in keyed_order(spec.seed, len(tasks)).tolist()]
    if spec.size is None:
        return tasks
    if spec.size > len(tasks):
        raise SpecError(f"--size {spec.size}: {', '.join(options.subsets)} have {len(tasks)} tasks{left_out}")
    return tasks[: spec.size]


def _examples(tasks: Sequence[Task]) -> dict[str, tuple[list[_Example], list[_Example]]]:
    """Return demonstrations and test pairs of every task, by its name."""
    hashes = iter(pair_hashes([pair for task in tasks for pair in [*task.train, *task.test]]))
    return {
        task.name: (
            [_Example(pair, next(hashes)) for pair in task.train],
            [_Example(pair, next(hashes)) for pair in task.test],
        )
        for task in tasks
    }


def _validation_tasks(
    spec: DatasetSpec,
    options: ArcOptions,
    tasks: list[Task],
    examples: Mapping[str, tuple[list[_Example], list[_Example]]],
    left_out: str,
) -> set[str]:
    """Return the tasks whose test pairs are held out: no other task has these pairs, so none is trained on."""
    if not spec.val_size:
        return set()
    known: dict[str, set[str]] = {}
    for name, (train, test) in examples.items():
        for example in [*train, *test]:
            known.setdefault(example.hash, set()).add(name)
    names: list[str] = []
    for task in tasks:
        train, test = examples[task.name]
        own = {example.hash for example in train}
        apart = all(known[example.hash] == {task.name} and example.hash not in own for example in test)
        if task.subset != options.evaluation and apart and _scored(test):
            names.append(task.name)
    if len(names) < spec.val_size:
        raise SpecError(
            f"--val-size {spec.val_size}: only {len(names)} tasks outside {options.evaluation!r} have test pairs "
            f"that are in no other task{left_out}"
        )
    return set(names[: spec.val_size])


def _examples_of_splits(
    task: Task, examples: tuple[list[_Example], list[_Example]], options: ArcOptions, *, held_out: bool
) -> dict[Split, list[_Example]]:
    train, test = examples
    if task.subset == options.evaluation:
        return {"train": train, "validation": [], "test": test}
    if held_out:
        return {"train": train, "validation": test, "test": []}
    known = [example for example in test if example.pair.output is not None]
    return {"train": [*train, *known], "validation": [], "test": []}


def _scored(examples: Sequence[_Example]) -> bool:
    return all(example.pair.output is not None for example in examples)


def _groups(chosen: list[_Chosen], split: Split, source_name: str) -> Groups | None:
    mine = [task for task in chosen if task.examples[split]]
    if not mine:
        return None
    inputs, labels, _ = encode_pairs([example.pair for task in mine for example in task.examples[split]])
    counts = [len(task.examples[split]) for task in mine]
    return Groups(
        inputs=inputs,
        labels=labels,
        first_examples=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        augmentations=Augmentations.of_lists([task.ks for task in mine]),
        keys=np.array([puzzle_key(task.task.name) for task in mine], np.int64),
        first_identifiers=np.array([task.first_identifier for task in mine], np.int32),
        canonical_hashes=[group_hash([example.hash for example in task.examples[split]]) for task in mine],
        source_files=[source_name] * len(mine),
        source_rows=np.arange(len(mine), dtype=np.int64),
        facts={
            "task": [task.task.name for task in mine],
            "subset": [task.task.subset for task in mine],
            "grid_sizes": [
                " ".join(_sizes(example.pair) for example in task.examples[split]) for task in mine
            ],
            "scored": [_scored(task.examples[split]) for task in mine],
        },
    )


def group_hash(hashes: Sequence[str]) -> str:
    """Return a hash of a task's examples from the hashes of its pairs, independent of their order."""
    return hashlib.blake2b("".join(sorted(hashes)).encode(), digest_size=16).hexdigest()


def _sizes(pair: Pair) -> str:
    output = "?" if pair.output is None else "x".join(map(str, pair.output.shape))
    return f"{'x'.join(map(str, pair.input.shape))}>{output}"


def _identifiers_digest(seed: int, chosen: list[_Chosen]) -> str:
    """Return the sha256 over the task and symmetry of every identifier, in the order of the identifiers."""
    digest = hashlib.sha256(canonical_json([[task.task.name, len(task.ks)] for task in chosen]))
    keys = np.array([puzzle_key(task.task.name) for task in chosen], np.int64)
    groups = np.repeat(np.arange(len(chosen)), [len(task.ks) for task in chosen])
    ks = np.concatenate([task.ks for task in chosen]).astype(np.int64)
    elements = keyed_elements(seed, keys, groups, ks, NUM_SYMMETRIES)
    digest.update(elements.astype("<i8").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class KnownDuplicate:
    """A test pair of `test_task` that is a pair of `train_task`, on which the standard dataset trains.

    Attributes:
        train_task: Name; equal to `test_task` if a task's test pair is the image of one of its own
            demonstrations.
        test_task: Name.
        exact: Whether the pairs are identical, or equal only up to colours and dihedral.
        note: Which pairs are equal.
    """

    train_task: str
    test_task: str
    exact: bool
    note: str


KNOWN_DUPLICATES = (
    KnownDuplicate("40853293", "070dd51e", True, "the same task: demonstrations and test pair are equal"),
    KnownDuplicate("caa06a1f", "50a16a69", False, "training pair 3 is an image of test pair 1"),
    KnownDuplicate("00576224", "00576224", False, "training pair 2 is an image of test pair 1"),
    KnownDuplicate("3979b1a8", "3979b1a8", False, "training pairs 1 and 2 are images of test pair 1"),
    KnownDuplicate("66e6c45b", "66e6c45b", False, "training pairs 1 and 2 are images of test pair 1"),
    KnownDuplicate("94414823", "94414823", False, "training pairs 1, 2 and 3 are images of test pair 1"),
    KnownDuplicate("992798f6", "992798f6", False, "training pair 4 is an image of test pair 1"),
    KnownDuplicate("ca8de6ea", "ca8de6ea", False, "training pairs 1, 2 and 3 are images of test pair 1"),
    KnownDuplicate("f3e62deb", "f3e62deb", False, "training pair 4 is an image of test pair 1"),
)
"""All known duplicates in the standard ARC-1 dataset."""

TRAINING2_HAS_OF_EVALUATION = 376
"""Number of evaluation tasks that training2 contains under the same names, each with a test pair. Never train on
training2 and score on evaluation."""

EVALUATION2_HAS_OF_EVALUATION = ("0934a4d8", "136b0064", "16b78196", "981571dc", "aa4ec2a5", "da515329")
"""Tasks of evaluation2 that evaluation contains, test pairs included: a model trained on all pairs of evaluation has
seen them. Also, db695cfb of evaluation2 has the demonstrations of 55783887, but another test pair."""
