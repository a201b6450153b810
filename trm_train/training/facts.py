"""What must be equal in all processes of a run: configuration, rows, code, libraries."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import trm_data
import trm_train
from trm_train.config.run import config_to_json
from trm_train.runs.record import RunRecord

LIBRARIES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def training_facts(record: RunRecord, *, resume: bool, extend: int | None) -> dict[str, Any]:
    """What this process would train, with what; plain JSON values by name.

    Args:
        record: Of a run that starts now.
        resume: Whether it goes on from what there is.
        extend: Steps in all that the user asks for.
    """
    return {
        "experiment": record.experiment,
        **dict(leaves(config_to_json(record.config))),
        "--resume never": not resume,
        "--extend": extend,
        "dataset content digest": record.content_digest,
        "dataset identifiers digest": record.identifiers_digest,
        "code of trm_data and trm_train": code_digest(trm_data, trm_train),
        **library_versions(),
    }


def library_versions() -> dict[str, str]:
    """Versions of Python and of the libraries that numbers depend on, by name."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def code_digest(*packages: ModuleType) -> str:
    """sha256 over the source files of packages, their names included; 16 digits of it."""
    digest = hashlib.sha256()
    for package in packages:
        folder = Path(package.__path__[0])
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{package.__name__}/{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def leaves(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Values by their dotted names."""
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from leaves(inner, f"{prefix}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield f"{prefix}{name}", inner
