"""A dataset as one HTML page: counts, histograms, a sample of puzzles with augmentations. No script, no network.

Neighbours: `describe` has the facts, `picture` draws puzzles; `trm-data describe NAME --html` writes the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import cast

import numpy as np

from trm_data.card import html_table, splits_table
from trm_data.catalog.read import SplitCatalog, read_split_catalog
from trm_data.describe.examples import read_example
from trm_data.describe.facts import describe_dataset
from trm_data.manifest import Manifest, read_manifest
from trm_data.show.picture import svg
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

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #111827 }
h1 { font-size: 1.5rem; overflow-wrap: anywhere } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse } td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top }
th { border-bottom: 1px solid #9ca3af; font-weight: 600 } code { font-size: .85em; overflow-wrap: anywhere }
.row { display: flex; flex-wrap: wrap; gap: 1.2rem; align-items: flex-start; margin: .8rem 0 1.4rem }
figure { margin: 0 } figcaption { font-size: .8rem; color: #4b5563 }
.wide { overflow-x: auto }
.sample { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(9rem, 45%), 1fr));
  gap: 1.2rem; margin: .8rem 0 1.4rem }
figure svg { max-width: 100%; height: auto }
@media (max-width: 30rem) { .wide td, .wide th { font-size: .72rem; padding-right: .3rem; line-height: 1.3 } }
"""


def dataset_page(layout: Layout, name: str) -> str:
    """The page of a dataset.

    Raises:
        DatasetNotFoundError: There is no such dataset.
        CorruptDatasetError: A file of it is missing or changed.
    """
    manifest = read_manifest(layout, name)
    folder = layout.dataset(manifest.name)
    catalogs = {split: read_split_catalog(folder, manifest, _split(split)) for split in manifest.splits}
    body = [
        f"<h1>{escape(name)}</h1>",
        f"<div class='wide'>{_facts(describe_dataset(layout, name))}</div>",
        "<h2>Splits</h2>",
        f"<div class='wide'>{splits_table(manifest)}</div>",
        *_histograms(manifest, catalogs),
        "<h2>A sample</h2>",
        *_sample(layout, manifest, catalogs),
    ]
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{view}<title>{escape(name)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(body)}</body></html>\n"


def _split(name: str) -> Split:
    return cast(Split, name)


def _facts(described: dict[str, object]) -> str:
    shown = (
        "kind_label",
        "content_digest",
        "sequence_length",
        "vocabulary_size",
        "num_identifiers",
        "built_at",
    )
    rows = [
        [escape(key.removesuffix("_label").replace("_", " ")), f"<code>{escape(str(described[key]))}</code>"]
        for key in shown
    ]
    spec = described["spec"]
    assert isinstance(spec, dict)
    for key, value in spec.items():
        if value is not None and key != "kind":
            rows.append([escape(str(key).replace("_", " ")), f"<code>{escape(_shown(value))}</code>"])
    return html_table(rows)


def _shown(value: object) -> str:
    """A value of the specification as a person reads it: what is not set is left out."""
    if isinstance(value, Mapping):
        pairs = cast(Mapping[str, object], value).items()
        return ", ".join(f"{key} {_shown(one)}" for key, one in pairs if one not in (None, "", ()))
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, cast(Sequence[object], value)))
    return str(value)


def _histograms(manifest: Manifest, catalogs: dict[str, SplitCatalog]) -> list[str]:
    parts: list[str] = []
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
            parts.append(f"<figure><figcaption>{escape(title)}</figcaption>{histogram(series)}</figure>")
    areas = {
        split: np.array(_grid_areas(catalog.facts.get("grid_sizes", [])), float)
        for split, catalog in catalogs.items()
    }
    areas = {split: values for split, values in areas.items() if len(values)}
    if areas:
        parts.append(
            f"<figure><figcaption>cells of a grid, inputs and outputs</figcaption>{histogram(areas)}</figure>"
        )
    values = {
        split: catalog.groups.augmentations.counts.astype(float)
        for split, catalog in catalogs.items()
        if split == "train" and len(set(catalog.groups.augmentations.counts.tolist())) > 1
    }
    if values:
        parts.append(
            f"<figure><figcaption>augmentations of a puzzle</figcaption>{histogram(values)}</figure>"
        )
    return ["<h2>Distributions</h2><div class='row'>", *parts, "</div>"] if parts else []


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


def histogram(series: dict[str, np.ndarray], *, width: int = 420, height: int = 150) -> str:
    """Shares of values in equal bins, one line of bars a split, as an SVG element."""
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
    tall_all = height + bottom + LEGEND_LINE * len(shares)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{tall_all}" '
        f'viewBox="0 0 {width} {tall_all}" font-family="sans-serif" font-size="11">'
    ]
    for number, (split, share) in enumerate(shares.items()):
        colour = SPLIT_COLOURS.get(split, "#6b7280")
        for position, value in enumerate(share.tolist()):
            tall = (height - 20) * value / most
            x = left + position * step + number * bar
            label = f"{split}: {edges[position]:g} to {edges[position + 1]:g}: {value:.1%}"
            parts.append(
                f'<rect x="{x:.1f}" y="{height - tall:.1f}" width="{bar:.1f}" height="{tall:.1f}" fill="{colour}">'
                f"<title>{escape(label)}</title></rect>"
            )
        mean = f"{split} (n {len(series[split]):,}, mean {series[split].mean():.4g})"
        y = height + bottom + number * LEGEND_LINE
        parts.append(f'<text x="{left}" y="{y}" fill="{colour}">{escape(mean)}</text>')
    parts.append(f'<line x1="{left}" y1="{height}" x2="{width - left}" y2="{height}" stroke="#111827"/>')
    first, last = edges[0] + (0.5 if a_bin_each else 0), edges[-1]
    last -= 0.5 if a_bin_each else 0
    parts.append(f'<text x="{left}" y="{height + 14}">{first:g}</text>')
    parts.append(f'<text x="{width - left}" y="{height + 14}" text-anchor="end">{last:g}</text>')
    parts.append(f'<text x="{left}" y="11">{most:.1%}</text></svg>')
    return "".join(parts)


def _sample(layout: Layout, manifest: Manifest, catalogs: dict[str, SplitCatalog]) -> list[str]:
    """Puzzles of the first split, spread over it, each with its first augmentations and the label."""
    split = next(iter(manifest.splits))
    groups = catalogs[split].groups
    starts = np.cumsum(groups.rows_per_group) - groups.rows_per_group
    parts: list[str] = []
    for sample in range(min(SAMPLES, len(groups))):
        group = len(groups) * sample // min(SAMPLES, len(groups))
        shown = min(int(groups.augmentations.counts[group]), AUGMENTATIONS_SHOWN + 1)
        figures: list[str] = []
        for augmentation in range(shown):
            row = int(starts[group]) + augmentation * int(groups.examples_per_augmentation[group])
            example = read_example(layout, manifest.name, _split(split), row)
            title = f"augmentation {augmentation}" if augmentation else f"puzzle {group}"
            drawings = [(f"given: {title}", example.puzzle), ("solution", example.solution)]
            for caption, drawing in drawings if augmentation == 0 else drawings[:1]:
                cell = 16 if drawing.shape[0] <= 16 else 8
                figures.append(
                    f"<figure>{svg(drawing, cell=cell)}<figcaption>{escape(caption)}</figcaption></figure>"
                )
        parts.append(f"<div class='sample'>{''.join(figures)}</div>")
    return parts
