"""Estimates by a target's compiler for the training and evaluation steps of a run. Nothing here is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from trm_train.config.run import InputSpec, RunConfig
from trm_train.cost import flops_by_stage
from trm_train.mesh.sharding import make_mesh
from trm_train.state import abstract_weights
from trm_train.step.compile import CompiledStep, batch_element, memory_of
from trm_train.step.evaluate import make_eval_step
from trm_train.targets.catalog import Target, cuda_description
from trm_train.targets.program import (
    Program,
    estimated_cycles,
    kernels_without_estimate,
    moved_bytes,
    products_without_estimate,
)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The compiler's estimate of a step on a target.

    Attributes:
        source: Always `compiler estimate`.
        target: Name of the target.
        device_kind: Kind of its devices.
        devices: Number of devices.
        processes: Number of hosts.
        micro_batches: Number of microbatches in a batch.
        evaluation_bytes: Memory that the evaluation of a global batch needs on a device.
        step_flops: Operations of the network in a training step (FLOP); None if the network does not count them.
        cycles: Cycles of a training step on a TPU.
        step_s: Time of a training step on a TPU (s).
        share_of_peak: Performance at that time, as a share of the peak of the devices.
        run_hours: Time for all steps of the run (h).
        kernels_without_estimate: Calls of hand-written kernels (splash attention), whose time is not in `cycles`.
        products_without_estimate: Number of matrix products whose time is not in `cycles`.
        loops_without_bound: Number of loops with an unknown trip count, which are counted once.
        moved_bytes: Bytes that GPU kernels read and write in a training step, by kind of kernel.
    """

    source: str
    target: str
    device_kind: str
    devices: int
    processes: int
    micro_batches: int
    evaluation_bytes: int | None
    step_flops: float | None
    cycles: int | None
    step_s: float | None
    share_of_peak: float | None
    run_hours: float | None
    kernels_without_estimate: int
    products_without_estimate: int
    loops_without_bound: int
    moved_bytes: dict[str, int]

    def lines(self) -> list[str]:
        """Return the estimate as text lines, one fact per line."""
        found = [
            f"  target      {self.target}: {self.devices} x {self.device_kind}, {self.processes} processes; "
            "all figures of it are compiler estimates, none is measured",
            f"  microbatches {self.micro_batches}",
        ]
        if self.evaluation_bytes is not None:
            found.append(f"  evaluation  {self.evaluation_bytes / 1e9:,.2f} GB a device")
        if self.step_flops is not None:
            found.append(f"  work        {self.step_flops / 1e12:,.1f} TFLOP a step")
        if self.step_s is not None and self.cycles is not None:
            share = "" if self.share_of_peak is None else f", {self.share_of_peak:.0%} of peak"
            found.append(
                f"  estimate    {self.step_s * 1e3:,.1f} ms a step ({self.cycles / 1e6:,.1f} M cycles{share}), "
                f"{self.run_hours:,.1f} hours for the run"
            )
        if self.kernels_without_estimate:
            found.append(f"              without {self.kernels_without_estimate} calls of splash attention")
        if self.moved_bytes:
            total = sum(self.moved_bytes.values())
            parts = ", ".join(f"{kind} {size / 1e9:,.1f}" for kind, size in self.moved_bytes.items())
            found.append(f"  moved       {total / 1e9:,.1f} GB a step and device ({parts})")
        return found


class Devices(NamedTuple):
    """Devices of a target; only compilers can use them."""

    all: list[Any]
    processes: int


def target_devices(target: Target) -> Devices:
    """Return descriptions of a target's devices, from its compiler."""
    from jax.experimental import topologies

    if target.platform == "cuda":
        options: dict[str, Any] = {
            "target_config": cuda_description(target.kind),
            "topology": target.topology,
        }
        topology = topologies.get_topology_desc(platform="cuda", topology_name="", **options)
        return Devices(list(topology.devices), 1)
    options = {"chip_config_name": "megacore"} if target.name.startswith(("v4", "v5p")) else {}
    topology = topologies.get_topology_desc(
        platform="tpu",
        topology_name=target.topology,
        chips_per_host_bounds=(2, 2, 1),
        num_slices=1,
        **options,
    )
    return Devices(list(topology.devices), len({device.process_index for device in topology.devices}))


def estimate(
    target: Target,
    devices: Devices,
    compiled: CompiledStep,
    config: RunConfig,
    spec: InputSpec,
    total_steps: int,
) -> Estimate:
    """Read the estimates of a compiled training step, and compile the evaluation step.

    Args:
        target: Target machine.
        devices: Devices of the target.
        compiled: Training step, compiled for these devices.
        config: Configuration of the run.
        spec: Input sizes of its dataset.
        total_steps: Number of steps of the run.
    """
    program = Program.read(compiled.stages[-1][1].as_text())
    stages = flops_by_stage(config, spec)
    work = None if stages is None else stages[-1][1]
    cycles = estimated_cycles(program) if target.clock_hz else None
    seconds = None if cycles is None or target.clock_hz is None else cycles / target.clock_hz
    share = None if work is None or not seconds else work / seconds / target.peak_flops
    return Estimate(
        source="compiler estimate",
        target=target.name,
        device_kind=target.kind,
        devices=target.devices,
        processes=devices.processes,
        micro_batches=compiled.micro_batches,
        evaluation_bytes=evaluation_bytes(config, spec, devices),
        step_flops=work,
        cycles=cycles,
        step_s=seconds,
        share_of_peak=share,
        run_hours=None if seconds is None else seconds * total_steps / 3600,
        kernels_without_estimate=kernels_without_estimate(program),
        products_without_estimate=products_without_estimate(program) if cycles is not None else 0,
        loops_without_bound=len(program.unknown_loops),
        moved_bytes=dict(moved_bytes(program).most_common()) if target.platform == "cuda" else {},
    )


def evaluation_bytes(config: RunConfig, spec: InputSpec, devices: Devices) -> int | None:
    """Return the memory that the evaluation of a global batch needs on a device."""
    mesh = make_mesh(config.execution.model_parallel, devices.all)
    definition, weights = abstract_weights(config, spec, mesh)
    evaluate: Any = jax.jit(make_eval_step(config, spec, definition, mesh=mesh))
    batch = batch_element(config, spec, mesh)
    memory = memory_of(evaluate.lower(weights, batch).compile())
    return None if memory is None else memory["arguments"] + memory["temporaries"] + memory["results"]
