"""Wheels for prediction on another machine: their list, and the files, from the package index by pip.

They are the distributions that run here, in their versions. pip evaluates the markers of requirements for the Python
that runs it, not for the one it fetches wheels for (`--python-version` chooses wheels only). So requirements are
followed here, and pip is asked for named versions without theirs. What only the other machine needs, as the libraries
of an accelerator, has no version yet: pip chooses one within the bounds that are known, and says what it requires in
turn.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from trm_eval.bundle.target import Target
from trm_eval.errors import BundleError
from trm_eval.package.contents import SHA256

PROJECT = "trm-lab"
LEFT_OUT = ("matplotlib", "wandb")
"""Required by this package and not by predicting: pictures, and the mirror of training."""
UNREACHED = ("Retrying (", "ProxyError", "NewConnectionError", "NameResolutionError", "ConnectTimeoutError")
"""What pip says where it reaches no index."""
QUIET = ("--disable-pip-version-check", "--no-input", "--quiet", "--retries", "2")
ANSWER_S = 20
"""Longest wait for the size of a file."""


@dataclass(frozen=True)
class Wheel:
    """A wheel that an index has.

    Attributes:
        name: Of the distribution, normalized.
        version: Its version.
        url: Where it is.
        sha256: Of the file.
        requires: What it requires, with markers.
    """

    name: str
    version: str
    url: str
    sha256: str
    requires: tuple[str, ...]


def pip_command() -> list[str]:
    """How to start pip: that of this Python, one on the path, or uv's.

    Which one does not matter: it is told the target, and to follow no requirements.
    """
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    for name, words in (("pip", ()), ("pip3", ()), ("uv", ("tool", "run", "pip"))):
        if found := shutil.which(name):
            return [found, *words]
    raise BundleError(
        f"pip is missing (neither in {sys.executable} nor on the PATH). Install it (python -m ensurepip), or uv"
    )


def find_wheels(target: Target, extras: Sequence[str]) -> list[Wheel]:
    """The wheel of every distribution that is needed, in the order of their names; nothing is kept of them."""
    known: dict[str, Wheel] = {}
    while True:
        wanted = requirements(target, extras, known)
        new = [line for name, line in wanted.items() if name not in known]
        if not new:
            return [known[name] for name in wanted]
        known |= _report(target, new)


def requirements(target: Target, extras: Sequence[str], known: Mapping[str, Wheel]) -> dict[str, str]:
    """A line for pip of every distribution that is needed, this package aside, by name.

    Args:
        target: The machine.
        extras: Extras of this package.
        known: Wheels that were found so far, by name.
    """
    bounds: dict[str, list[tuple[str, SpecifierSet]]] = {}
    waiting = [(PROJECT, extra) for extra in ("", *extras)]
    seen = set(waiting)
    while waiting:
        name, extra = waiting.pop()
        for text in _requires(name, known):
            requirement = Requirement(text)
            needed = canonicalize_name(requirement.name)
            if needed in LEFT_OUT or not _applies(requirement, target, extra):
                continue
            if needed != PROJECT:
                bounds.setdefault(needed, []).append((name, requirement.specifier))
            new = {(needed, more) for more in ("", *requirement.extras)} - seen
            seen |= new
            waiting += sorted(new)
    return {name: _line(name, bounds[name], known) for name in sorted(bounds)}


def _requires(name: str, known: Mapping[str, Wheel]) -> Sequence[str]:
    """What a distribution requires: as its wheel says, else as installed here; nothing where neither is there."""
    if name in known:
        return known[name].requires
    try:
        return distribution(name).requires or ()
    except PackageNotFoundError:
        return ()


def _applies(requirement: Requirement, target: Target, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({**target.markers, "extra": extra})


def _line(name: str, bounds: Sequence[tuple[str, SpecifierSet]], known: Mapping[str, Wheel]) -> str:
    """The version that was found, else the installed version, else the bounds."""
    try:
        version = known[name].version if name in known else distribution(name).version
    except PackageNotFoundError:
        return f"{name}{','.join(sorted({str(bound) for _, specifier in bounds for bound in specifier}))}"
    for who, specifier in bounds:
        if not specifier.contains(version, prereleases=True):
            raise BundleError(
                f"{name} {version} conflicts with {who}, which requires {name}{specifier}. Install matching "
                f"versions and bundle again"
            )
    return f"{name}=={version}"


def _report(target: Target, lines: Sequence[str]) -> dict[str, Wheel]:
    """What pip would install for some requirements, by name."""
    with tempfile.TemporaryDirectory(prefix="trm-bundle-") as folder:
        report = Path(folder) / "report.json"
        options = ["--dry-run", "--ignore-installed", "--no-deps", "--target", str(Path(folder) / "none")]
        _pip(target, "install", *options, "--report", str(report), *target.pip_options, *lines)
        found = json.loads(report.read_bytes())["install"]
    return {wheel.name: wheel for wheel in map(_wheel, found)}


def _wheel(item: Mapping[str, Any]) -> Wheel:
    """A wheel as pip reports it (pip.pypa.io/en/stable/reference/installation-report); pip 22 has one digest only."""
    about, place = item["metadata"], item["download_info"]
    stated = place["archive_info"]
    sha256 = stated.get("hashes", {}).get("sha256") or stated.get("hash", "").removeprefix("sha256=")
    if not SHA256.fullmatch(sha256):
        raise BundleError(
            f"{about['name']} {about['version']}: its index has no sha256. Use another index (pip config list)"
        )
    return Wheel(
        name=canonicalize_name(about["name"]),
        version=about["version"],
        url=place["url"],
        sha256=sha256,
        requires=tuple(about.get("requires_dist", ())),
    )


def fetch_wheels(target: Target, wheels: Sequence[Wheel], folder: Path) -> None:
    """Download wheels into a folder, each with the digest that it was found with."""
    with tempfile.TemporaryDirectory(prefix="trm-bundle-") as temporary:
        lines = Path(temporary) / "wheels.txt"
        lines.write_text(hashed_lines({f"{one.name}=={one.version}": one.sha256 for one in wheels}), "utf-8")
        options = ["--no-deps", "--require-hashes", "--dest", str(folder), "--requirement", str(lines)]
        _pip(target, "download", *options, *target.pip_options)


def hashed_lines(hashes: Mapping[str, str]) -> str:
    """A file of requirements with the sha256 of each, which `pip --require-hashes` holds files against."""
    return "".join(f"{name} --hash=sha256:{sha256}\n" for name, sha256 in sorted(hashes.items()))


def file_name(wheel: Wheel) -> str:
    """Name of a wheel's file."""
    return unquote(urlsplit(wheel.url).path).rpartition("/")[2]


def sizes_of(wheels: Sequence[Wheel]) -> list[int | None]:
    """Bytes of each, without downloading it; None where its server does not say."""
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(_size_of, wheels))


def _size_of(wheel: Wheel) -> int | None:
    parts = urlsplit(wheel.url)
    try:
        if parts.scheme == "file":
            return Path(unquote(parts.path)).stat().st_size
        asked = urllib.request.Request(wheel.url, method="HEAD")
        with urllib.request.urlopen(asked, timeout=ANSWER_S) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, ValueError, TypeError):
        return None


def _pip(target: Target, command: str, *words: str) -> None:
    """Run pip."""
    started = [*pip_command(), command, *QUIET, *words]
    try:
        done = subprocess.run(started, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BundleError(f"{started[0]}: cannot be started ({error})") from error
    if done.returncode:
        raise BundleError(explain(target, done.stderr))


def explain(target: Target, said: str) -> str:
    """What pip's complaint means here, in a line."""
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
    if any(word in said for word in UNREACHED):
        return (
            "the package index cannot be reached, and a bundle is made where there is a network; look at the "
            "connection and at pip's settings (pip config list)"
        )
    missing = next(
        (line.rpartition(" for ")[2] for line in errors if "No matching distribution" in line), None
    )
    if missing is not None:
        return (
            f"no wheel of {missing} for {target}: take another --python or a newer --platform, or install a version "
            "here that has one, and bundle again"
        )
    return f"pip: {' '.join(errors) or ' '.join(said.split()) or 'failed without a message'}"
