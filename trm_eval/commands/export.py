"""`trm-eval export`: writes a run as a folder for others."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Json, Root, emit
from trm_data.errors import Exit
from trm_data.storage.root import resolve_root
from trm_train.commands.common import DataOption, ScaleOption
from trm_train.experiments.setting import parse_setting


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a run as a folder for others: weights as safetensors, configuration, results and a model card.

    The folder needs neither this root nor Orbax. `trm-eval run DIR`, `trm-eval predict DIR` and `trm-train run
    --init-from DIR` take it as a run. Puzzles are not in it: its card has the command that builds them. `hf upload
    OWNER/NAME DIR` shares it on the Hugging Face hub.

    For example:

      trm-eval export quickstart quickstart-weights
      trm-eval export exp01a exp01a-weights --scale tiny --checkpoint best --license apache-2.0
    """

    reference: Annotated[Positional[str], arg(metavar="RUN")]
    """A run's name or folder, or an experiment: the run that it defines (at --scale and --data, if given)."""
    out: Annotated[Positional[str], arg(metavar="DIR")]
    """Folder to write; it must not exist."""
    license: Annotated[str, arg(metavar="ID", help_behavior_hint="")] = ""
    """Licence of the weights for the card, as the hub spells it, such as apache-2.0."""
    checkpoint: str = "last"
    """A step, last, or best (highest exact accuracy on the validation split)."""
    scale: ScaleOption = None
    data: DataOption = None
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Export the run and print a summary."""
        from trm_eval.export import export_run
        from trm_train.runs.record import find_run

        layout = resolve_root(self.root)
        run = find_run(layout, self.reference, parse_setting(self.scale, self.data))
        out = Path(self.out).expanduser()
        done = export_run(layout, run, out, checkpoint=self.checkpoint, license=self.license)
        lines = [
            f"{done.run}: step {done.step:,}, {done.evaluations} evaluations, {len(done.files)} files, "
            f"{done.size_bytes / 1e6:.1f} MB",
            f"  in {out}: trm-eval run {shlex.quote(str(out))}",
        ]
        if not self.license:
            lines.append(
                "  its card states no licence: choose one before you share it (--license, or in README.md)"
            )
        emit(asdict(done), lines, as_json=self.json)
        return Exit.DONE
