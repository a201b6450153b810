"""Estimates by a target's compiler for the training and evaluation steps of a run. Nothing here is measured.

They are cycles on a TPU, and bytes read and written by a GPU's kernels, from the text of the optimized program.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import jax

from trm_train.config.run import InputSpec, RunConfig
from trm_train.cost import flops_by_stage
from trm_train.mesh import make_mesh
from trm_train.state import abstract_weights
from trm_train.step.compile import CompiledStep, batch_element, memory_of
from trm_train.step.evaluate import make_eval_step
from trm_train.targets.catalog import Target, cuda_description


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


_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_KNOWN_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_LINE = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$")
_ARRAY = re.compile(r"([a-z]+)(\d+)\w*\[([0-9,]*)\]")
_NAME = re.compile(r"%([\w.\-]+)")
_FREE = {
    "parameter",
    "get-tuple-element",
    "tuple",
    "bitcast",
    "constant",
    "while",
    "after-all",
    "partition-id",
}
"""Operations that move no data."""


class Instruction(NamedTuple):
    """A line of a computation."""

    name: str
    result: str
    operation: str
    rest: str


@dataclass
class Program:
    """Computations of an optimized program by name, from `compiled.as_text()`.

    Attributes:
        computations: Instructions of each computation.
        entry: Name of the entry computation.
        unknown_loops: Loops without a trip count in the text; each is counted once.
    """

    computations: dict[str, list[Instruction]]
    entry: str
    unknown_loops: list[str] = field(default_factory=list[str])

    @classmethod
    def read(cls, text: str) -> Program:
        """Parse the text of a program."""
        computations: dict[str, list[Instruction]] = {}
        entry, lines = "", list[Instruction]()
        for line in text.splitlines():
            head = _HEAD.match(line)
            if head and not line.startswith(" "):
                lines = computations.setdefault(head[2], [])
                entry = head[2] if head[1] else entry
            elif (found := _LINE.match(line)) is not None:
                lines.append(Instruction(*found.groups()))
        return cls(computations, entry)

    def executed(self) -> Iterator[tuple[int, Instruction, str]]:
        """Yield every executed instruction, its count and its computation, without the insides of fusions."""
        yield from self._walk(self.entry, 1)

    def _walk(self, name: str, times: int) -> Iterator[tuple[int, Instruction, str]]:
        for line in self.computations.get(name, []):
            if line.operation == "while":
                body = _named(line.rest, "body")
                yield from self._walk(body, times * self.trips(line))
            elif line.operation in ("call", "conditional") or line.operation.endswith("-start"):
                yield times, line, name
                inner = _named(line.rest, "to_apply") if line.operation == "call" else ""
                yield from self._walk(inner, times)
            else:
                yield times, line, name

    def trips(self, loop: Instruction) -> int:
        """Return the trip count of a loop: as stated, or the bound in its condition.

        A loop whose bound is an argument, such as the loop over the steps of a dispatch, is counted once.
        """
        known = _KNOWN_TRIPS.search(loop.rest)
        if known:
            return int(known[1])
        condition = self.computations.get(_named(loop.rest, "condition"), [])
        constants = {
            line.name: int(found[1])
            for line in condition
            if line.operation == "constant" and (found := re.match(r"(\d+)\)", line.rest))
        }
        bounds = [
            constants[name]
            for line in condition
            if line.operation in ("compare", "fusion") or line.operation.startswith("wrapped")
            for name in _NAME.findall(line.rest.split("), ")[0])
            if name in constants
        ]
        if len(bounds) == 1:
            return bounds[0]
        if loop.name not in self.unknown_loops:
            self.unknown_loops.append(loop.name)
        return 1


def estimated_cycles(program: Program) -> int:
    """Return the TPU compiler's estimate, summed over all executed instructions (cycles)."""
    return sum(
        times * int(found[1]) for times, line, _ in program.executed() if (found := _CYCLES.search(line.rest))
    )


def kernels_without_estimate(program: Program) -> int:
    """Return the number of calls of hand-written (Pallas) kernels, which the compiler does not estimate."""
    return sum(
        times for times, line, _ in program.executed() if 'custom_call_target="tpu_custom_call"' in line.rest
    )


def products_without_estimate(program: Program) -> int:
    """Return the number of matrix products outside of kernels that have no estimate."""
    return sum(
        times
        for times, line, _ in program.executed()
        if line.operation in ("dot", "convolution") and not _CYCLES.search(line.rest)
    )


def moved_bytes(program: Program) -> Counter[str]:
    """Return the bytes that kernels read and write, by kind of kernel: operand and result sizes of executed code."""
    sizes = {
        name: {line.name: array_bytes(line.result) for line in lines}
        for name, lines in program.computations.items()
    }
    moved: Counter[str] = Counter()
    for times, line, computation in program.executed():
        if line.operation in _FREE or line.operation.endswith("-done"):
            continue
        operands = _NAME.findall(line.rest.split("), ")[0])
        read = sum(sizes[computation].get(name, 0) for name in operands)
        moved[kernel_kind(line)] += times * (read + array_bytes(line.result))
    return moved


def kernel_kind(line: Instruction) -> str:
    """Return the kind of kernel of an instruction, for messages."""
    target = re.search(r'custom_call_target="([^"]*)"', line.rest)
    if target:
        name = target[1].lower()
        return "matrix products" if "cublas" in name else "attention" if "fmha" in name else "other calls"
    if "__triton_gemm" in line.rest or line.operation in ("dot", "convolution"):
        return "matrix products"
    if line.operation == "fusion":
        kind = re.search(r"kind=k(\w+)", line.rest)
        return {"Loop": "elementwise", "Input": "reductions", "Custom": "fused by Triton"}.get(
            kind[1] if kind else "", "other fusions"
        )
    return "copies" if line.operation in ("copy", "transpose", "copy-start") else "other"


@cache
def array_bytes(shape: str) -> int:
    """Return the total size of the arrays in a result (bytes)."""
    return sum(
        math.prod(int(length) for length in lengths.split(",") if length) * max(int(bits) // 8, 1)
        for letters, bits, lengths in _ARRAY.findall(re.sub(r"pred\[", "pred8[", shape))
        if letters in ("f", "bf", "s", "u", "pred", "c")
    )


def _named(rest: str, attribute: str) -> str:
    found = re.search(rf"{attribute}=%?([\w.\-]+)", rest)
    return found[1] if found else ""
