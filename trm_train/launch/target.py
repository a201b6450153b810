"""Where runs are launched, in one interface: `tpu`, `slurm` and `ssh` are the three.

    absent --start--> (waiting) --> running --> ended, with a code for each host
                                       |
                                       +-----> gone: pre-empted, cut off or never created; `ensure` brings them back

What happens there is kept there, under `~/trm-lab/launch/<run>`: whoever comes later sees what goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

HostState = Literal["absent", "running", "ended", "stopped"]


@dataclass(frozen=True)
class Work:
    """A run to be trained.

    Attributes:
        name: Of the run.
        words: What follows `trm-train` on every host, but for what the hosts must know of each other.
    """

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class HostSeen:
    """A host, and what the run does there.

    Attributes:
        name: Of the host.
        state: `stopped` has ended because somebody asked for it.
        code: How it ended.
    """

    name: str
    state: HostState
    code: int = 0


@dataclass(frozen=True)
class Seen:
    """What goes on.

    Attributes:
        hosts: All of them; none where they are not there.
        gone: Why they are not there.
        waiting: What they wait for, where they are still to come.
        others: Something else that keeps them busy: a run, or a process.
    """

    hosts: tuple[HostSeen, ...] = ()
    gone: str = ""
    waiting: str = ""
    others: tuple[str, ...] = ()

    @property
    def running(self) -> bool:
        """Whether any host runs it, or will."""
        return bool(self.waiting) or any(host.state == "running" for host in self.hosts)

    @property
    def ended(self) -> bool:
        """Whether it has ended everywhere, and every host says how."""
        return bool(self.hosts) and all(host.state in ("ended", "stopped") for host in self.hosts)


class Target(Protocol):
    """Machines that train runs, one after the other."""

    @property
    def place(self) -> str:
        """What a person calls it."""
        ...

    def problems(self) -> list[str]:
        """What stands in the way, a line each with the way out; changes nothing."""
        ...

    def ensure(self) -> None:
        """Find or create the machines, and wait until they answer.

        Raises:
            CapacityError: There are none to be had now.
            LaunchError: They cannot be had.
        """
        ...

    def install(self) -> None:
        """Install the package at the commit everywhere, unless it is there.

        Raises:
            LaunchError: It cannot be.
        """
        ...

    def start(self, work: Work) -> None:
        """Start a run in the background of every host that does not run it.

        Raises:
            LaunchError: A host did not start it.
        """
        ...

    def look(self, work: Work) -> Seen:
        """How a run does."""
        ...

    def log(self, work: Work, place: str) -> tuple[str, str]:
        """What the first host has logged since a place in its log, empty at first, and the place it ends at."""
        ...

    def stop(self, work: Work) -> None:
        """Ask a run to save a checkpoint and end."""
        ...

    def release(self) -> None:
        """Give the machines back."""
        ...

    def leftover(self) -> str:
        """What stays behind and costs, with the command that ends it; nothing where nothing does."""
        ...
