"""The commands that check, move and remove datasets: `verify`, `import`, `export`, `rm`."""

from __future__ import annotations

import json
import sys
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from trm_data.command import Json, Root
from trm_data.commands.common import Name, Names, chosen, is_glob, megabytes
from trm_data.errors import CorruptDatasetError, SpecError
from trm_data.storage.root import resolve_root

if TYPE_CHECKING:
    from trm_data.verify.flow import Verification


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Check datasets: files, rows, counts, digests, every puzzle, and that the splits share none.

    Exits with 1 and a list of what is wrong if anything is; the others are checked all the same. With --json one
    dataset is an object, several or a glob are a list of them.

    For example:

      trm-data verify sudoku-generated-500-aug-1000
      trm-data verify 'sudoku-*' 'maze-*'
      trm-data verify exported/
    """

    names: Names
    """Datasets, by name or glob; or folders that `trm-data export` wrote."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Verify and print the verdicts."""
        from trm_data.manifest import read_manifest
        from trm_data.show.progress import terminal_progress
        from trm_data.verify.exported import is_exported, verify_exported
        from trm_data.verify.flow import verify_dataset

        layout = resolve_root(self.root)
        folders = [name for name in self.names if "/" in name or is_exported(Path(name))]
        for name in folders:
            if not is_exported(Path(name)):
                raise SpecError(
                    f"{name}: no folder that `trm-data export` wrote, and no name of a dataset (trm-data list)"
                )
        datasets = [name for name in self.names if name not in folders]
        names = [*folders, *(chosen(layout, datasets) if datasets or not folders else [])]
        for name in datasets:
            if not is_glob(name):
                with suppress(CorruptDatasetError):  # that one is found and said by its check
                    read_manifest(layout, name)  # one that is not there is said at once, not after minutes
        facts: list[dict[str, Any]] = []
        for name in names:
            with terminal_progress(quiet=self.json) as progress:
                exported = name in folders
                found = verify_exported(Path(name)) if exported else verify_dataset(layout, name, progress)
            facts.append({**asdict(found), "whole": found.whole})
            if not self.json:
                _print_verdict(name, found)
        if self.json:
            alone = len(self.names) == 1 and not is_glob(self.names[0])
            print(json.dumps(facts[0] if alone else facts, indent=1))
        wrong = sum(not each["whole"] for each in facts)
        if len(names) > 1 and not self.json:
            print(
                f"{len(names)} datasets, {wrong} of them wrong"
                if wrong
                else f"{len(names)} datasets, all whole"
            )
        return 1 if wrong else 0


def _print_verdict(name: str, found: Verification) -> None:
    if found.whole:
        checked = ", ".join(f"{count:,} {what}" for what, count in found.counts.items())
        print(f"{name}: whole ({checked}; {found.seconds:.1f} s)", flush=True)
        for note in found.notes:
            print(f"  {note}")
    else:
        print(f"{name}: {len(found.problems)} wrong", file=sys.stderr)
        for problem in found.problems:
            print(f"  {problem}", file=sys.stderr)


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
    """A folder that `trm-data export` wrote, or of the published code."""
    name: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Name of the dataset (default: that of the folder)."""
    kind: Annotated[str | None, arg(metavar="sudoku|maze|arc|rows", help_behavior_hint="")] = None
    """Whose rules the rows follow: checked by them, rated and drawn (default: as export.json says, else rows alone)."""
    root: Root = None
    workers: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Processes (default: one for each core)."""
    json: Json = False
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        """Import them and say what came."""
        from trm_data.building.flow import build_dataset
        from trm_data.commands.built import print_built
        from trm_data.engine.local import LocalEngine
        from trm_data.kinds.registry import import_request
        from trm_data.show.progress import terminal_progress
        from trm_data.verify.exported import check_exported_rows

        check_exported_rows(Path(self.folder).expanduser())
        request = import_request(self.folder, self.name, self.kind)
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
    """Remove datasets, or what a killed build left of one, after asking.

    For example:

      trm-data rm sudoku-generated-500-aug-1000
      trm-data rm 'sudoku-2x2-*' maze-30x30-generated-1000-aug-7 --yes
      trm-data rm 'sudoku-2x2-*' --dry-run
    """

    names: Names
    """Datasets, by name or glob."""
    yes: bool = False
    """Do not ask."""
    dry_run: bool = False
    """Say what would be removed; remove nothing."""
    root: Root = None

    def run(self) -> int:
        """Ask once, then remove them."""
        from trm_data.removal import remove, size_to_remove

        layout = resolve_root(self.root)
        sizes = {name: size_to_remove(layout, name) for name in chosen(layout, self.names)}
        what = ", ".join(f"{name} ({megabytes(size_bytes)})" for name, size_bytes in sizes.items())
        if self.dry_run:
            print(f"would remove {what} under {layout.place}; nothing was removed")
            return 0
        if not self.yes:
            if not sys.stdin.isatty():
                print(f"trm-data: rm {what}: nobody to ask; add --yes to remove it", file=sys.stderr)
                return 2
            answer = input(f"remove {what} under {layout.place}? [y/N] ")
            if answer.strip().lower() not in ("y", "yes"):
                print("nothing was removed")
                return 1
        for name, size_bytes in sizes.items():
            remove(layout, name)
            print(f"{name}: removed, {megabytes(size_bytes)} freed", flush=True)
        return 0
