"""Wheels from the package index, by pip: which file each requirement is, and the files themselves."""

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
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from trm_eval.bundle.needs import Wheel, requirements
from trm_eval.bundle.target import Target
from trm_eval.errors import BundleError
from trm_eval.package.contents import SHA256

UNREACHED = ("Retrying (", "ProxyError", "NewConnectionError", "NameResolutionError", "ConnectTimeoutError")
"""What pip says where it reaches no index."""
QUIET = ("--disable-pip-version-check", "--no-input", "--quiet", "--retries", "2")
ANSWER_S = 20
"""Longest wait for the size of a file."""


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
        f"wheels are fetched by pip, and there is none for {sys.executable} nor on the path: "
        "install it (python -m ensurepip), or uv"
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
            f"{about['name']} {about['version']}: its index states no sha256; take another (pip config list)"
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
    return f"pip: {' '.join(errors) or ' '.join(said.split()) or 'failed without a word'}"
