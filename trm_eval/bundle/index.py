"""Wheels for prediction on another machine: resolved by `uv pip compile`, downloaded by pip.

uv resolves the requirements of this package for the target's Python and platform, with the versions that are installed
here as constraints. A distribution that only the target needs, such as a library of an accelerator, gets the newest
version that fits.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from trm_eval.bundle.target import Target
from trm_eval.errors import BundleError

PROJECT = "trm-lab"
LEFT_OUT = ("matplotlib", "wandb")
"""Requirements of this package that prediction does not need."""
UNREACHED = ("Failed to fetch", "error sending request", "NewConnectionError", "NameResolutionError")
"""Parts of the error messages of uv and pip for an unreachable index."""


@dataclass(frozen=True)
class Wheel:
    """A wheel that an index has.

    Attributes:
        name: Normalized name of the distribution.
        version: Its version.
        url: URL of the file.
        sha256: Digest of the file.
        size_bytes: Size of the file; None if the index does not state it.
    """

    name: str
    version: str
    url: str
    sha256: str
    size_bytes: int | None

    @property
    def file(self) -> str:
        """Name of the file."""
        return unquote(urlsplit(self.url).path).rpartition("/")[2]


def find_wheels(target: Target, extras: Sequence[str]) -> list[Wheel]:
    """The wheel of every required distribution, sorted by name; nothing is downloaded into the bundle.

    Args:
        target: The machine.
        extras: Extras of this package.

    Raises:
        BundleError: uv is missing, cannot reach the index, or finds no versions that fit.
    """
    with tempfile.TemporaryDirectory(prefix="trm-bundle-") as temporary:
        wanted, installed, lock = (
            Path(temporary) / name for name in ("wanted.txt", "here.txt", "pylock.toml")
        )
        wanted.write_text("\n".join(requirements(extras)), "utf-8")
        installed.write_text("\n".join(_installed()), "utf-8")
        options = ["--constraint", str(installed), "--format", "pylock.toml", "--output-file", str(lock)]
        command = [*uv_command(), "pip", "compile", "--quiet", *options, *target.uv_options, str(wanted)]
        _run(
            command,
            f"no matching wheels for {target}. Use another --python or a newer --platform, or install other "
            f"versions here",
        )
        packages = tomllib.loads(lock.read_text("utf-8")).get("packages", [])
    return sorted(map(_wheel, packages), key=lambda wheel: wheel.name)


def requirements(extras: Sequence[str]) -> list[str]:
    """Requirements of this package with some extras, except those that prediction does not use."""
    try:
        stated = [Requirement(text) for text in distribution(PROJECT).requires or ()]
    except PackageNotFoundError as error:
        raise BundleError(
            f"{PROJECT} is not installed here (pip install .): its requirements are unknown"
        ) from error
    return [
        f"{one.name}{'[' + ','.join(sorted(one.extras)) + ']' if one.extras else ''}{one.specifier}"
        for one in stated
        if canonicalize_name(one.name) not in LEFT_OUT
        and (one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)))
    ]


def _installed() -> list[str]:
    """A constraint for each distribution of this environment, so that the bundle has the versions that run here."""
    found = {canonicalize_name(one.name): one.version for one in distributions()}
    return [f"{name}=={version}" for name, version in sorted(found.items()) if name != PROJECT]


def _wheel(package: Mapping[str, Any]) -> Wheel:
    """The wheel of a package in a lock file (PEP 751): the one for the platform, if there is a pure one too."""
    stated = min(
        package["wheels"], key=lambda wheel: wheel.get("url", wheel.get("path")).endswith("-any.whl")
    )
    url = stated.get("url") or Path(stated["path"]).absolute().as_uri()
    return Wheel(package["name"], package["version"], url, stated["hashes"]["sha256"], stated.get("size"))


def fetch_wheels(target: Target, wheels: Sequence[Wheel], folder: Path) -> None:
    """Download wheels into a folder; pip compares each with its sha256.

    Raises:
        BundleError: pip is missing, or a file cannot be downloaded or has another digest.
    """
    with tempfile.TemporaryDirectory(prefix="trm-bundle-") as temporary:
        lines = Path(temporary) / "wheels.txt"
        lines.write_text(hashed_lines({f"{one.name} @ {one.url}": one.sha256 for one in wheels}), "utf-8")
        options = ["--quiet", "--no-input", "--no-deps", "--require-hashes", *target.pip_options]
        command = [*pip_command(), "download", *options, "--dest", str(folder), "--requirement", str(lines)]
        _run(command, "wheels cannot be downloaded. Bundle again")


def hashed_lines(hashes: Mapping[str, str]) -> str:
    """A file of requirements with the sha256 of each, for `pip --require-hashes`."""
    return "".join(f"{name} --hash=sha256:{sha256}\n" for name, sha256 in sorted(hashes.items()))


def uv_command() -> list[str]:
    """The command that starts uv: the one on the PATH, or the one of this Python."""
    if found := shutil.which("uv"):
        return [found]
    if importlib.util.find_spec("uv") is not None:
        return [sys.executable, "-m", "uv"]
    raise BundleError("uv is missing: it resolves the wheels of a bundle. Install it (pip install uv)")


def pip_command() -> list[str]:
    """The command that starts pip: that of this Python, one on the PATH, or uv's."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if found := shutil.which("pip"):
        return [found]
    return [*uv_command(), "tool", "run", "pip"]


def _run(command: Sequence[str], failure: str) -> None:
    """Run uv or pip, whose errors become one line.

    Args:
        command: Command with its arguments.
        failure: Beginning of the message if the command fails for another reason than an unreachable index.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BundleError(f"{command[0]}: cannot be started ({error})") from error
    if done.returncode == 0:
        return
    said = " ".join(done.stderr.replace("│", " ").split())
    if any(words in said for words in UNREACHED):
        raise BundleError(
            f"the package index cannot be reached. A bundle is made on a machine with a network: check the "
            f"connection and the index settings of uv and pip ({said[-300:]})"
        )
    raise BundleError(f"{failure} ({said[-500:] or 'no message'})")
