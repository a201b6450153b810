"""`trm-eval export`: packs a run for other users, as a folder or on the Hugging Face hub."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Exit, Json, Root, emit
from trm_data.storage.root import resolve_root
from trm_eval.errors import EvalError
from trm_train.commands.common import DataOption, ScaleOption
from trm_train.experiments.setting import parse_setting


@dataclass(frozen=True, kw_only=True)
class Export:
    """Pack a run for others: weights, configuration, results, a recipe of its data, and a card.

    The package is a folder of plain files that needs neither this root nor Orbax. It has weights as .npz under the
    published names, evaluations as JSON and Parquet, and a README.md for the Hugging Face hub. Puzzles
    are never packed. Choose the licence yourself: --license, or in the card.

    For example:

      trm-eval export quickstart --out quickstart-package
      trm-eval export exp01a --scale tiny --checkpoint best --out exp01a --license apache-2.0
      trm-eval export quickstart --push me/quickstart --private
    """

    reference: Annotated[Positional[str], arg(metavar="RUN")]
    """A run's name or folder, or an experiment: the run that it defines (at --scale and --data, if given)."""
    out: Annotated[str | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """Folder to write; it must not exist. Optional with --push."""
    push: Annotated[str | None, arg(metavar="OWNER/NAME", help_behavior_hint="")] = None
    """Model repository of the Hugging Face hub ($HF_ENDPOINT, $HF_TOKEN) to push to; created if missing."""
    private: bool = False
    """Make a new repository private."""
    license: Annotated[str, arg(metavar="ID", help_behavior_hint="")] = ""
    """Licence of the weights for the card, as the hub spells it, such as apache-2.0."""
    checkpoint: str = "last"
    """A step, last, or best (highest exact accuracy on the validation split)."""
    scale: ScaleOption = None
    data: DataOption = None
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Pack the run, push it if requested, and print a summary."""
        from trm_eval.package.hub import PREFIX, check_repository, push_package
        from trm_eval.package.pack import HERE, pack_run
        from trm_train.runs.record import find_run

        if self.out is None and self.push is None:
            raise EvalError(
                "no destination (expected --out DIR for a folder, or --push OWNER/NAME for the hub)"
            )
        place = HERE if self.push is None else f"{PREFIX}{check_repository(self.push)}"
        layout = resolve_root(self.root)
        run = find_run(layout, self.reference, parse_setting(self.scale, self.data))
        with _folder(self.out, run.name) as folder:
            packed = pack_run(
                layout, run, folder, checkpoint=self.checkpoint, place=place, license=self.license
            )
            commit = None if self.push is None else push_package(folder, self.push, private=self.private)
        said = [
            f"{packed.run}: step {packed.step:,}, {packed.evaluations} evaluations, {len(packed.files)} files, "
            f"{packed.size_bytes / 1e6:.1f} MB, digest {packed.digest[:16]}"
        ]
        if self.out is not None:
            said.append(f"  in {self.out}: trm-eval import {shlex.quote(str(self.out))} --root DIR")
        if self.push is not None:
            said.append(f"  at {place}: trm-eval import {place}@{commit} --root DIR")
        if not self.license:
            said.append(
                "  its card states no licence: choose one before you share it (--license, or in README.md)"
            )
        facts = {**asdict(packed), "folder": self.out, "pushed": self.push, "commit": commit}
        emit(facts, said, as_json=self.json)
        return Exit.DONE


@contextmanager
def _folder(out: str | None, name: str) -> Generator[Path, None, None]:
    """Context with the folder to write; a temporary folder if the user gave none."""
    if out is not None:
        yield Path(out).expanduser()
        return
    with tempfile.TemporaryDirectory(prefix="trm-eval-") as parent:
        yield Path(parent) / name
