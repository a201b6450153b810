"""`trm-data import`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Json, Root, emit
from trm_data.storage.root import resolve_root


@dataclass(frozen=True, kw_only=True)
class Import:
    """Import rows: the layout of the published code, or a folder that `export` wrote.

    The rows are stored as they are; groups, puzzles and identifiers are kept.

    For example:

      trm-data import data/arc1concept-aug-1000 --name arc1concept-published
      trm-data import exported/
      trm-data import data/sudoku-extreme-1k-aug-1000 --kind sudoku
    """

    folder: Annotated[Positional[str], arg(metavar="DIR")]
    """Folder written by `trm-data export`, or dataset folder of the published code."""
    name: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Name of the dataset (default: name of the folder)."""
    kind: Annotated[str | None, arg(metavar="sudoku|maze|arc|rows", help_behavior_hint="")] = None
    """Rules by which rows are checked, rated and drawn (default: from export.json, else rows)."""
    root: Root = None
    workers: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Processes (default: number of cores)."""
    json: Json = False
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        """Import the rows and print a summary."""
        from trm_data.building.flow import build_dataset
        from trm_data.commands.common import facts_of, print_built
        from trm_data.engine.local import LocalEngine
        from trm_data.kinds.imported.options import import_request
        from trm_data.show.progress import terminal_progress
        from trm_data.verify.flow import check_exported_rows

        check_exported_rows(Path(self.folder).expanduser())
        request = import_request(self.folder, self.name, self.kind)
        with (
            closing(LocalEngine(self.workers)) as engine,
            terminal_progress(quiet=self.quiet or self.json) as progress,
        ):
            result = build_dataset(request, resolve_root(self.root), engine=engine, progress=progress)
        emit(facts_of(result), partial(print_built, result), as_json=self.json)
        return 0
