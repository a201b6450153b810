"""Roots for tests that change them."""

from __future__ import annotations

from pathlib import Path

from trm_data.storage.root import Layout, resolve_root
from trm_data.sync import sync_datasets


def root_with(name: str, place: Path | str, source: Layout) -> Layout:
    """Return a root at `place`, with one dataset of another root."""
    layout = resolve_root(place)
    sync_datasets(source, layout, [name])
    return layout
