"""Contents of a package: files with known names, and `package.json` with their digests.

    README.md                      card for readers, who may edit it; the import does not read it
    package.json                   run, step, size and sha256 of every other file, fingerprints of the weights
    config.json                    copy of the run's config.json
    weights.npz, raw.npz           averaged parameters with latents and puzzle table; raw parameters
    dataset.json                   how to build the training dataset; never its rows
    results/                       evaluations, accuracy by depth, training metrics

The digests detect damage and edits; they do not authenticate the author of a package.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trm_data.storage.atomic import file_sha256, json_bytes, parse_json, with_digest
from trm_eval.errors import PackageError

FORMAT_VERSION = 1
PACKAGE_FILE = "package.json"
CARD = "README.md"
CONFIG = "config.json"
WEIGHTS = "weights.npz"
RAW = "raw.npz"
DATASET = "dataset.json"
METRICS = "results/train_metrics.parquet"
REQUIRED = (CONFIG, WEIGHTS, RAW, DATASET)
FILES = (
    *REQUIRED,
    "results/evals.json",
    "results/evals.parquet",
    "results/depth.json",
    "results/depth.parquet",
    METRICS,
)
"""Allowed file names in a package, except its card and `package.json`."""
SHA256 = re.compile(r"[0-9a-f]{64}")
LARGEST_BYTES = 1 << 20
"""Maximum size of `package.json`, the configuration and the data recipe (bytes)."""

LONGEST_TEXT = 256


@dataclass(frozen=True)
class PackedFile:
    """Size and digest of a file in a package."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class Training:
    """Training of the run up to the packed step.

    Attributes:
        seconds: Training time over all starts, without compilation (s).
        compile_s: Compilation time of the last start (s).
        examples_per_s: Slots per second before the last heartbeat.
        exact_accuracy: Best exact accuracy of its validations (0 to 1); None without validations.
        ended_at: Time of the last heartbeat (UTC).
    """

    seconds: float
    compile_s: float
    examples_per_s: float
    exact_accuracy: float | None
    ended_at: str


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package's `package.json`.

    Attributes:
        run: Name of the run.
        step: Training step of the weights.
        code_version: Version of trm-lab that packed it.
        training: Facts about training; None if the run has no status.
        fingerprints: Fingerprint of every leaf of the weights (`checkpoint.manager.fingerprints`).
        files: Files of the package, by name.
        card_sha256: Digest of the card as written.
    """

    run: str
    step: int
    code_version: str
    training: Training | None
    fingerprints: dict[str, int]
    files: dict[str, PackedFile]
    card_sha256: str

    def to_bytes(self) -> bytes:
        """Return the content of `package.json`."""
        return json_bytes(with_digest({"format_version": FORMAT_VERSION, **asdict(self)}))

    @property
    def digest(self) -> str:
        """Digest of everything in the package except the card's text."""
        return str(with_digest({"format_version": FORMAT_VERSION, **asdict(self)})["digest"])


def packed_file(path: Path) -> PackedFile:
    """Return the size and digest of a file."""
    return PackedFile(path.stat().st_size, file_sha256(path))


def parse_package(content: bytes, where: str) -> Package:
    """Parse a `package.json`.

    Args:
        content: Content of the file.
        where: Path of the file, for messages.
    """
    try:
        if len(content) > LARGEST_BYTES:
            raise ValueError(f"{len(content):,} bytes are more than {LARGEST_BYTES:,}")
        value: dict[str, Any] = parse_json(content)
        if with_digest(value) != value:
            raise PackageError(
                f"{where}: was changed (its digest differs): it was edited or damaged; get the package again"
            )
        if value.pop("format_version") > FORMAT_VERSION:
            raise PackageError(f"{where}: was packed by a newer version of trm-lab; upgrade it")
        value.pop("digest")
        value["files"] = {str(name): PackedFile(**file) for name, file in value["files"].items()}
        value["training"] = None if value["training"] is None else Training(**value["training"])
        package = Package(**value)
        _check(package, where)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PackageError(f"{where}: is not a package of a run ({error})") from error
    return package


def _check(package: Package, where: str) -> None:
    """Raise an error for unknown or missing file names, and for values of the wrong type or range."""
    for name in package.files:
        if name not in FILES:
            raise PackageError(f"{where}: names {name!r}, which does not belong to a package")
    for name in REQUIRED:
        if name not in package.files:
            raise PackageError(f"{where}: names no {name}; get the package again")
    if type(package.step) is not int or not 0 <= package.step < 2**63:
        raise ValueError(f"step {package.step!r}")
    texts, numbers = [package.run, package.code_version], []
    if (training := package.training) is not None:
        texts.append(training.ended_at)
        numbers = [training.seconds, training.compile_s, training.examples_per_s]
        numbers += [] if training.exact_accuracy is None else [training.exact_accuracy]
    for text in texts:
        if type(text) is not str or len(text) > LONGEST_TEXT or not text.isprintable():
            raise ValueError(f"expected a line of up to {LONGEST_TEXT} characters, got {str(text)[:40]!r}")
    for number in numbers:
        if type(number) not in (int, float) or not 0 <= number < math.inf:
            raise ValueError(f"expected a number from 0, got {str(number)[:40]!r}")
    for name, file in package.files.items():
        if type(file.size_bytes) is not int or not SHA256.fullmatch(file.sha256):
            raise ValueError(f"size {file.size_bytes!r}, sha256 {file.sha256!r}")
        if name in (CONFIG, DATASET) and file.size_bytes > LARGEST_BYTES:
            raise ValueError(f"{name}: {file.size_bytes:,} bytes are more than {LARGEST_BYTES:,}")


def read_package(folder: Path) -> Package:
    """Read the package in a folder, and verify every file."""
    path = folder / PACKAGE_FILE
    try:
        if path.exists() and not path.is_file():  # opening a pipe would block
            raise PackageError(f"{path}: is not a regular file. Download the package again.")
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise PackageError(
            f"{folder}: is not a package of a run ({PACKAGE_FILE}: {error.strerror})"
        ) from error
    package = parse_package(content, str(path))
    for name, stated in package.files.items():
        if not (folder / name).is_file():
            raise PackageError(f"{folder / name}: is missing; get the package again")
        if packed_file(folder / name) != stated:
            raise PackageError(
                f"{folder / name}: was edited or damaged (its digest differs). Get the package again"
            )
    return package
