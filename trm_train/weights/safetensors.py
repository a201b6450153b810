"""The safetensors format: length of the header (8 bytes), header (JSON), bytes of all tensors one after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.storage.atomic import parse_json
from trm_train.errors import CheckpointError
from trm_train.weights.torch_file import widened

LARGEST_HEADER_BYTES = 1 << 24
DTYPES = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}


def read_safetensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """The tensors of a file by name, as float32.

    Raises:
        CheckpointError: It is no such file, or its header and its size disagree.
    """
    try:
        content = path.read_bytes()
        size = int.from_bytes(content[:8], "little")
        if not 2 <= size <= min(LARGEST_HEADER_BYTES, len(content) - 8):
            raise ValueError(f"a header of {size:,} bytes in a file of {len(content):,}")
        header: dict[str, Any] = parse_json(content[8 : 8 + size])
        header.pop("__metadata__", None)
        data = memoryview(content)[8 + size :]
        spans = sorted(tuple(entry["data_offsets"]) for entry in header.values())
        ends = [0, *(end for _, end in spans)]
        if [start for start, _ in spans] != ends[:-1] or ends[-1] != len(data):
            raise ValueError("the tensors do not cover the file, each byte once")
        return {name: _array(name, entry, data) for name, entry in header.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: cannot be read as safetensors ({error}). Get the file again."
        ) from error


def _array(name: str, entry: Mapping[str, Any], data: memoryview) -> NDArray[np.float32]:
    dtype, shape = DTYPES.get(entry["dtype"]), tuple(entry["shape"])
    start, end = entry["data_offsets"]
    if dtype is None:
        raise ValueError(f"{name}: type {entry['dtype']!r}; expected one of {', '.join(DTYPES)}")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"{name}: shape {shape}")
    if end - start != prod(shape) * dtype.itemsize:
        raise ValueError(f"{name}: {end - start:,} bytes for shape {shape} of {entry['dtype']}")
    array: NDArray[Any] = np.frombuffer(data[start:end], dtype).reshape(shape)
    return widened(array) if entry["dtype"] == "BF16" else array.astype(np.float32)


def write_safetensors(path: Path, arrays: Mapping[str, NDArray[np.float32]]) -> None:
    """Write float32 tensors by name, the same bytes for the same tensors.

    Raises:
        OSError: The file cannot be written.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name in sorted(arrays):
        end = start + 4 * arrays[name].size
        header[name] = {"dtype": "F32", "shape": list(arrays[name].shape), "data_offsets": [start, end]}
        start = end
    content = json.dumps(header, separators=(",", ":")).encode()
    content += b" " * (-len(content) % 8)
    with path.open("wb") as file:
        file.write(len(content).to_bytes(8, "little") + content)
        for name in sorted(arrays):
            file.write(np.ascontiguousarray(arrays[name], "<f4").tobytes())
