"""Machines that train runs (a TPU pod or ssh hosts), and the state of a run on them.

    absent --start--> running --> ended, with an exit code for each host
                         |
                         +-----> gone: preempted, lost or never created; `ensure` creates them again

The scripts of `scripts` run on all hosts at once. State is stored on the hosts, under `~/trm-lab/launch/<run>`, so a
later launch finds running runs.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trm_train.config.overrides import take_option
from trm_train.errors import LaunchError
from trm_train.launch import scripts
from trm_train.launch.scripts import Answer
from trm_train.launch.shell import Done, Shell
from trm_train.launch.source import Source

INSTALL_S = 1800.0
"""Timeout for the download and installation of Python, jax and all other requirements (s)."""
SILENT_LOOKS = 4
"""Consecutive polls without an answer before hosts count as gone; fewer may be a short network failure."""
REACHABLE_S = 600.0
"""Timeout for new hosts to accept connections, which takes minutes (s)."""
AGAIN_S = 10.0

Script = Callable[[int], str]
"""Returns the script for the host with a given number."""


RunState = Literal["absent", "running", "ended", "stopped"]


@dataclass(frozen=True)
class Work:
    """A run to train.

    Attributes:
        name: Name of the run.
        words: Arguments of `trm-train` on every host, without those that connect the hosts.
    """

    name: str
    words: tuple[str, ...]

    def resuming(self) -> Work:
        """Return the work of a restart, which never discards the run."""
        return replace(self, words=tuple(take_option("--resume", list(self.words))[1]))


@dataclass(frozen=True)
class HostState:
    """State of a run on one host.

    Attributes:
        name: Name of the host.
        state: State of the run; `stopped` means ended on request.
        code: Exit code.
    """

    name: str
    state: RunState
    code: int = 0


@dataclass(frozen=True)
class TargetState:
    """The state of a launched run.

    Attributes:
        hosts: All hosts; empty if they are gone.
        gone: Reason why the hosts are gone; empty if they exist.
        others: Other runs or processes that use the hosts.
    """

    hosts: tuple[HostState, ...] = ()
    gone: str = ""
    others: tuple[str, ...] = ()

    @property
    def running(self) -> bool:
        """Whether it runs on any host."""
        return any(host.state == "running" for host in self.hosts)

    @property
    def ended(self) -> bool:
        """Whether it has ended on all hosts, each with an exit code."""
        return bool(self.hosts) and all(host.state in ("ended", "stopped") for host in self.hosts)


class Target(ABC):
    """Machines that train runs, one after another.

    Args:
        shell: Runs commands.
        source: Source to install.
        extras: Optional extras of the package.
        devices: Whether to check that no other process uses the TPU.
    """

    def __init__(self, shell: Shell, source: Source, extras: Sequence[str], *, devices: bool) -> None:
        self._shell = shell
        self._source = source
        self._extras = extras
        self._devices = devices
        self._silent = 0
        self._seen = TargetState()

    @property
    @abstractmethod
    def place(self) -> str:
        """Name of the machines for messages."""

    @abstractmethod
    def problems(self) -> list[str]:
        """Problems that prevent a launch, one line each with the remedy; changes nothing."""

    @abstractmethod
    def ensure(self) -> None:
        """Find or create the machines, and wait until they answer."""

    @abstractmethod
    def release(self) -> None:
        """Delete the machines."""

    @abstractmethod
    def leftover(self) -> str:
        """Describe resources that remain and cost money, with the command that deletes them; empty if none."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of hosts."""

    @abstractmethod
    def ask_hosts(self, script: Script, *, assume: str, limit_s: float, once: str = "") -> list[Done]:
        """Run a script on all hosts in parallel; their output may be combined in one result."""

    @abstractmethod
    def ask_first(self, script: str, *, assume: str, once: str = "") -> Done:
        """Run a script on the first host."""

    @abstractmethod
    def words(self, index: int, work: Work) -> list[str]:
        """Return the arguments of `trm-train` on a host: those of the run, and those that connect the hosts."""

    @abstractmethod
    def gone(self) -> str:
        """Return the reason why the hosts are gone; empty if they exist."""

    def install(self) -> None:
        """Install the commit on all hosts."""
        script = scripts.install(self._source, self._extras)
        self._everywhere("installed", lambda _: script, limit_s=INSTALL_S, once="install")

    def start(self, work: Work) -> None:
        """Start a run on every host where it does not run."""
        self._everywhere(
            "started", lambda index: scripts.start(work.name, self._source, self.words(index, work))
        )
        self._silent, self._seen = 0, TargetState()

    def look(self, work: Work) -> TargetState:
        """Return the state of a run."""
        gone = self.gone()
        if gone:
            return TargetState(gone=gone)
        script = scripts.look(work.name, devices=self._devices)
        done = self.ask_hosts(lambda _: script, assume="absent", limit_s=60.0, once=f"look {work.name}")
        seen = _seen([answer for one in done for answer in scripts.answers(one.out)])
        if len(seen.hosts) == self.count:
            self._silent, self._seen = 0, seen
            return seen
        self._silent += 1
        if self._silent < SILENT_LOOKS and self._seen.hosts:
            return self._seen
        silent = next((one.reason for one in done if one.code), "no answer")
        return TargetState(gone=f"{len(seen.hosts)} of {self.count} hosts answer: {silent}")

    def log(self, work: Work, place: str) -> tuple[str, str]:
        """Return the first host's log from a position on, and its end position."""
        done = self.ask_first(scripts.log(work.name, place), assume="log 0:0", once=f"log {work.name}")
        head, _, text = done.out.partition("\n")
        found = scripts.answers(head)
        if done.code or not found or found[0].word != "log" or not scripts.PLACE.fullmatch(found[0].value):
            return "", place
        return text, found[0].value

    def stop(self, work: Work) -> None:
        """Ask a run to save a checkpoint and exit."""
        script = scripts.stop(work.name)
        self._everywhere("asked", lambda _: script)

    def wait_until_reachable(self) -> None:
        """Wait until all hosts answer."""
        began = time.monotonic()
        script = scripts.answered("here")
        while True:
            done = self.ask_hosts(lambda _: script, assume="here", limit_s=60.0, once="here")
            there = [answer for one in done for answer in scripts.answers(one.out)]
            if len(there) == self.count:
                return
            if time.monotonic() - began > REACHABLE_S:
                why = next((one.reason for one in done if one.code), "no answer")
                raise LaunchError(f"{len(there)} of {self.count} hosts can be reached by ssh: {why}")
            time.sleep(AGAIN_S)

    def _everywhere(self, word: str, script: Script, limit_s: float = 180.0, once: str = "") -> None:
        done = self.ask_hosts(script, assume=word, limit_s=limit_s, once=once)
        told = [answer for one in done for answer in scripts.answers(one.out) if answer.word == word]
        if len(told) == self.count:
            return
        failed = [one for one in done if one.code] or done
        named = f" (not {', '.join(sorted({answer.host for answer in told}))})" if told else ""
        raise LaunchError(
            f"{len(told)} of {self.count} hosts {word}{named}: {failed[0].reason}; the same command resumes"
        )


def _seen(found: Sequence[Answer]) -> TargetState:
    states: dict[str, RunState] = {
        "absent": "absent",
        "running": "running",
        "ended": "ended",
        "stopped": "stopped",
    }
    hosts = [
        HostState(answer.host, states[answer.word], int(answer.value) if answer.value.isdecimal() else 0)
        for answer in found
        if answer.word in states
    ]
    runs = [f"the run {answer.value} on {answer.host}" for answer in found if answer.word == "other"]
    held = [f"process {answer.value} on {answer.host}" for answer in found if answer.word == "process"]
    return TargetState(tuple(hosts), others=tuple(runs or held))
