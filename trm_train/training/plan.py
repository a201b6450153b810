"""The plan of a run, compiled without a step: `trm-train run --dry-run`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import Mesh

from trm_data.errors import DatasetNotFoundError
from trm_data.storage.root import Layout
from trm_train.config.run import InputSpec, RunConfig, config_to_json
from trm_train.errors import OutOfMemoryError
from trm_train.experiments.dataset import plan_datasets
from trm_train.experiments.registry import Experiment
from trm_train.mesh import Exchange, make_mesh
from trm_train.runs.record import run_folder, run_name
from trm_train.step.compile import bytes_refused, compile_train_step
from trm_train.targets.catalog import Target
from trm_train.targets.estimate import Estimate, estimate, target_devices
from trm_train.training.prepare import check_batch, prepare
from trm_train.training.stop import LESS_MEMORY

MOST_EXCHANGES = 12
"""Maximum number of lines for collectives."""


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """Plan of a run that was not started.

    Attributes:
        run: Name of the run.
        folder: Path of its folder.
        config: The resolved configuration.
        dataset: Name, digest, number of training groups, examples (None until it is built) and identifiers of the
            dataset, and whether it is built.
        num_parameters: Trained parameters of the network.
        num_embedding_parameters: Number of elements of the puzzle-embedding table.
        total_steps: Number of optimizer steps.
        epochs: Upper bound: loaded rows divided by groups, if every slot halted at every step. None if the number of
            groups is unknown.
        batch: Shape and type of each array of a global batch.
        mesh: Number of devices along each axis.
        memory_bytes: Memory of the compiled step on one device, by part.
        peak_bytes: Memory of one device: arguments, plus results and temporaries that do not reuse a buffer.
        device_bytes: Memory capacity of a device of the target; None without a target.
        collectives: Collective operations of a step, the largest first.
        compile_s: Compilation time (s).
        estimate: Estimate from the compiler of the target; None without a target.
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
    peak_bytes: int | None
    device_bytes: int | None
    collectives: list[Exchange]
    compile_s: float
    estimate: Estimate | None = None

    @property
    def fits(self) -> bool | None:
        """Whether the step fits into a device; None without a target."""
        if self.peak_bytes is None or self.device_bytes is None:
            return None
        return self.peak_bytes <= self.device_bytes

    def text(self) -> str:
        """Return the plan as text for the user."""
        memory = self.memory_bytes or {}
        epochs = "epochs unknown until the dataset is built"
        if self.epochs is not None:
            epochs = f"at most {self.epochs:,.0f} epochs; in each, one row of every puzzle"
        lines = [
            f"{self.run}  (dry run: no step is taken)",
            f"  folder      {self.folder}",
            f"  dataset     {self._dataset_text()}",
            f"  parameters  {self.num_parameters:,} and {self.num_embedding_parameters:,} of the puzzle embedding",
            f"  steps       {self.total_steps:,} ({epochs})",
            f"  mesh        {', '.join(f'{axis} {size}' for axis, size in self.mesh.items())}",
            f"  batch       {', '.join(f'{name} {shape}' for name, shape in self.batch.items())}",
            f"  memory      {', '.join(f'{name} {size / 1e6:,.1f} MB' for name, size in memory.items())}",
            *self._memory_lines(),
            *([] if self.estimate is None else self.estimate.lines()),
            *self._exchange_lines(),
            f"  compiled    in {self.compile_s:.1f} s",
            "  configuration",
            *("    " + line for line in json.dumps(self.config, indent=1).splitlines()),
        ]
        return "\n".join(lines)

    def _memory_lines(self) -> list[str]:
        """Return lines on the memory that a device needs and the memory that it has."""
        if self.peak_bytes is None:
            return []
        needed = f"              {self.peak_bytes / 1e9:,.2f} GB a device"
        if self.config["execution"]["device_rows"] and self.dataset["examples"] is None:
            needed += " and the rows that it holds, whose number is known when the dataset is built"
        if self.device_bytes is None:
            return [needed]
        held = f"{needed}, which holds {self.device_bytes / 1e9:,.1f} GB"
        return [held if self.fits else f"{held}: too much; {LESS_MEMORY} less"]

    def _exchange_lines(self) -> list[str]:
        """Return lines on the collectives of a step; the small ones are summarized."""
        if not self.collectives:
            return []
        shown, rest = self.collectives[:MOST_EXCHANGES], self.collectives[MOST_EXCHANGES:]
        total = sum(one.bytes for one in self.collectives)
        lines = [f"  sent        {total / 1e6:,.1f} MB a device and step"]
        lines += [f"    {one.count:3} x {one.kind:14} {one.array}" for one in shown]
        if rest:
            lines.append(f"    and {len(rest)} smaller, {sum(one.bytes for one in rest) / 1e6:,.1f} MB")
        return lines

    def _dataset_text(self) -> str:
        dataset = self.dataset
        groups = (
            "an unknown number of groups" if dataset["groups"] is None else f"{dataset['groups']:,} groups"
        )
        if dataset["built"]:
            return f"{dataset['name']}, digest {dataset['content_digest'][:12]}, {groups}"
        identifiers = {
            "exact": "",
            "published": f", about {dataset['num_identifiers']:,} puzzle identifiers",
            "at most": f", at most {dataset['num_identifiers']:,} puzzle identifiers",
            "unknown": ", an unknown number of puzzle identifiers (1 is counted here)",
        }[dataset["identifiers"]]
        return f"{dataset['name']}, not built (--build builds it); by its specification {groups}{identifiers}"


def plan_run(
    experiment: Experiment,
    config: RunConfig,
    layout: Layout,
    total_steps: int,
    target: Target | None = None,
) -> RunPlan:
    """Compile the training step of a run and describe it. If the dataset is not built, use its specification.

    Args:
        experiment: Experiment that names the run.
        config: The experiment's configuration with all overrides.
        layout: The root.
        total_steps: Total number of steps, extensions included.
        target: Machine to compile for; its compiler must be installed here. None compiles for the local devices.
    """
    devices = None if target is None else target_devices(target)
    mesh, spec, dataset = _find_dataset(experiment, config, layout, None if devices is None else devices.all)
    held = None if target is None else target.usable_bytes
    try:
        compiled, _, _ = compile_train_step(config, spec, mesh, dataset["examples"] or 0, limit_bytes=held)
    except jax.errors.JaxRuntimeError as error:
        refused = bytes_refused(error)
        if target is None or refused is None:
            raise
        needed, limit = (size / 1e9 for size in refused)
        raise OutOfMemoryError(
            f"--target {target.name}: the step does not fit into a device (got {needed:,.1f} GB, "
            f"{needed - limit:,.1f} GB too much; expected at most {limit:,.1f} GB). Try --execution.micro-batches auto."
        ) from error
    memory, peak = compiled.memory_bytes, compiled.peak_bytes
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
        memory_bytes=memory,
        peak_bytes=peak,
        device_bytes=held,
        collectives=compiled.exchanges,
        compile_s=compiled.seconds,
        estimate=None
        if target is None or devices is None
        else estimate(target, devices, compiled, config, spec, total_steps),
    )


def _find_dataset(
    experiment: Experiment, config: RunConfig, layout: Layout, devices: Sequence[Any] | None
) -> tuple[Mesh, InputSpec, dict[str, Any]]:
    """Return the mesh, the input shapes, and the known facts about the dataset, built or not."""
    try:
        prepared = prepare(experiment, config, layout, devices)
    except DatasetNotFoundError:
        planned = plan_datasets(config.data.names)
        if planned is None:
            raise
        mesh = make_mesh(config.execution.model_parallel, devices)
        check_batch(config, mesh)
        facts = {"name": planned.name, "built": False, "content_digest": None, "groups": planned.groups}
        facts["examples"] = None
        facts |= {"num_identifiers": planned.input_spec.num_identifiers, "identifiers": planned.identifiers}
        return mesh, planned.input_spec, facts
    record, train = prepared.record, [manifest.splits["train"] for manifest in prepared.manifests]
    facts = {"name": "+".join(manifest.name for manifest in prepared.manifests), "built": True}
    facts |= {"content_digest": record.content_digest, "groups": sum(split.num_groups for split in train)}
    facts |= {"examples": sum(split.num_examples for split in train), "identifiers": "exact"}
    facts["num_identifiers"] = record.input_spec.num_identifiers
    return prepared.mesh, record.input_spec, facts
