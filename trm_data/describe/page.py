"""A dataset as one HTML page: counts, histograms, a sample of puzzles with augmentations. No script, no network.

Neighbours: `describe` has the facts, `picture` draws puzzles; `trm-data describe NAME --html` writes the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from markupsafe import Markup

from trm_data.catalog.read import SplitCatalog, read_split_catalog
from trm_data.describe.examples import read_example
from trm_data.describe.facts import describe_dataset
from trm_data.manifest import Manifest, read_manifest
from trm_data.show.picture import svg
from trm_data.show.template import render
from trm_data.specs import Split
from trm_data.storage.root import Layout

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
