"""The commands that check, move and remove datasets: `verify`, `rm`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass

from trm_data.command import Root
from trm_data.commands.common import Json, Name, megabytes
from trm_data.layout import resolve_root


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Check a dataset: files, rows, counts, digests, every puzzle, and that the splits share none.

    Exits with 1 and a list of what is wrong if anything is.
    """

    name: Name
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Verify and print the verdict."""
        from trm_data.progress import terminal_progress
        from trm_data.verify import verify_dataset

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
class Remove:
    """Remove a dataset, after asking.

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
            answer = input(f"remove {self.name} ({megabytes(size_bytes)}) under {layout.root}? [y/N] ")
            if answer.strip().lower() not in ("y", "yes"):
                print("nothing was removed")
                return 1
        remove(layout, self.name)
        print(f"{self.name}: removed, {megabytes(size_bytes)} freed")
        return 0
