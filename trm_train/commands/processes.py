"""Options of commands that run in several processes, and the join of these processes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from trm_train.errors import ConfigError

if TYPE_CHECKING:
    from trm_train.hosts import Hosts


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
