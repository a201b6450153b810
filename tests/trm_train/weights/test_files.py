"""Weights files by suffix; safetensors and npz are read back as written."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trm_train.errors import CheckpointError, ConfigError
from trm_train.weights import read_weights, write_weights_file

PUBLISHED = Path(__file__).parents[2] / "fixtures" / "published_checkpoint.pt"
ARRAYS = {
    "b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a": np.array([1.5, -2.25], np.float32),
    "empty": np.zeros((0, 3), np.float32),
}


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_a_round_trip_gives_the_same_values(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"weights{suffix}"
    write_weights_file(path, ARRAYS)
    found = read_weights(path)
    assert found.keys() == ARRAYS.keys()
    assert all(np.array_equal(found[name], ARRAYS[name]) for name in ARRAYS)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_file_that_is_there_and_another_suffix_are_refused(tmp_path: Path) -> None:
    (tmp_path / "weights.npz").touch()
    for name in ("weights.npz", "weights.pt", "weights"):
        with pytest.raises(ConfigError, match="--out"):
            write_weights_file(tmp_path / name, ARRAYS)
    for name in ("weights.bin", "missing.npz"):
        with pytest.raises(ConfigError, match=name):
            read_weights(tmp_path / name)


def safetensors(header: Any, data: bytes) -> bytes:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(content).to_bytes(8, "little") + content + data


def entry(dtype: str, shape: list[Any], start: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def test_other_types_of_safetensors_become_float32(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    header = {
        "short": entry("BF16", [2], 0, 4),
        "half": entry("F16", [1], 4, 6),
        "double": entry("F64", [], 6, 14),
        "__metadata__": {"format": "pt"},
    }
    data = np.array([0x3F80, 0xC020], "<u2").tobytes() + np.float16(0.5).tobytes() + np.float64(3).tobytes()
    path.write_bytes(safetensors(header, data))
    found = read_weights(path)
    assert {name: array.tolist() for name, array in found.items()} == {
        "short": [1.0, -2.5],
        "half": [0.5],
        "double": 3.0,
    }


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 16,
        safetensors(b"{", b""),
        safetensors([], b""),
        safetensors({"a": entry("F32", [2], 0, 4)}, b"\0" * 4),
        safetensors({"a": entry("F32", [1], 0, 4)}, b"\0" * 8),
        safetensors({"a": entry("F32", [1], 4, 8)}, b"\0" * 8),
        safetensors({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 0, 4)}, b"\0" * 4),
        safetensors({"a": entry("I64", [1], 0, 8)}, b"\0" * 8),
        safetensors({"a": entry("F32", [-1], 0, -4)}, b""),
        safetensors({"a": entry("F32", [1.0], 0, 4)}, b"\0" * 4),
        safetensors({"a": entry("F32", [1], "0", "4")}, b"\0" * 4),
        safetensors({"a": {"dtype": "F32"}}, b""),
    ],
)
def test_damaged_safetensors_are_refused_in_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"weights\.safetensors"):
        read_weights(path)


def test_pickled_compressed_and_whole_arrays_of_npz_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    for save, array in (
        (np.savez, np.array([{"a": 1}], object)),
        (np.savez, np.arange(3)),
        (np.savez_compressed, np.zeros(3, np.float32)),
    ):
        save(path, a=array)
        with pytest.raises(CheckpointError, match=r"weights\.npz"):
            read_weights(path)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".npz"])
def test_any_changed_or_cut_file_ends_in_one_error_or_tensors(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"weights{suffix}"
    if suffix == ".pt":
        content = PUBLISHED.read_bytes()
        interesting = 3_000  # the description comes first
    else:
        write_weights_file(path, ARRAYS)
        content = path.read_bytes()
        interesting = len(content)
    random = np.random.default_rng(1)
    for number in range(150):
        changed = bytearray(content)
        front = number % 2 or suffix != ".pt"
        place = random.integers(interesting) if front else -1 - random.integers(2_000)
        changed[place] = random.integers(256)
        cut = len(content) if number % 3 else random.integers(len(content))
        path.write_bytes(changed[:cut])
        with contextlib.suppress(CheckpointError):
            read_weights(path)
