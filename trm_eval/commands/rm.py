"""`trm-eval rm`: removes evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Json, Root, emit, say_what_is_left_out
from trm_data.storage.root import root_to_read
from trm_eval.errors import EvalError


@dataclass(frozen=True, kw_only=True)
class Remove:
    """Remove superseded evaluations with their predictions.

    A newer evaluation of the same request supersedes an older one. `trm-train rm` removes a run with all its results.

    For example:

      trm-eval rm --superseded --dry-run
      trm-eval rm 'exp01*' --superseded
    """

    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="[RUN ...]", help_behavior_hint="")] = ()
    """Names of runs or experiments, or globs; all if none is named."""
    superseded: bool = False
    """Required; confirms that superseded evaluations are removed."""
    dry_run: bool = False
    """Print what would be removed; remove nothing."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Remove the evaluations and print each."""
        from trm_eval.removal import remove_superseded

        if not self.superseded:
            raise EvalError("trm-eval rm removes superseded evaluations only: add --superseded")
        removed, problems = remove_superseded(root_to_read(self.root), self.runs, dry_run=self.dry_run)
        would = "would be removed" if self.dry_run else "removed"
        said = [f"{one.run}: evaluation {one.evaluation}, {one.files} files, {would}" for one in removed]
        emit(removed, said or "no evaluation is superseded", as_json=self.json)
        return say_what_is_left_out("trm-eval", problems, skip=False)
