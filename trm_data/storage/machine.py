"""What belongs to this machine alone: the user's cache folder, and which processes of it live."""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
KERNEL_ROOMS = ("encode", "kinds", "seeds", "symmetry")
"""Packages whose functions and constants kernels of other files use."""


def user_cache() -> Path:
    """The folder that may be deleted when nothing runs, but for its `kept/`.

    It is `TRM_CACHE`, else `trm` in the user's cache directory (XDG).
    """
    if chosen := os.environ.get("TRM_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "trm"


def kernel_folder() -> Path:
    """The folder of compiled kernels: under `NUMBA_CACHE_DIR`, else in the user's cache, named by their sources."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    base = Path(chosen).absolute() if chosen else user_cache() / "kernels"
    return base / kernel_digest(PACKAGE)


@cache
def kernel_digest(package: Path) -> str:
    """Hash of all kernel sources of a package: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        room = path.relative_to(package).parts[0]
        if room in KERNEL_ROOMS or b"\n@kernel" in source:
            digest.update(f"{path.relative_to(package).as_posix()} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:16]


def host_identity() -> str:
    """A name for the processes that this one can see: the same for two processes only if each sees the other.

    Host name, boot and process namespace; empty where the system does not tell the last two.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        return ""
    return f"{socket.gethostname()} {boot} {namespace}"


def process_start(process: int) -> str:
    """When a process of this machine began, in ticks since the boot; empty if there is none, or it is not told."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    return ""
