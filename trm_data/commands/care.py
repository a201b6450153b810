"""The commands that check, move and remove datasets: `verify`, `import`, `export`, `rm`."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.command import Json, Root
from trm_data.commands.common import Name, megabytes
from trm_data.storage.root import resolve_root


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Check a dataset: files, rows, counts, digests, every puzzle, and that the splits share none.

    Exits with 1 and a list of what is wrong if anything is.

    For example:

      trm-data verify sudoku-generated-500-aug-1000
    """

    name: Name
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Verify and print the verdict."""
        from trm_data.show.progress import terminal_progress
        from trm_data.verify.flow import verify_dataset

        with terminal_progress(quiet=self.json) as progress:
            found = verify_dataset(resolve_root(self.root), self.name, progress)
        if self.json:
            print(json.dumps({**asdict(found), "whole": found.whole}, indent=1))
        elif found.whole:
            checked = ", ".join(f"{count:,} {what}" for what, count in found.counts.items())
            print(f"{self.name}: whole ({checked}; {found.seconds:.1f} s)")
            for note in found.notes:
                print(f"  {note}")
        else:
            print(f"{self.name}: {len(found.problems)} wrong", file=sys.stderr)
            for problem in found.problems:
                print(f"  {problem}", file=sys.stderr)
        return 0 if found.whole else 1


@dataclass(frozen=True, kw_only=True)
class Import:
    """Import rows: the layout of the published code, or a folder that `export` wrote.

    The rows are stored as they are; groups, puzzles and identifiers are kept.

    For example:

      trm-data import data/arc1concept-aug-1000 --name arc1concept-published
      trm-data import exported/
    """

    folder: Annotated[Positional[str], arg(metavar="DIR")]
    name: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Name of the dataset (default: that of the folder)."""
    root: Root = None
    workers: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Processes (default: one for each core)."""
    json: Json = False
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        """Import them and say what came."""
        from trm_data.build.flow import build_dataset
        from trm_data.commands.built import print_built
        from trm_data.engine.local import LocalEngine
        from trm_data.kinds.registry import import_request
        from trm_data.show.progress import terminal_progress

        request = import_request(self.folder, self.name)
        with (
            closing(LocalEngine(self.workers)) as engine,
            terminal_progress(quiet=self.quiet or self.json) as progress,
        ):
            result = build_dataset(request, resolve_root(self.root), engine=engine, progress=progress)
        print_built(result, as_json=self.json)
        return 0


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a dataset for others: npy in the published layout, Parquet, or a Hugging Face dataset folder.

    A virtual dataset is written with all its augmented rows.

    For example:

      trm-data export sudoku-generated-500-aug-1000 --format npy --out published/
      trm-data export maze-30x30-generated-1000-aug-7 --format hf --out hub/
    """

    name: Name
    format: Literal["npy", "parquet", "hf"] = "npy"
    """npy: as the published code has it; parquet: a file a million rows; hf: with a card, ready to upload."""
    out: Annotated[str, arg(metavar="DIR")]
    """Folder to write; it must not be there yet."""
    root: Root = None
    json: Json = False
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        """Write it and say what was written."""
        from pathlib import Path

        from trm_data.export import export_dataset
        from trm_data.show.progress import terminal_progress

        with terminal_progress(quiet=self.quiet or self.json) as progress:
            out = Path(self.out).expanduser()
            files = export_dataset(resolve_root(self.root), self.name, out, self.format, progress)
        size_bytes = sum(file.stat().st_size for file in files)
        if self.json:
            facts = {"folder": str(out), "files": [str(file) for file in files], "size_bytes": size_bytes}
            print(json.dumps(facts, indent=1))
        else:
            print(f"{self.name}: {len(files)} files, {megabytes(size_bytes)}, in {out}")
        return 0


@dataclass(frozen=True, kw_only=True)
class Remove:
    """Remove a dataset, or what a killed build left of one, after asking.

    For example:

      trm-data rm sudoku-generated-500-aug-1000
      trm-data rm sudoku-generated-500-aug-1000 --yes
    """

    name: Name
    yes: bool = False
    """Do not ask."""
    root: Root = None

    def run(self) -> int:
        """Ask, then remove it."""
        from trm_data.removal import remove, size_to_remove

        layout = resolve_root(self.root)
        size_bytes = size_to_remove(layout, self.name)
        if not self.yes:
            if not sys.stdin.isatty():
                print(f"trm-data: rm {self.name}: nobody to ask; add --yes to remove it", file=sys.stderr)
                return 2
            answer = input(f"remove {self.name} ({megabytes(size_bytes)}) under {layout.place}? [y/N] ")
            if answer.strip().lower() not in ("y", "yes"):
                print("nothing was removed")
                return 1
        remove(layout, self.name)
        print(f"{self.name}: removed, {megabytes(size_bytes)} freed")
        return 0
