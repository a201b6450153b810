"""What a step that several processes could not finish together is taken for: another process is gone."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import jax

from trm_data.command import Exit
from trm_train.errors import HostError
from trm_train.hosts.together import Hosts


def lost(hosts: Hosts, error: BaseException, what: str, way_on: str) -> HostError:
    """The error that names the processes which show no sign of life.

    Args:
        hosts: All processes.
        error: What jax said.
        what: What they worked at.
        way_on: How it goes on.
    """
    gone = ", ".join(hosts.name(index) for index in hosts.silent())
    said = (str(error).splitlines() or [type(error).__name__])[0]
    return HostError(
        f"{what}: the processes could not finish a step together ({said})"
        f"{f'; no sign of life of {gone}' if gone else ''}; {way_on}",
        Exit.STALLED,
    )


@contextmanager
def naming_the_lost(hosts: Hosts, what: str, way_on: str) -> Generator[None, None, None]:
    """Within, an error of jax is said to be that of a process which is gone; see `lost`."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if hosts.count == 1:
            raise
        raise lost(hosts, error, what, way_on) from error
