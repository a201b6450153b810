"""`trm-eval import`: imports a package of `trm-eval export` as a run under this root."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Exit, Json, Root, emit
from trm_data.storage.root import resolve_root


@dataclass(frozen=True, kw_only=True)
class Import:
    """Import a package of `trm-eval export` as a run under this root.

    Every file is checked against the digests of the package; an edited or damaged file is refused, and nothing in it
    is executed. Accuracies of the package are not imported: evaluate the run. Digests do not authenticate the author
    of a package: use a source that you trust, at a commit (@REV).

    For example:

      trm-eval import quickstart-package --root ./trm
      trm-eval import hf:me/quickstart --root ./trm
      trm-eval import hf:me/quickstart@0123456789abcdef0123456789abcdef01234567
    """

    package: Annotated[Positional[str], arg(metavar="DIR|hf:OWNER/NAME[@REV]")]
    """Folder of a package, or a repository of the Hugging Face hub ($HF_ENDPOINT), at a branch, tag or commit."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Import the package and print how to evaluate the run."""
        from trm_eval.package.hub import PREFIX, fetch_package
        from trm_eval.package.unpack import unpack_run

        layout = resolve_root(self.root)
        folder, commit = Path(self.package).expanduser(), None
        if self.package.startswith(PREFIX):
            folder, commit = fetch_package(self.package)
        done = unpack_run(folder, layout)
        there = "was there already" if done.unchanged else f"is now in {done.folder}"
        said = [f"{done.run}: step {done.step:,} {there}{'' if commit is None else f' (commit {commit})'}"]
        if done.card_edited:
            said.append("  its card was edited after it was packed (nothing is read from it)")
        root = "" if self.root is None else f" --root {shlex.quote(self.root)}"
        said.append(
            f"  with {' and '.join(done.datasets)} built there (see its card): trm-eval run {done.run}{root}"
        )
        emit({**asdict(done), "commit": commit}, said, as_json=self.json)
        return Exit.DONE
