"""Single examples of a dataset, found by rating, task or row, and drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from trm_data.catalog.query import query_catalog
from trm_data.catalog.schema import quote_literal
from trm_data.errors import SpecError, no_such
from trm_data.kinds.registry import load_kind
from trm_data.loader.dataset import open_dataset
from trm_data.loader.rows import open_virtual
from trm_data.manifest import Manifest, read_manifest
from trm_data.records import Picks, Rows
from trm_data.shards.reader import read_block
from trm_data.show.drawing import Drawing
from trm_data.specs import BLOCK_EXAMPLES, Split
from trm_data.storage.root import DatasetFolder, Layout


@dataclass(frozen=True)
class Example:
    """One example as drawings.

    Attributes:
        split: Its split.
        index: Its row within the split.
        group: Its group, which is its base puzzle.
        augmentation: Number of the augmentation; 0 is the original.
        puzzle: The input.
        solution: The label.
    """

    split: str
    index: int
    group: int
    augmentation: int
    puzzle: Drawing
    solution: Drawing

    @property
    def title(self) -> str:
        """Heading that identifies the example."""
        what = f"augmentation {self.augmentation}" if self.augmentation else "the original"
        return f"{self.split} {self.index}: {what} of group {self.group}"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, with drawings as text."""
        numbers = {"split": self.split, "index": self.index, "group": self.group}
        return {
            **numbers,
            "augmentation": self.augmentation,
            "puzzle": self.puzzle.text(),
            "solution": self.solution.text(),
        }


def rated_rows(layout: Layout, name: str, split: Split, ratings: str, count: int) -> list[int]:
    """Return the first rows that are originals of puzzles with these ratings.

    Args:
        layout: The root.
        name: Name of the dataset.
        split: Split of the rows.
        ratings: `LOW..HIGH`, both inclusive and both optional, or one number.
        count: Maximum number of rows.
    """
    low, dots, high = ratings.partition("..")
    try:
        lowest, highest = (float(bound) if bound else None for bound in (low, high if dots else low))
    except ValueError:
        lowest = highest = None
    given = [bound for bound in (lowest, highest) if bound is not None]
    if not given or not all(map(math.isfinite, given)):
        raise SpecError(f"--rating {ratings}: expected a number or LOW..HIGH, such as 3.5..")
    if len(given) == 2 and given[0] > given[1]:
        raise SpecError(
            f"--rating {ratings}: the lower bound is above the upper one (expected {high}..{low})"
        )
    bounds = [
        f"rating >= {lowest}" if lowest is not None else "",
        f"rating <= {highest}" if highest is not None else "",
    ]
    rows = _original_rows(layout, name, split, " AND ".join(filter(None, bounds)), count)
    if rows:
        return rows[:count]
    ((least, most),) = _of_split(layout, name, split, "min(rating), max(rating)")
    if least is None:
        raise SpecError(f"--rating {ratings}: no {split} puzzle of {name} has a rating")
    raise SpecError(
        f"--rating {ratings}: the {split} puzzles of {name} have ratings from {least:g} to {most:g}"
    )


def task_rows(layout: Layout, name: str, split: Split, task: str) -> list[int]:
    """Return all rows of a task that are not augmented."""
    rows = _original_rows(layout, name, split, f"task = {quote_literal(task)}", None)
    if not rows:
        tasks = [each for (each,) in _of_split(layout, name, split, "DISTINCT task") if each is not None]
        if not tasks:
            raise SpecError(f"--task {task}: {name} has no tasks (only ARC has). Use --index or --rating")
        said = f"--task {task}: no such {split} task in {name}"
        raise SpecError(
            no_such(said, task, tasks, f"trm-eval sql \"SELECT task FROM puzzles WHERE dataset = '{name}'\"")
        )
    return rows


def _original_rows(layout: Layout, name: str, split: Split, condition: str, count: int | None) -> list[int]:
    """Return the rows of originals of puzzles that meet a condition, in order, for at most `count` puzzles."""
    found = _of_split(
        layout, name, split, "group_index", f"AND {condition} ORDER BY group_index LIMIT {count or 'NULL'}"
    )
    table = open_dataset(name, layout, split).groups
    rows: list[int] = []
    for (group,) in found:
        examples = np.arange(int(table.num_examples[group]), dtype=np.int64)
        same = np.full_like(examples, group)
        rows += table.rows(Picks(same, np.zeros_like(examples), examples)).tolist()
    return rows


def _of_split(layout: Layout, name: str, split: Split, what: str, further: str = "") -> list[tuple[Any, ...]]:
    """Query the catalog's puzzles of a split."""
    dataset = quote_literal(read_manifest(layout, name).name)
    sql = f"SELECT {what} FROM puzzles WHERE dataset = {dataset} AND split = {quote_literal(split)} {further}"
    return query_catalog(layout, sql).rows


def read_example(layout: Layout, name: str, split: Split, index: int) -> Example:
    """Return one example of a dataset, stored or virtual."""
    manifest = read_manifest(layout, name)
    if split not in manifest.splits:
        raise SpecError(f"--split {split}: {name} has {', '.join(manifest.splits)}")
    entry = manifest.splits[split]
    if not 0 <= index < entry.num_examples:
        raise SpecError(f"--index {index}: {name} has {entry.num_examples:,} {split} examples, from 0")
    kind = load_kind(manifest.kind)
    if manifest.virtual:
        groups, reader = open_virtual(layout.dataset(manifest.name), manifest, split)
        picks = groups.picks(np.array([index], np.int64))
        batch = reader.gather(picks)
        numbers = int(picks.groups[0]), int(picks.augmentations[0])
        inputs, labels = batch["inputs"][0].astype(np.uint8), batch["labels"][0].astype(np.uint8)
    else:
        block, offset = _stored_block(layout.dataset(manifest.name), manifest, split, index)
        numbers = int(block.groups[offset]), int(block.augmentations[offset])
        inputs, labels = block.inputs[offset], block.labels[offset]
    drawings = kind.draw(inputs, manifest.spec), kind.draw(labels, manifest.spec)
    return Example(split, index, *numbers, *drawings)


def _stored_block(folder: DatasetFolder, manifest: Manifest, split: Split, index: int) -> tuple[Rows, int]:
    """Return the block with a stored row, and the row's position in it."""
    offset = index
    for shard in manifest.splits[split].shards:
        if offset >= shard.num_examples:
            offset -= shard.num_examples
            continue
        path = folder.open(shard)
        # Every block of a shard except the last is full.
        block = read_block(path, offset // BLOCK_EXAMPLES, sequence_length=manifest.sequence_length)
        return block, offset % BLOCK_EXAMPLES
    raise AssertionError("shards hold fewer examples than their split")
