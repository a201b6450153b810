"""The target of a bundle: Python version and platform, for uv and pip."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from trm_eval.errors import BundleError

PLATFORM = re.compile(r"manylinux(?:_2_(?P<minor>[1-9][0-9]?)|2014)_(?P<machine>x86_64|aarch64)")
DEFAULT_PLATFORM = "manylinux_2_28_x86_64"
"""Platform of the jaxlib and numpy wheels; Kaggle's images (Ubuntu 22.04) have version 2.35 of the C library."""
GLIBC_OF_2014 = 17
OLDEST_GLIBC = 5
OLDEST_PYTHON = 11
UV_GLIBC = (17, 28, *range(31, 41))
"""Minor versions of the C library that uv accepts as platforms."""


def this_python() -> str:
    """Version of the running Python, such as `3.11`."""
    return f"3.{sys.version_info.minor}"


@dataclass(frozen=True)
class Target:
    """Machine for which wheels are selected.

    Attributes:
        minor: Minor version of Python 3.
        glibc: Lowest minor version of glibc 2 on the machine.
        machine: Processor architecture.
    """

    minor: int
    glibc: int
    machine: str

    @property
    def python(self) -> str:
        """Python version, such as `3.11`."""
        return f"3.{self.minor}"

    @property
    def platforms(self) -> tuple[str, ...]:
        """Tags of compatible wheels, the newest first."""
        return tuple(
            name
            for glibc in range(self.glibc, OLDEST_GLIBC - 1, -1)
            for name in (
                f"manylinux_2_{glibc}_{self.machine}",
                *([f"manylinux2014_{self.machine}"] if glibc == GLIBC_OF_2014 else []),
            )
        )

    @property
    def pip_options(self) -> list[str]:
        """Options that make pip use only wheels, and only those for this machine."""
        platforms = [word for name in self.platforms for word in ("--platform", name)]
        python = ["--python-version", self.python, "--implementation", "cp"]
        return ["--only-binary", ":all:", *python, *platforms]

    @property
    def uv_options(self) -> list[str]:
        """Options that make uv resolve for this machine, from wheels alone."""
        glibc = max(minor for minor in UV_GLIBC if minor <= self.glibc)
        platform = f"{self.machine}-manylinux_2_{glibc}"
        return ["--only-binary", ":all:", "--python-version", self.python, "--python-platform", platform]

    def __str__(self) -> str:
        return f"Python {self.python} on {self.platforms[0]}"


def parse_target(python: str, platform: str) -> Target:
    """The machine that a user names."""
    found = re.fullmatch(r"3\.([1-9][0-9]?)", python)
    if found is None or int(found[1]) < OLDEST_PYTHON:
        raise BundleError(f"--python {python}: expected 3.{OLDEST_PYTHON} or newer")
    tag = PLATFORM.fullmatch(platform)
    if tag is None:
        raise BundleError(
            f"--platform {platform}: expected a Linux wheel tag such as {DEFAULT_PLATFORM} or manylinux2014_x86_64, "
            f"for x86_64 or aarch64"
        )
    glibc = int(tag["minor"] or GLIBC_OF_2014)
    if glibc < GLIBC_OF_2014:
        raise BundleError(f"--platform {platform}: expected manylinux_2_{GLIBC_OF_2014} or newer")
    return Target(int(found[1]), glibc, tag["machine"])
