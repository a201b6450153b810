"""`trm-train sync`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Exit, emit, say_what_is_left_out
from trm_data.storage.root import resolve_root, root_to_read


@dataclass(frozen=True, kw_only=True)
class Sync:
    """Copy runs from one root to another; existing files are skipped, an interrupted copy resumes.

    Every file is checked at the target. A run with more steps at the target is not overwritten.

    For example:

      trm-train sync ./trm gs://bucket/trm
      trm-train sync gs://bucket/trm ./trm quickstart
    """

    source: Annotated[Positional[str], arg(metavar="SRC")]
    """Root to copy from: a folder or gs://bucket/prefix."""
    target: Annotated[Positional[str], arg(metavar="DST")]
    """Root to copy to."""
    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="[RUN ...]", help_behavior_hint="")] = ()
    """Names of runs, or experiments: the run that each defines; all if none is named."""
    json: bool = False
    """Print JSON for machines."""

    def run(self) -> int:
        """Copy the runs."""
        from trm_data.show.progress import terminal_progress
        from trm_train.runs.sync import sync_runs

        foreign: list[str] = []
        with terminal_progress(quiet=self.json) as progress:
            done = sync_runs(
                root_to_read(self.source), resolve_root(self.target), list(self.runs), progress, foreign
            )
        say_what_is_left_out("trm-train", foreign, skip=True)
        said = [
            f"{one.run}: {one.files_copied} files, {one.bytes_copied / 1e6:.1f} MB copied, {one.files_kept} were "
            f"there, {one.seconds:.1f} s"
            for one in done
        ]
        emit(done, said or f"no runs under {self.source}", as_json=self.json)
        return Exit.DONE
