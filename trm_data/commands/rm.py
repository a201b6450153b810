"""`trm-data rm`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trm_data.command import Exit, Root, confirm
from trm_data.commands.common import Names, chosen, megabytes
from trm_data.storage.root import resolve_root

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, kw_only=True)
class Remove:
    """Remove datasets, or the remains of a killed build, after confirmation.

    For example:

      trm-data rm sudoku-generated-500-aug-1000
      trm-data rm 'sudoku-2x2-*' maze-30x30-generated-1000-aug-7-rule --yes
      trm-data rm 'sudoku-2x2-*' --dry-run
    """

    names: Names
    """Datasets, by name or glob."""
    yes: bool = False
    """Skip the confirmation."""
    dry_run: bool = False
    """Print what would be removed; remove nothing."""
    root: Root = None

    def run(self) -> int:
        """Confirm once, then remove the datasets."""
        from trm_data.removal import remove, size_to_remove

        layout = resolve_root(self.root)
        sizes = {name: size_to_remove(layout, name) for name in chosen(layout, self.names)}
        what = ", ".join(f"{name} ({megabytes(size_bytes)})" for name, size_bytes in sizes.items())
        if self.dry_run:
            print(f"would remove {what} under {layout.place}; nothing was removed")
            return 0
        if not self.yes and not confirm("trm-data", "rm", f"remove {what} under {layout.place}"):
            return Exit.FOUND if sys.stdin.isatty() else Exit.ERROR
        for name, size_bytes in sizes.items():
            remove(layout, name)
            print(f"{name}: removed, {megabytes(size_bytes)} freed", flush=True)
        return 0
