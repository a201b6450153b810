"""Existing hosts, reached by ssh; the first host is the coordinator."""

from __future__ import annotations

import re
from collections.abc import Sequence

from typing_extensions import override

from trm_train.errors import LaunchError
from trm_train.launch import scripts
from trm_train.launch.shell import Done, Shell
from trm_train.launch.source import Source
from trm_train.launch.target import Script, Target, Work

HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:@[A-Za-z0-9][A-Za-z0-9.-]*)?")
"""Host name as `ssh` accepts it; ports and keys belong in `~/.ssh/config`."""
OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=15")
"""Options of ssh: no password prompt, and a connection timeout of 15 s."""


def parse_hosts(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of hosts."""
    hosts = tuple(part.strip() for part in text.split(","))
    for host in hosts:
        if not HOST.fullmatch(host):
            raise LaunchError(
                f"--hosts {text}: got {host!r}; expected names separated by commas, such as host1,me@host2"
            )
    if len(set(hosts)) < len(hosts):
        raise LaunchError(f"--hosts {text}: a host occurs twice")
    return hosts


class SshHosts(Target):
    """Hosts reached by ssh.

    Args:
        shell: Runs commands.
        source: Source to install.
        extras: Optional extras of the package.
        hosts: From `parse_hosts`.
        port: Port on which process 0 listens for the others.
    """

    def __init__(
        self, shell: Shell, source: Source, extras: Sequence[str], *, hosts: Sequence[str], port: int
    ) -> None:
        super().__init__(shell, source, extras, devices=False)
        self._hosts = hosts
        self._port = port

    @property
    @override
    def place(self) -> str:
        """Names of the hosts."""
        return ", ".join(self._hosts)

    @property
    @override
    def count(self) -> int:
        return len(self._hosts)

    @override
    def problems(self) -> list[str]:
        """Return one line for each unreachable host."""
        done = self.ask_hosts(lambda _: scripts.answered("here"), assume="here", limit_s=60.0, once="here")
        return [
            f"{host} cannot be reached: {one.reason}; try: ssh {host}"
            for host, one in zip(self._hosts, done, strict=True)
            if one.code or not scripts.answers(one.out)
        ]

    @override
    def ensure(self) -> None:
        """Wait until all hosts answer."""
        self.wait_until_reachable()

    @override
    def release(self) -> None:
        """Do nothing: the hosts belong to the user."""

    @override
    def leftover(self) -> str:
        return ""

    @override
    def gone(self) -> str:
        return ""

    @override
    def words(self, index: int, work: Work) -> list[str]:
        if self.count == 1:
            return list(work.words)
        address = f"{self._hosts[0].rpartition('@')[2]}:{self._port}"
        together = ["--coordinator", address, "--num-processes", str(self.count), "--process-id", str(index)]
        return [*work.words, *together]

    @override
    def ask_hosts(self, script: Script, *, assume: str, limit_s: float, once: str = "") -> list[Done]:
        commands = [_command(host, script(index)) for index, host in enumerate(self._hosts)]
        return self._shell.ask_all(commands, assume=f"trm-launch HOST {assume}", limit_s=limit_s, once=once)

    @override
    def ask_first(self, script: str, *, assume: str, once: str = "") -> Done:
        return self._shell.ask(
            _command(self._hosts[0], script), assume=f"trm-launch HOST {assume}", once=once
        )


def _command(host: str, script: str) -> list[str]:
    return ["ssh", *OPTIONS, host, scripts.as_command(script)]
