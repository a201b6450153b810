"""Weights files by suffix; safetensors are read back as written, and files of PyTorch name their conversion."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trm_train.errors import CheckpointError, ConfigError
from trm_train.weights import read_weights, write_weights_file

PUBLISHED = Path(__file__).parents[1] / "fixtures" / "published_checkpoint.safetensors"
ARRAYS = {
    "b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a": np.array([1.5, -2.25], np.float32),
    "empty": np.zeros((0, 3), np.float32),
}


def write(path: Path) -> None:
    if path.suffix == ".npz":
        np.savez(path, **ARRAYS)  # pyright: ignore[reportArgumentType]
    else:
        write_weights_file(path, ARRAYS)


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_a_round_trip_gives_the_same_values(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"weights{suffix}"
    write(path)
    found = read_weights(path)
    assert found.keys() == ARRAYS.keys()
    assert all(np.array_equal(found[name], ARRAYS[name]) for name in ARRAYS)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_file_that_is_there_and_another_suffix_are_refused(tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").touch()
    for name in ("weights.safetensors", "weights.npz", "weights"):
        with pytest.raises(ConfigError, match="--out"):
            write_weights_file(tmp_path / name, ARRAYS)
    for name in ("weights.bin", "weights.pt", "missing.npz"):
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
        safetensors(b"{", b""),
        safetensors({"a": entry("F32", [2], 0, 4)}, b"\0" * 4),
        safetensors({"a": entry("F32", [1], 0, 4)}, b"\0" * 8),
        safetensors({"a": entry("F32", [1], 4, 8)}, b"\0" * 8),
        safetensors({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 0, 4)}, b"\0" * 4),
        safetensors({"a": entry("I64", [1], 0, 8)}, b"\0" * 8),
        safetensors({"a": entry("F32", [-1], 0, -4)}, b""),
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
        (np.savez_compressed, np.zeros(10_000, np.float32)),
    ):
        save(path, a=array)
        with pytest.raises(CheckpointError, match=r"weights\.npz"):
            read_weights(path)


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_any_changed_or_cut_file_ends_in_one_error_or_tensors(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"weights{suffix}"
    write(path)
    content = path.read_bytes()
    random = np.random.default_rng(1)
    for number in range(150):
        changed = bytearray(content)
        changed[random.integers(len(content))] = random.integers(256)
        cut = len(content) if number % 3 else random.integers(len(content))
        path.write_bytes(changed[:cut])
        with contextlib.suppress(CheckpointError):
            read_weights(path)


def test_the_published_file_has_its_names_shapes_and_numbers() -> None:
    found = read_weights(PUBLISHED)
    assert len(found) == 15
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}
    assert found["_orig_mod.model.inner.lm_head.weight"].shape == (6, 32)
    assert found["_orig_mod.model.inner.puzzle_emb.weights"].shape == (3, 32)
    latent = found["_orig_mod.model.inner.H_init"]  # bfloat16: the lower half of every number is empty
    assert not np.any(latent.view(np.uint32) & 0xFFFF)
    assert 0.5 < latent.std() < 1.5
