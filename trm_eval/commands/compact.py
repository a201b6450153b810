"""`trm-eval compact`: many small files of results become few."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from trm_data.command import Json, Root, say_what_is_left_out
from trm_data.storage.root import root_to_read

if TYPE_CHECKING:
    from trm_eval.compact import Compacted


@dataclass(frozen=True, kw_only=True)
class Compact:
    """Merge the small files of results and metrics of each run into few, and remove what nothing names any more.

    What SQL answers stays the same. Every file is checked before it is merged and what was merged is read back before
    anything is removed; it may be killed at any moment and run again, and others may read meanwhile. Runs that are
    being evaluated or trained are left as they are, and so are files of format 1 and of newer versions.

    For example:

      trm-eval compact --dry-run
      trm-eval compact
      trm-eval compact 'exp01*' --superseded
      trm-eval compact --root gs://bucket/trm --alone
    """

    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="[RUN ...]", help_behavior_hint="")] = ()
    """Names of runs or experiments, or globs; all if none is named."""
    superseded: bool = False
    """Remove evaluations that a newer one of the same request has superseded (all_evals without evals)."""
    alone: bool = False
    """On a bucket: no other machine evaluates there now, so that files which nothing names can go too."""
    dry_run: bool = False
    """Say what would be done; change nothing."""
    root: Root = None
    json: Json = False

    def command(self) -> int:
        """Compact them and say what became of the files."""
        from trm_data.show.progress import terminal_progress
        from trm_eval.compact import compact_results

        with terminal_progress(quiet=self.json) as progress:
            done, problems = compact_results(
                root_to_read(self.root),
                self.runs,
                superseded=self.superseded,
                alone=self.alone,
                dry_run=self.dry_run,
                progress=progress,
            )
        if self.json:
            print(json.dumps([asdict(one) for one in done], indent=1))
            return say_what_is_left_out("trm-eval", problems, skip=False)
        for one in done:
            if one.files_after != one.files_before or one.evaluations_removed or one.unnamed_left:
                gone = f", {one.evaluations_removed} evaluations removed" if one.evaluations_removed else ""
                left = f", {one.unnamed_left} that nothing names stay (--alone)" if one.unnamed_left else ""
                print(f"{one.run}: {one.files_before} files, {one.files_after} after{gone}{left}")
        before, after = sum(one.files_before for one in done), sum(one.files_after for one in done)
        would = "would become" if self.dry_run else "are now"
        print(f"{len(done)} runs: {before:,} files {would} {after:,}{self._size(done)}")
        return say_what_is_left_out("trm-eval", problems, skip=False)

    def _size(self, done: list[Compacted]) -> str:
        """How large they were and are; nothing of a dry run."""
        if self.dry_run:
            return ""
        before, after = sum(one.bytes_before for one in done), sum(one.bytes_after or 0 for one in done)
        return f", {before / 1e6:.1f} MB are now {after / 1e6:.1f} MB"
