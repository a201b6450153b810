"""What a run would be, compiled but without a step: for `trm-train run --dry-run`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from trm_data.storage.root import Layout
from trm_train.config.run import RunConfig, config_to_json
from trm_train.experiments.registry import Experiment
from trm_train.run.prepare import prepare
from trm_train.step.compile import compile_train_step


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What would run.

    Attributes:
        run: Name of the run.
        folder: Where it would lie.
        config: The resolved configuration.
        dataset: Name, digest and training groups of the dataset.
        num_parameters: Trained parameters of the network.
        num_embedding_parameters: Elements of the puzzle-embedding table.
        total_steps: Optimizer steps.
        epochs: At most that many: rows loaded over groups, if every slot halted at every step.
        batch: Shape and type of each array of a global batch.
        mesh: Devices along each axis.
        memory_bytes: Of the compiled step on one device.
        compile_s: Time to compile.
    """

    run: str
    folder: str
    config: dict[str, Any]
    dataset: dict[str, Any]
    num_parameters: int
    num_embedding_parameters: int
    total_steps: int
    epochs: float
    batch: dict[str, str]
    mesh: dict[str, int]
    memory_bytes: dict[str, int] | None
    compile_s: float

    def text(self) -> str:
        """The plan for a person."""
        memory = self.memory_bytes or {}
        lines = [
            f"{self.run}  (dry run: no step is taken)",
            f"  folder      {self.folder}",
            f"  dataset     {self.dataset['name']}, digest {self.dataset['content_digest'][:12]}, "
            f"{self.dataset['groups']:,} groups",
            f"  parameters  {self.num_parameters:,} and {self.num_embedding_parameters:,} of the puzzle embedding",
            f"  steps       {self.total_steps:,} (at most {self.epochs:,.0f} epochs of rows loaded)",
            f"  mesh        {', '.join(f'{axis} {size}' for axis, size in self.mesh.items())}",
            f"  batch       {', '.join(f'{name} {shape}' for name, shape in self.batch.items())}",
            f"  memory      {', '.join(f'{name} {size / 1e6:,.1f} MB' for name, size in memory.items())}",
            f"  compiled    in {self.compile_s:.1f} s",
            "  configuration",
            *("    " + line for line in json.dumps(self.config, indent=1).splitlines()),
        ]
        return "\n".join(lines)


def plan_run(experiment: Experiment, config: RunConfig, layout: Layout) -> RunPlan:
    """Compile the training step of a run and describe it.

    Raises:
        ConfigError: The configuration cannot be run.
        DatasetNotFoundError: Its dataset is not built.
    """
    prepared = prepare(experiment, config, layout)
    manifest, mesh, record = prepared.manifest, prepared.mesh, prepared.record
    compiled, _, _ = compile_train_step(config, record.input_spec, mesh)
    groups = manifest.splits["train"].num_groups
    return RunPlan(
        run=record.run,
        folder=prepared.folder.place,
        config=config_to_json(config),
        dataset={"name": manifest.name, "content_digest": manifest.content_digest, "groups": groups},
        num_parameters=compiled.num_parameters,
        num_embedding_parameters=compiled.num_embedding_parameters,
        total_steps=config.total_steps,
        epochs=config.total_steps * config.data.global_batch_size / groups,
        batch={name: f"{value.dtype}{list(value.shape)}" for name, value in compiled.batch.items()},
        mesh=dict(mesh.shape),
        memory_bytes=compiled.memory_bytes,
        compile_s=compiled.seconds,
    )
