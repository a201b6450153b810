"""`trm-eval sync`: copies results from one root to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Exit, emit
from trm_data.storage.root import resolve_root, root_to_read


@dataclass(frozen=True, kw_only=True)
class Sync:
    """Copy results from one root to another; existing files are skipped, an interrupted copy resumes.

    Every file is checked at the target; rows that name other files are copied last.

    For example:

      trm-eval sync gs://bucket/trm ./trm
      trm-eval sync ./trm gs://bucket/trm quickstart
    """

    source: Annotated[Positional[str], arg(metavar="SRC")]
    """Root to copy from: a folder or gs://bucket/prefix."""
    target: Annotated[Positional[str], arg(metavar="DST")]
    """Root to copy to."""
    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="[RUN ...]", help_behavior_hint="")] = ()
    """Names of runs or experiments; all results if none is named."""
    json: bool = False
    """Print JSON for machines."""

    def run(self) -> int:
        """Copy the results."""
        from trm_data.show.progress import terminal_progress
        from trm_eval.sync import sync_results

        with terminal_progress(quiet=self.json) as progress:
            done = sync_results(
                root_to_read(self.source), resolve_root(self.target), list(self.runs), progress
            )
        said = (
            f"results: {done.files_copied} files, {done.bytes_copied / 1e6:.1f} MB copied, "
            f"{done.files_kept} were there, {done.seconds:.1f} s"
        )
        emit(done, said, as_json=self.json)
        return Exit.DONE
