"""Shared by commands: options, checks of arguments, formats of values, and the join of several processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from trm_data.storage.root import Layout
from trm_train.errors import ConfigError
from trm_train.experiments.registry import GLOB, load_experiments

if TYPE_CHECKING:
    from trm_train.hosts import Hosts


ScaleOption = Annotated[
    str | None,
    arg(
        name="scale",
        metavar="{full,laptop,tiny,own}",
        help="full: as published; laptop: 9x9 grids, a quarter of the width; tiny: 6x6 grids, minutes; own: outside "
        "the study. "
        "Default: each experiment's own scale.",
        help_behavior_hint="",
    ),
]

DataOption = Annotated[
    str | None,
    arg(
        name="data",
        metavar="{published,generated-extreme,generated}",
        help="Puzzles: published, generated as hard as Sudoku-Extreme, or generated at random. "
        "Default: those of the scale.",
        help_behavior_hint="",
    ),
]

Patterns = Annotated[
    Positional[tuple[str, ...]],
    arg(
        metavar="[PATTERN ...]",
        help="Experiments: names, groups, beginnings of names, or globs like 'exp0[1-3]*'.",
        help_behavior_hint="",
    ),
]


OF_NEWCOMERS = "quickstart"
"""Experiment that trains on any dataset in minutes."""


def refuse_dataset_as_experiment(command: str, names: Sequence[str], layout: Layout) -> None:
    """Raise an error if an experiment name is the name of a dataset; the message has the command to train on it.

    Args:
        command: Program and command.
        names: Experiment names from the command line.
        layout: Root of the datasets.
    """
    experiments = load_experiments()
    known = {*experiments, *(item.group for item in experiments.values())}
    unknown = [name for name in names if name not in known and not set(name) & GLOB]
    there = layout.dataset_names() if unknown else []
    for name in unknown:
        if name in there and not any(other.startswith(name) for other in known):
            raise ConfigError(
                f"{name} is a dataset, not an experiment. Train an experiment on it: "
                f"{command} {OF_NEWCOMERS} --data.dataset {name}"
            )


def percent(share: float | None) -> str:
    """Format a share as a percentage; None is a dash."""
    return "-" if share is None else f"{100 * share:.1f}%"


def validation_of(exact: float | None, optimal: float | None) -> str:
    """Format the best validation; puzzles with several correct answers also have the share of correct ones."""
    return percent(exact) if optimal is None else f"{percent(exact)} (right {percent(optimal)})"


def counted(number: int, what: str) -> str:
    """Format a count with its noun."""
    return f"{number:,} {what}{'s' * (number != 1)}"


@dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    """Options that identify this process among several."""

    distributed: bool = False
    """Join the other processes of this TPU pod or Slurm job, found by jax (docs/buckets-and-hosts.md)."""
    coordinator: Annotated[str | None, arg(metavar="HOST:PORT", help_behavior_hint="")] = None
    """Address of process 0 for several processes (default: $JAX_COORDINATOR_ADDRESS)."""
    num_processes: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Number of processes (default: $JAX_NUM_PROCESSES)."""
    process_id: Annotated[int | None, arg(metavar="I", help_behavior_hint="")] = None
    """Number of this process, from 0 (default: $JAX_PROCESS_ID)."""
    join_s: float = 300.0
    """Timeout for the other processes to join, in seconds."""

    def join(self, program: str, refused: str | None = None) -> Hosts:
        """Join the other processes, if there are any. Call this before jax initializes its devices.

        Args:
            program: Name of the program, prefix of messages.
            refused: Error message if this command supports only one process; None if it supports several.
        """
        from trm_train.hosts import Hosts, join, place_of

        def say(text: str) -> None:
            print(f"{program}: {text}", file=sys.stderr, flush=True)

        place = place_of(self.coordinator, self.num_processes, self.process_id)
        if place is None and not self.distributed:
            return Hosts(say=say)
        if refused is not None:
            raise ConfigError(refused)
        if self.join_s <= 0:
            raise ConfigError(f"--join-s {self.join_s:g}: expected more than 0 seconds")
        _keep_stdout_clean()
        return join(place, self.join_s, say)


def _keep_stdout_clean() -> None:
    """Redirect file descriptor 1 to stderr, for libraries that write to it, as gloo does when processes connect."""
    sys.stdout.flush()
    ours = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(ours, "w", buffering=1)
