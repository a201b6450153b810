"""Cost of an optimized program: cycles on a TPU, bytes read and written by a GPU's kernels."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

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
