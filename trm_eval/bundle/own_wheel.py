"""Builds a wheel of this package from its installed files, without build tools.

A wheel is an archive of the packages and a folder with their metadata (the binary distribution format,
packaging.python.org/specifications/binary-distribution-format). Nothing is compiled, so no build step is needed.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from trm_eval.bundle.index import PROJECT
from trm_eval.errors import BundleError

PACKAGES = ("catalogs", "trm_data", "trm_eval", "trm_train")
TAG = "py3-none-any"
WHEEL = f"Wheel-Version: 1.0\nGenerator: {PROJECT}\nRoot-Is-Purelib: true\nTag: {TAG}\n"
FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""Timestamp of all files, so that the wheel is reproducible."""


def write_own_wheel(folder: Path) -> Path:
    """Write the wheel into a folder."""
    try:
        own = distribution(PROJECT)
    except PackageNotFoundError as error:
        raise BundleError(
            f"{PROJECT} is not installed here (pip install .): the version of its files is unknown"
        ) from error
    name = f"{PROJECT.replace('-', '_')}-{own.version}"
    contents = dict(_packages()) | {f"{name}.dist-info/{file}": data for file, data in _facts(own).items()}
    record = f"{name}.dist-info/RECORD"
    lines = [f"{file},sha256={_digest(data)},{len(data)}" for file, data in contents.items()]
    contents[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    path = folder / f"{name}-{TAG}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, data in contents.items():
            entry = zipfile.ZipInfo(file, FIRST_DAY)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    return path


def _packages() -> Iterator[tuple[str, bytes]]:
    """Yield every file of the packages by path, except compiled files."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.submodule_search_locations
        home = Path(next(iter(spec.submodule_search_locations)))
        for path in sorted(home.rglob("*")):
            name = path.relative_to(home)
            hidden = any(part.startswith(".") or part == "__pycache__" for part in name.parts)
            if path.is_file() and not hidden:
                yield f"{package}/{name.as_posix()}", path.read_bytes()


def _facts(own: Distribution) -> dict[str, bytes]:
    """Return the metadata files by name: metadata, entry points, licences."""
    found: dict[str, bytes] = {}
    for name in ("METADATA", "entry_points.txt"):
        text = own.read_text(name)
        if text is None:
            raise BundleError(f"{PROJECT}: its installation has no {name}; install it again (pip install .)")
        found[name] = text.encode()
    for file in own.files or ():
        if file.parent.name == "licenses" and file.parent.parent.name.endswith(".dist-info"):
            found[f"licenses/{file.name}"] = file.read_binary()
    return {**found, "WHEEL": WHEEL.encode()}


def _digest(data: bytes) -> str:
    """Return a digest in the format of RECORD."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
