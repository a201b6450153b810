"""A dataset as one HTML page: counts, histograms, a sample of puzzles with augmentations. No script, no network.

Single examples are found by rating, task or row, and drawn. `trm-data describe NAME --html` writes the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from markupsafe import Markup

from trm_data.catalog.query import query_catalog
from trm_data.catalog.read import SplitCatalog, read_split_catalog
from trm_data.catalog.schema import quote_literal
from trm_data.errors import SpecError, no_such
from trm_data.kinds.registry import load_kind
from trm_data.loader.dataset import open_dataset
from trm_data.loader.rows import Picks, open_virtual
from trm_data.manifest import Manifest, describe_dataset, read_manifest
from trm_data.records import Rows
from trm_data.shards.reader import read_block
from trm_data.show.drawing import Drawing
from trm_data.show.picture import svg
from trm_data.show.template import render
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
            no_such(said, task, tasks, f"trm-data sql \"SELECT task FROM puzzles WHERE dataset = '{name}'\"")
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
        rows = np.array([index], np.int64)
        picks = groups.picks(rows)
        batch = reader.gather(picks, rows)
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


SAMPLES = 4
AUGMENTATIONS_SHOWN = 3
HISTOGRAMS = {
    "rating": "rating (guesses)",
    "clues": "clues (given cells)",
    "path_length": "path length (steps)",
    "walls": "walls (cells)",
}
BINS = 24
LEGEND_LINE = 15
"""Height of a split's line in the legend of a histogram (px)."""
SPLIT_COLOURS = {"train": "#2563eb", "validation": "#d97706", "test": "#059669"}


def dataset_page(layout: Layout, name: str) -> str:
    """Return the page of a dataset."""
    manifest = read_manifest(layout, name)
    folder = layout.dataset(manifest.name)
    catalogs = {split: read_split_catalog(folder, manifest, _split(split)) for split in manifest.splits}
    return render(
        "trm_data",
        "dataset.html",
        name=name,
        manifest=manifest,
        facts=_facts(describe_dataset(layout, name)),
        histograms=_histograms(manifest, catalogs),
        sample=_sample(layout, manifest, catalogs),
    )


def _split(name: str) -> Split:
    return cast(Split, name)


def _facts(described: dict[str, object]) -> list[tuple[str, str]]:
    shown = (
        "kind_label",
        "content_digest",
        "sequence_length",
        "vocabulary_size",
        "num_identifiers",
        "built_at",
    )
    rows = [(key.removesuffix("_label").replace("_", " "), str(described[key])) for key in shown]
    spec = described["spec"]
    assert isinstance(spec, dict)
    rows += [
        (str(key).replace("_", " "), _shown(value))
        for key, value in spec.items()
        if value is not None and key != "kind"
    ]
    return rows


def _shown(value: object) -> str:
    """Return a value of the specification as text for people, without unset parts."""
    if isinstance(value, Mapping):
        pairs = cast(Mapping[str, object], value).items()
        return ", ".join(f"{key} {_shown(one)}" for key, one in pairs if one not in (None, "", ()))
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, cast(Sequence[object], value)))
    return str(value)


def _histograms(manifest: Manifest, catalogs: dict[str, SplitCatalog]) -> list[tuple[str, Markup]]:
    """Return a title and a histogram for each column that the puzzles have."""
    parts: list[tuple[str, Markup]] = []
    for column, title in HISTOGRAMS.items():
        series = {
            split: np.array([value for value in catalog.facts.get(column, []) if value is not None], float)
            for split, catalog in catalogs.items()
        }
        series = {split: values for split, values in series.items() if len(values)}
        if column == "rating":
            rated_by = {by for catalog in catalogs.values() for by in catalog.facts.get("rating_source", [])}
            title = _rating_title("solver" in rated_by, "file" in rated_by)
        if series:
            parts.append((title, histogram(series)))
    areas = {
        split: np.array(_grid_areas(catalog.facts.get("grid_sizes", [])), float)
        for split, catalog in catalogs.items()
    }
    areas = {split: values for split, values in areas.items() if len(values)}
    if areas:
        parts.append(("cells of a grid, inputs and outputs", histogram(areas)))
    values = {
        split: catalog.groups.augmentations.counts.astype(float)
        for split, catalog in catalogs.items()
        if split == "train" and len(set(catalog.groups.augmentations.counts.tolist())) > 1
    }
    if values:
        parts.append(("augmentations of a puzzle", histogram(values)))
    return parts


def _rating_title(by_solver: bool, by_file: bool) -> str:
    if by_solver and by_file:
        return "rating (guesses; of puzzles whose source states one, that)"
    return "rating (as the source states it)" if by_file or not by_solver else HISTOGRAMS["rating"]


def _grid_areas(texts: Sequence[str | None]) -> list[int]:
    areas: list[int] = []
    for text in texts:
        for side in (text or "").replace(">", " ").split():
            rows, _, columns = side.partition("x")
            if columns:
                areas.append(int(rows) * int(columns))
    return areas


def histogram(series: dict[str, np.ndarray], *, width: int = 420, height: int = 150) -> Markup:
    """Return the shares of values in equal bins as an SVG element, with a set of bars for each split."""
    low = min(float(values.min()) for values in series.values())
    high = max(float(values.max()) for values in series.values())
    whole = all((values == np.round(values)).all() for values in series.values())
    a_bin_each = whole and high - low < BINS
    if a_bin_each:
        edges = np.arange(low - 0.5, high + 1.5)
    else:
        edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    shares = {split: np.histogram(values, edges)[0] / len(values) for split, values in series.items()}
    most = max(float(share.max()) for share in shares.values())
    left, bottom = 8, 34
    step = (width - 2 * left) / (len(edges) - 1)
    bar = step * 0.85 / len(shares)
    bars: list[dict[str, Any]] = []
    legend: list[dict[str, Any]] = []
    for number, (split, share) in enumerate(shares.items()):
        colour = SPLIT_COLOURS.get(split, "#6b7280")
        for position, value in enumerate(share.tolist()):
            bars.append(
                {
                    "x": left + position * step + number * bar,
                    "tall": (height - 20) * value / most,
                    "width": bar,
                    "colour": colour,
                    "says": f"{split}: {edges[position]:g} to {edges[position + 1]:g}: {value:.1%}",
                }
            )
        says = f"{split} (n {len(series[split]):,}, mean {series[split].mean():.4g})"
        legend.append({"y": height + bottom + number * LEGEND_LINE, "colour": colour, "says": says})
    half = 0.5 if a_bin_each else 0
    drawn = render(
        "trm_data",
        "histogram.svg",
        width=width,
        height=height + bottom + LEGEND_LINE * len(shares),
        base=height,
        left=left,
        bars=bars,
        legend=legend,
        first=f"{edges[0] + half:g}",
        last=f"{edges[-1] - half:g}",
        most=f"{most:.1%}",
    )
    return Markup(drawn)


def _sample(
    layout: Layout, manifest: Manifest, catalogs: dict[str, SplitCatalog]
) -> list[list[tuple[str, Markup]]]:
    """Return puzzles spread over the first split, each with its first augmentations and the label."""
    split = next(iter(manifest.splits))
    groups = catalogs[split].groups
    starts = np.cumsum(groups.rows_per_group) - groups.rows_per_group
    puzzles: list[list[tuple[str, Markup]]] = []
    for sample in range(min(SAMPLES, len(groups))):
        group = len(groups) * sample // min(SAMPLES, len(groups))
        shown = min(int(groups.augmentations.counts[group]), AUGMENTATIONS_SHOWN + 1)
        figures: list[tuple[str, Markup]] = []
        for augmentation in range(shown):
            row = int(starts[group]) + augmentation * int(groups.examples_per_augmentation[group])
            example = read_example(layout, manifest.name, _split(split), row)
            title = f"augmentation {augmentation}" if augmentation else f"puzzle {group}"
            drawings = [(f"given: {title}", example.puzzle), ("solution", example.solution)]
            for caption, drawing in drawings if augmentation == 0 else drawings[:1]:
                cell = 16 if drawing.shape[0] <= 16 else 8
                figures.append((caption, Markup(svg(drawing, cell=cell))))
        puzzles.append(figures)
    return puzzles
