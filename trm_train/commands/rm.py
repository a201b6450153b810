"""`trm-train rm`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Exit, Root, confirm
from trm_data.commands.common import megabytes
from trm_data.storage.root import resolve_root
from trm_data.storage.store import Folder


@dataclass(frozen=True, kw_only=True)
class Remove:
    """Remove runs with their results, after confirmation.

    For example:

      trm-train rm quickstart-2626ad84-s0
    """

    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="RUN [RUN ...]", help_behavior_hint="")]
    """Names of runs, or experiments: the run that each defines."""
    yes: bool = False
    """Skip the confirmation."""
    dry_run: bool = False
    """Print what would be removed; remove nothing."""
    root: Root = None

    def run(self) -> int:
        """Confirm, then remove the runs."""
        from trm_train.errors import ConfigError
        from trm_train.runs.prune import remove_run, size_of_run
        from trm_train.runs.record import find_run

        if not self.runs:
            raise ConfigError("no runs named (expected trm-train rm RUN ...; trm-train status lists them)")
        layout = resolve_root(self.root)
        found: dict[str, Folder] = {}
        for name in self.runs:
            run = find_run(layout, name)
            if name not in (run.name, run.path.split("/")[-2]) and "/" not in name:
                raise ConfigError(
                    f"{name} shares its run with other experiments. To remove it for all: rm {run.name}"
                )
            found[run.name] = run
        sizes = {name: size_of_run(layout, run) for name, run in found.items()}
        shown = ", ".join(f"{name} ({megabytes(size)})" for name, size in sizes.items())
        if self.dry_run:
            print(f"would remove {shown} with results, under {layout.place}; nothing was removed")
            return Exit.DONE
        if not self.yes and not confirm(
            "trm-train", "rm", f"remove {shown} with results, under {layout.place}"
        ):
            return Exit.FOUND if sys.stdin.isatty() else Exit.ERROR
        for name, run in found.items():
            remove_run(layout, run)
            print(f"{name}: removed, {megabytes(sizes[name])} freed")
        return Exit.DONE
