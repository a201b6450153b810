"""`trm-data verify`."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trm_data.command import Json, Root, emit
from trm_data.commands.common import Names, chosen, is_glob
from trm_data.errors import CorruptDatasetError
from trm_data.storage.root import resolve_root

if TYPE_CHECKING:
    from trm_data.verify.flow import Verification


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Verify datasets: files, rows, counts, digests, every puzzle, and that the splits are disjoint.

    Exit code 1 if any dataset is damaged; all are checked. With --json, one dataset gives an object, several or a glob
    a list.

    For example:

      trm-data verify sudoku-generated-500-aug-1000
      trm-data verify 'sudoku-*' 'maze-*'
    """

    names: Names
    """Datasets, by name or glob."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Verify and print the verdicts."""
        from trm_data.manifest import read_manifest
        from trm_data.show.progress import terminal_progress
        from trm_data.verify.flow import verify_dataset

        layout = resolve_root(self.root)
        names = chosen(layout, self.names)
        for name in self.names:
            if not is_glob(name):
                with suppress(CorruptDatasetError):  # its own check reports it
                    read_manifest(layout, name)  # a missing dataset is reported at once, not after minutes
        facts: list[dict[str, Any]] = []
        for name in names:
            with terminal_progress(quiet=self.json) as progress:
                found = verify_dataset(layout, name, progress)
            facts.append({**asdict(found), "whole": found.whole})
            if not self.json:
                _print_verdict(name, found)
        alone = len(self.names) == 1 and not is_glob(self.names[0])
        wrong = sum(not each["whole"] for each in facts)
        said = f"{len(names)} datasets, {f'{wrong} of them wrong' if wrong else 'all whole'}"
        emit(facts[0] if alone else facts, said if len(names) > 1 else (), as_json=self.json)
        return 1 if wrong else 0


def _print_verdict(name: str, verification: Verification) -> None:
    if verification.whole:
        checked = ", ".join(f"{count:,} {what}" for what, count in verification.counts.items())
        print(f"{name}: whole ({checked}; {verification.seconds:.1f} s)", flush=True)
        for note in verification.notes:
            print(f"  {note}")
    else:
        print(f"{name}: {len(verification.problems)} wrong", file=sys.stderr)
        for problem in verification.problems:
            print(f"  {problem}", file=sys.stderr)
