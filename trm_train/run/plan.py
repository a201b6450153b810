"""What a run would be, compiled but without a step: for `trm-train run --dry-run`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from jax.sharding import Mesh

from trm_data.errors import DatasetNotFoundError
from trm_data.storage.root import Layout
from trm_train.config.run import InputSpec, RunConfig, config_to_json
from trm_train.experiments.dataset import plan_dataset
from trm_train.experiments.registry import Experiment
from trm_train.mesh.sharding import make_mesh
from trm_train.run.prepare import check_batch, prepare
from trm_train.run.record import run_folder, run_name
from trm_train.step.compile import compile_train_step


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What would run.

    Attributes:
        run: Name of the run.
        folder: Where it would lie.
        config: The resolved configuration.
        dataset: Name, digest, training groups and identifiers of the dataset, and whether it is built.
        num_parameters: Trained parameters of the network.
        num_embedding_parameters: Elements of the puzzle-embedding table.
        total_steps: Optimizer steps.
        epochs: At most that many: rows loaded over groups, if every slot halted at every step; None where
            the groups are not known.
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
    epochs: float | None
    batch: dict[str, str]
    mesh: dict[str, int]
    memory_bytes: dict[str, int] | None
    compile_s: float

    def text(self) -> str:
        """The plan for a person."""
        memory = self.memory_bytes or {}
        epochs = "epochs unknown until the dataset is built"
        if self.epochs is not None:
            epochs = f"at most {self.epochs:,.0f} epochs of rows loaded"
        lines = [
            f"{self.run}  (dry run: no step is taken)",
            f"  folder      {self.folder}",
            f"  dataset     {self._dataset_text()}",
            f"  parameters  {self.num_parameters:,} and {self.num_embedding_parameters:,} of the puzzle embedding",
            f"  steps       {self.total_steps:,} ({epochs})",
            f"  mesh        {', '.join(f'{axis} {size}' for axis, size in self.mesh.items())}",
            f"  batch       {', '.join(f'{name} {shape}' for name, shape in self.batch.items())}",
            f"  memory      {', '.join(f'{name} {size / 1e6:,.1f} MB' for name, size in memory.items())}",
            f"  compiled    in {self.compile_s:.1f} s",
            "  configuration",
            *("    " + line for line in json.dumps(self.config, indent=1).splitlines()),
        ]
        return "\n".join(lines)

    def _dataset_text(self) -> str:
        dataset = self.dataset
        groups = (
            "an unknown number of groups" if dataset["groups"] is None else f"{dataset['groups']:,} groups"
        )
        if dataset["built"]:
            return f"{dataset['name']}, digest {dataset['content_digest'][:12]}, {groups}"
        identifiers = {
            "exact": "",
            "at most": f", at most {dataset['num_identifiers']:,} puzzle identifiers",
            "unknown": ", an unknown number of puzzle identifiers (1 is counted here)",
        }[dataset["identifiers"]]
        return f"{dataset['name']}, not built (--build builds it); by its specification {groups}{identifiers}"


def plan_run(experiment: Experiment, config: RunConfig, layout: Layout, total_steps: int) -> RunPlan:
    """Compile the training step of a run and describe it; where the dataset is not built, from its specification.

    Raises:
        ConfigError: The configuration cannot be run.
        DatasetNotFoundError: Its dataset is not built, and is no named one.
    """
    mesh, spec, dataset = _find_dataset(experiment, config, layout)
    compiled, _, _ = compile_train_step(config, spec, mesh)
    groups: int | None = dataset["groups"]
    return RunPlan(
        run=run_name(experiment.name, config),
        folder=run_folder(layout, experiment, config).place,
        config=config_to_json(config),
        dataset=dataset,
        num_parameters=compiled.num_parameters,
        num_embedding_parameters=compiled.num_embedding_parameters,
        total_steps=total_steps,
        epochs=None if groups is None else total_steps * config.data.global_batch_size / groups,
        batch={name: f"{value.dtype}{list(value.shape)}" for name, value in compiled.batch.items()},
        mesh=dict(mesh.shape),
        memory_bytes=compiled.memory_bytes,
        compile_s=compiled.seconds,
    )


def _find_dataset(
    experiment: Experiment, config: RunConfig, layout: Layout
) -> tuple[Mesh, InputSpec, dict[str, Any]]:
    """The mesh, the shapes, and what can be said of the dataset, built or not."""
    try:
        prepared = prepare(experiment, config, layout)
    except DatasetNotFoundError:
        planned = plan_dataset(config.data.only_dataset())
        if planned is None:
            raise
        mesh = make_mesh(config.execution.model_parallel)
        check_batch(config, mesh)
        facts = {"name": planned.name, "built": False, "content_digest": None, "groups": planned.groups}
        facts |= {"num_identifiers": planned.input_spec.num_identifiers, "identifiers": planned.identifiers}
        return mesh, planned.input_spec, facts
    manifest = prepared.manifest
    facts = {"name": manifest.name, "built": True, "content_digest": manifest.content_digest}
    facts |= {"groups": manifest.splits["train"].num_groups, "num_identifiers": manifest.num_identifiers}
    return prepared.mesh, prepared.record.input_spec, {**facts, "identifiers": "exact"}
