"""`trm-eval bundle`: packs all files that a notebook without a network needs to answer a competition's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.command import Exit, Json, Root, emit
from trm_data.storage.root import resolve_root
from trm_eval.errors import EvalError
from trm_train.commands.common import DataOption, ScaleOption
from trm_train.experiments.setting import parse_setting

if TYPE_CHECKING:
    from trm_eval.bundle.make import Bundle as Made
    from trm_eval.bundle.target import Target


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """Bundle an ARC run for a Kaggle notebook that has no network.

    Writes a folder to upload as a data set. It contains the wheels of this package and its dependencies in the
    installed versions, with their sha256 in wheels.txt; the run as packed by trm-eval export; and notebook.ipynb. The
    notebook installs the wheels, builds the competition's tasks, learns their embeddings (trm-eval run --adapt), and
    writes submission.json. uv (extra `bundle`) resolves the wheels, and pip downloads them.

    For example:

      trm-eval bundle trm_arc1 --kaggle bundle --dry-run
      trm-eval bundle trm_arc1 --kaggle bundle --python 3.12 --accelerator cuda --adapt 240
    """

    reference: Annotated[Positional[str], arg(metavar="RUN")]
    """A run's name or folder, or an experiment: the run that it defines (at --scale and --data, if given)."""
    kaggle: Annotated[str, arg(metavar="DIR")]
    """Folder to write; it must be empty or not exist."""
    python: Annotated[str | None, arg(metavar="3.N", help_behavior_hint="")] = None
    """Python of the notebook (default: the Python that runs this command)."""
    platform: Annotated[str, arg(metavar="TAG")] = "manylinux_2_28_x86_64"
    """Newest platform tag of wheels for the notebook; older tags work too. libtpu needs manylinux_2_31_x86_64."""
    accelerator: Literal["cpu", "cuda", "tpu"] = "cpu"
    """Accelerator of the notebook; the wheels of this extra are included."""
    aug: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Augmentations of each of the competition's tasks (default: as many as the run learned from)."""
    adapt: Annotated[float, arg(metavar="MINUTES")] = 60.0
    """Minutes that the notebook learns the tasks before it answers them."""
    checkpoint: str = "last"
    """A step, last, or best (highest exact accuracy on the validation split)."""
    dry_run: bool = False
    """List the wheels and their sizes; write nothing."""
    scale: ScaleOption = None
    data: DataOption = None
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Make the bundle and print its contents."""
        from trm_data.show.progress import terminal_progress
        from trm_eval.bundle.make import Wanted, make_bundle, plan_bundle
        from trm_eval.bundle.target import parse_target, this_python
        from trm_train.runs.record import find_run

        if not self.kaggle:
            raise EvalError("--kaggle: got ''; expected a folder")
        target = parse_target(this_python() if self.python is None else self.python, self.platform)
        extras = () if self.accelerator == "cpu" else (self.accelerator,)
        wanted = Wanted(
            target=target, extras=extras, checkpoint=self.checkpoint, aug=self.aug, minutes=self.adapt
        )
        layout = resolve_root(self.root)
        run = find_run(layout, self.reference, parse_setting(self.scale, self.data))
        out = Path(self.kaggle).expanduser().absolute()
        with terminal_progress(quiet=self.json) as progress:
            if self.dry_run:
                made = plan_bundle(layout, run, wanted, progress)
            else:
                made = make_bundle(layout, run, out, wanted, progress)
        facts = {**asdict(made), "python": target.python, "platform": self.platform}
        emit(facts, self._lines(made, target), as_json=self.json)
        return Exit.DONE

    def _lines(self, made: Made, target: Target) -> Iterator[str]:
        from trm_eval.bundle.notebook import NOTEBOOK

        total = sum(size or 0 for size in made.wheels.values())
        if self.dry_run:
            for name, size in made.wheels.items():
                yield f"{'?' if size is None else f'{size / 1e6:.2f}':>9} MB  {name}"
            yield f"{len(made.wheels)} wheels for {target}, {total / 1e6:.0f} MB, and this package's own"
            return
        yield f"{made.run}: step {made.step:,}, {len(made.wheels)} wheels for {target}, {total / 1e6:.0f} MB"
        size = f"{made.size_bytes / 1e6:.0f} MB"
        yield f"  in {self.kaggle} ({size}): upload it as a data set, attach it and the tasks,"
        yield f"  and run {NOTEBOOK}: it writes submission.json"
