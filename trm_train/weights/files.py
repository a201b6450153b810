"""A file of weights, in the form that its suffix says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import not_written
from trm_train.errors import CheckpointError, ConfigError
from trm_train.weights.npz import read_npz, write_npz
from trm_train.weights.safetensors import read_safetensors, write_safetensors
from trm_train.weights.torch_file import read_torch

READERS = {".pt": read_torch, ".pth": read_torch, ".safetensors": read_safetensors, ".npz": read_npz}
WRITERS = {".safetensors": write_safetensors, ".npz": write_npz}


def is_weights_file(reference: str) -> bool:
    """Whether a word names a file of weights, by its suffix."""
    return Path(reference).suffix in READERS


def read_weights(path: Path) -> dict[str, NDArray[np.float32]]:
    """The tensors of a file by name, as float32.

    Raises:
        ConfigError: The file is missing, or its suffix is not in `READERS`.
        CheckpointError: It holds something else.
    """
    if path.suffix not in READERS:
        raise ConfigError(f"{path}: suffix {path.suffix!r} (expected {', '.join(READERS)})")
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    return READERS[path.suffix](path)


def write_weights_file(path: Path, arrays: Mapping[str, NDArray[np.float32]]) -> None:
    """Write tensors by name, whole or not at all.

    Raises:
        ConfigError: The suffix is not in `WRITERS`, or the file exists.
        CheckpointError: Writing fails.
    """
    check_output(path)
    temporary = path.with_name(f".tmp-{path.name}")
    try:
        WRITERS[path.suffix](temporary, arrays)
        temporary.rename(path)
    except OSError as error:
        raise CheckpointError(not_written(path, error, "try again")) from error
    finally:
        temporary.unlink(missing_ok=True)


def check_output(path: Path) -> None:
    """Check the suffix of an output file, and that the file does not exist.

    Raises:
        ConfigError: The suffix is not in `WRITERS`, or the file exists.
    """
    if path.suffix not in WRITERS:
        raise ConfigError(f"--out {path}: suffix {path.suffix!r} (expected {', '.join(WRITERS)})")
    if path.exists():
        raise ConfigError(f"--out {path}: the file exists. Choose another name.")
