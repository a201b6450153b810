"""`trm-train import-weights` and `export-weights`: weights with the names of the published code."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Json, Root, emit
from trm_data.errors import Exit
from trm_data.storage.root import resolve_root
from trm_train.commands.common import DataOption, ScaleOption
from trm_train.config.overrides import parse_config
from trm_train.experiments.registry import find_run_of
from trm_train.experiments.setting import parse_setting


@dataclass(frozen=True, kw_only=True)
class ImportWeights:
    """Import published weights as a run that trm-eval run evaluates.

    FILE is .safetensors or .npz, with the tensors of the published code; docs/training.md converts a file of PyTorch.
    The network is that of the experiment; override its options if the weights differ. The run has
    one checkpoint, at step 0, and is never trained; trm-train run --init-from starts from it.

    For example:

      trm-train import-weights sudoku.safetensors --as trm_sudoku_mlp --dataset sudoku-extreme-1k-aug-1000
      trm-train import-weights arc.safetensors --as trm_arc1 --dataset arc1 --identifiers identifiers.json
      trm-train import-weights small.safetensors --as quickstart --dataset mine6 --model.hidden-size 64
    """

    file: Annotated[Positional[str], arg(metavar="FILE")]
    """File of weights."""
    experiment: Annotated[str, arg(name="as", metavar="EXPERIMENT")]
    """Experiment with the network of the weights; it names the run."""
    dataset: Annotated[str, arg(metavar="NAME")]
    """Dataset that the weights were trained on, built or imported (trm-data list)."""
    identifiers: Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """identifiers.json of the published dataset: the names of the embedding rows (needed for ARC)."""
    scale: ScaleOption = None
    data: DataOption = None
    root: Root = None
    json: Json = False

    def run(self, overrides: Sequence[str]) -> int:
        """Import the weights and print how to evaluate the run.

        Args:
            overrides: Options of the configuration.
        """
        from trm_train.training.initial import import_weights

        item = find_run_of(self.experiment, parse_setting(self.scale, self.data))
        words = [*overrides, "--data.dataset", self.dataset]
        config = parse_config(item.make(), words, "trm-train import-weights")
        names = None if self.identifiers is None else Path(self.identifiers).expanduser()
        done = import_weights(
            Path(self.file).expanduser(), item, config, resolve_root(self.root), identifiers=names
        )
        said = [f"{done.run}: {'was there already' if done.unchanged else f'is now in {done.folder}'}"]
        if done.rows:
            said.append(
                f"  {done.matched:,} of {done.identifiers:,} identifiers of {done.dataset} matched, "
                f"{done.rows:,} embedding rows in the file"
            )
        if done.rows and done.matched < done.identifiers:
            said.append("  the others have the mean of the rows of the file")
        root = "" if self.root is None else f" --root {shlex.quote(self.root)}"
        said.append(f"  evaluate it: trm-eval run {done.run}{root}")
        emit(done, said, as_json=self.json)
        return Exit.DONE


@dataclass(frozen=True, kw_only=True)
class ExportWeights:
    """Write the averaged weights of a run under the names of the published code, as .safetensors.

    Names have no prefix; matrices are [out, in], all float32. Only architectures of the published code have such
    names; trm-eval export writes every run.

    For example:

      trm-train export-weights quickstart --out quickstart.safetensors
      trm-train export-weights quickstart@1000 --out step-1000.safetensors
    """

    run_: Annotated[Positional[str], arg(metavar="RUN[@STEP]")]
    """A run's name or folder, or an experiment: the run that it defines; without a step its newest checkpoint."""
    out: Annotated[str, arg(metavar="FILE")]
    """File to write (.safetensors); it must not exist."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Write the file and print its contents."""
        from trm_train.training.initial import export_weights, find_saved

        run, step = find_saved(resolve_root(self.root), self.run_)
        done = export_weights(run, step, Path(self.out).expanduser())
        said = [f"{done.run}: step {done.step:,}, {done.tensors} tensors, in {done.file}"]
        if done.identifiers > 1:
            names = done.dataset.split("+")
            exports = ", ".join(f"trm-data export {name}" for name in names)
            said.append(
                f"  its {done.identifiers:,} embedding rows are those of the identifiers of {', then '.join(names)}, "
                f"in order (identifiers.json of {exports})"
            )
        emit(done, said, as_json=self.json)
        return Exit.DONE
