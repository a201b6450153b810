"""Roots for tests that change them."""

from __future__ import annotations

from pathlib import Path

from trm_data.storage.atomic import file_sha256
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder


def root_with(name: str, place: Path | str, source: Layout) -> Layout:
    """Return a root at `place`, with one dataset of another root."""
    layout = resolve_root(place)
    copy_root(source, layout, f"datasets/{name}")
    return layout


def remove_dataset(layout: Layout, name: str) -> None:
    """Remove the folder of a dataset, as `rm -r` does."""
    layout.store.delete_folder(f"datasets/{name}")


def copy_root(source: Layout, target: Layout, *folders: str) -> None:
    """Copy the files of folders from root to root, byte for byte: `runs`, `results`, `datasets/NAME`."""
    for path in folders:
        folder = Folder(source.store, path)
        for name in folder.names():
            file = target.store.working(f"{path}/{name}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(folder.read(name) or b"")
            target.store.finish(f"{path}/{name}", file_sha256(file))
