"""`trm-data sync` copies datasets between roots; `trm-data catalog` indexes them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.command import Exit, Json, Root, emit
from trm_data.commands.common import chosen, megabytes
from trm_data.errors import Note
from trm_data.storage.root import resolve_root, root_to_read

if TYPE_CHECKING:
    from trm_data.sync import Synced


@dataclass(frozen=True, kw_only=True)
class Sync:
    """Copy datasets from one root to another: a local folder or gs://bucket/prefix.

    Every file is verified by its sha256; the manifest is copied last. Complete files are skipped, so the same command
    resumes an interrupted copy. Another dataset of the same name is never overwritten.

    For example:

      trm-data sync ./trm gs://my-bucket/trm sudoku-extreme-1000-aug-1000
      trm-data sync gs://my-bucket/trm /local/ssd/trm
    """

    source: Annotated[Positional[str], arg(metavar="SRC")]
    """Root to copy from."""
    target: Annotated[Positional[str], arg(metavar="DST")]
    """Root to copy to."""
    names: Annotated[Positional[tuple[str, ...]], arg(metavar="[NAME ...]", help_behavior_hint="")] = ()
    """Names of datasets, or quoted globs (default: all)."""
    json: Json = False

    def run(self) -> int:
        """Copy the datasets and print a summary."""
        from trm_data.show.progress import terminal_progress
        from trm_data.sync import sync_datasets

        source, target = root_to_read(self.source), resolve_root(self.target)
        names = chosen(source, self.names) if self.names else None
        with terminal_progress(quiet=self.json) as progress:
            done, warnings = sync_datasets(source, target, names, progress)
        said = [*map(_said, done)] or f"no datasets under {source.place}"
        emit({"datasets": done, "warnings": warnings}, said, as_json=self.json)
        for warning in () if self.json else warnings:
            print(f"  warning: {warning}", file=sys.stderr)
        return 0


def _said(one: Synced) -> str:
    if one.unchanged:
        return f"{one.name}: already there, nothing to do"
    kept = f", {one.files_kept} were already there" if one.files_kept else ""
    return f"{one.name}: {one.files_copied} files, {megabytes(one.bytes_copied)}, {one.seconds:.1f} s{kept}"


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """Rebuild the SQL index from the manifests under the root: `trm-data catalog refresh`.

    trm-data sql does this when the index lacks a dataset. The index of a bucket is in the user's cache directory.

    For example:

      trm-data catalog refresh --root gs://my-bucket/trm
    """

    action: Annotated[Positional[Literal["refresh"]], arg(metavar="refresh")]
    """refresh: rebuild the index."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Rebuild the index and print its path."""
        from trm_data.catalog.write import refresh_catalog

        layout = root_to_read(self.root)
        problems = refresh_catalog(layout)
        names = layout.dataset_names()
        said = f"{layout.catalog}: {len(names)} datasets under {layout.place}"
        emit({"catalog": layout.catalog, "datasets": names, "problems": problems}, said, as_json=self.json)
        for problem in () if self.json else problems:
            print(f"  {problem}", file=sys.stderr)
        return Exit.FOUND if any(not isinstance(problem, Note) for problem in problems) else Exit.DONE
