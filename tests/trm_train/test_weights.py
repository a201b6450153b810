"""Weights files by suffix; safetensors are read back as written.

PyTorch state dicts: read as data, and refused if they contain more than tensors.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trm_train.errors import CheckpointError, ConfigError
from trm_train.weights import read_torch, read_weights, write_weights_file

PUBLISHED = Path(__file__).parents[1] / "fixtures" / "published_checkpoint.pt"
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


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".npz"])
def test_any_changed_or_cut_file_ends_in_one_error_or_tensors(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"weights{suffix}"
    if suffix == ".pt":
        content = PUBLISHED.read_bytes()
        interesting = 3_000  # the description comes first
    else:
        write(path)
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


TENSOR, FLOATS, HALVES, DOUBLES, SHORT = (
    "torch._utils\n_rebuild_tensor_v2",
    "torch\nFloatStorage",
    "torch\nHalfStorage",
    "torch\nDoubleStorage",
    "torch\nBFloat16Storage",
)


def named(name: str) -> bytes:
    """Return the instruction that names code."""
    return b"c" + name.encode() + b"\n"


def value(item: Any) -> bytes:
    """Return the instructions that push a plain value."""
    return pickle.dumps(item, 2)[2:-1]


def tensor(
    kind: str,
    key: str,
    count: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int = 0,
) -> bytes:
    """Return the instructions that push a tensor, as torch writes them."""
    storage = b"(" + value("storage") + named(kind) + value(key) + value("cpu") + value(count) + b"tQ"
    rest = value(offset) + value(shape) + value(strides) + b"\x89" + named("collections\nOrderedDict") + b")R"
    return named(TENSOR) + b"(" + storage + rest + b"tR"


def pickled(entries: dict[str, bytes]) -> bytes:
    """Return the pickle of a dict of entries."""
    items = b"".join(value(name) + content for name, content in entries.items())
    return b"\x80\x02}(" + items + b"u."


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    """Write an archive as `torch.save` does."""

    def save(content: bytes, storages: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
        path = tmp_path / "weights.pt"
        with zipfile.ZipFile(path, "w", compression) as archive:
            archive.writestr("weights/data.pkl", content)
            archive.writestr("weights/byteorder", "little")
            for key, data in storages.items():
                archive.writestr(f"weights/data/{key}", data)
        return path

    return save


def test_the_published_file_has_its_names_shapes_and_numbers() -> None:
    found = read_torch(PUBLISHED)
    assert len(found) == 15
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}
    assert found["_orig_mod.model.inner.lm_head.weight"].shape == (6, 32)
    assert found["_orig_mod.model.inner.puzzle_emb.weights"].shape == (3, 32)
    latent = found["_orig_mod.model.inner.H_init"]  # bfloat16: the lower half of every number is empty
    assert not np.any(latent.view(np.uint32) & 0xFFFF)
    assert 0.5 < latent.std() < 1.5


def test_all_four_types_are_read_with_offsets_and_strides(saved: Callable[..., Path]) -> None:
    numbers = np.arange(6)
    entries = {
        "floats": tensor(FLOATS, "0", 6, (2, 2), (1, 2), offset=2),
        "halves": tensor(HALVES, "1", 6, (6,), (1,)),
        "doubles": tensor(DOUBLES, "2", 6, (2, 3), (3, 1)),
        "short": tensor(SHORT, "3", 2, (2,), (1,)),
        "scalar": tensor(FLOATS, "0", 6, (), (), offset=5),
    }
    storages = {str(i): numbers.astype(kind).tobytes() for i, kind in enumerate(("<f4", "<f2", "<f8"))}
    storages["3"] = struct.pack("<2H", 0x3F80, 0xC020)
    found = read_torch(saved(pickled(entries), storages))
    assert found["floats"].tolist() == [[2, 4], [3, 5]]
    assert found["halves"].tolist() == [0, 1, 2, 3, 4, 5]
    assert found["doubles"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["short"].tolist() == [1.0, -2.5]
    assert found["scalar"].tolist() == 5.0


class Mischief:
    """Creates a folder when unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self.place,)


@pytest.mark.parametrize("protocol", [2, 4])
def test_pickled_code_is_refused_by_name_and_nothing_is_executed(
    saved: Callable[..., Path], tmp_path: Path, protocol: int
) -> None:
    content = pickle.dumps({"a": Mischief(tmp_path / "made"), "b": OrderedDict()}, protocol)
    with pytest.raises(CheckpointError, match="nothing was executed") as refused:
        read_torch(saved(content, {}))
    assert "pathlib" in str(refused.value)
    assert not (tmp_path / "made").exists()


FOUR = np.arange(4, dtype="<f4").tobytes()


@pytest.mark.parametrize(
    ("content", "storages", "said"),
    [
        (pickled({"a": tensor(FLOATS, "0", 4, (2, 3), (3, 1))}), {"0": FOUR}, r"a: shape \(2, 3\)"),
        (
            pickled({"a": tensor(FLOATS, "0", 4, (4,), (1,), offset=1)}),
            {"0": FOUR},
            "larger than its storage",
        ),
        (pickled({"a": tensor(FLOATS, "0", 9, (4,), (1,))}), {"0": FOUR}, "its storage is 16 bytes"),
        (pickled({"a": tensor(FLOATS, "0", 4, (1,), (1 << 61,))}), {"0": FOUR}, "no sizes"),
        (pickled({"step": value(7), "a": tensor(FLOATS, "0", 4, (4,), (1,))}), {"0": FOUR}, "'step'"),
        (b"\x80\x02]K\x01a.", {}, "APPEND|EMPTY_LIST"),
        (b"no pickle", {}, "cannot be read"),
        (b"\x80\x02(ctorch._utils\n_rebuild_tensor_v2\n)R.", {}, "no tensor"),
    ],
)
def test_a_file_of_something_else_is_refused(
    saved: Callable[..., Path], content: bytes, storages: dict[str, bytes], said: str
) -> None:
    with pytest.raises(CheckpointError, match=said):
        read_torch(saved(content, storages))


def test_a_compressed_archive_a_bare_pickle_and_text_are_refused(
    saved: Callable[..., Path], tmp_path: Path
) -> None:
    content = pickled({"a": tensor(FLOATS, "0", 4, (4,), (1,))})
    with pytest.raises(CheckpointError, match="compressed"):
        read_torch(saved(content, {"0": FOUR}, zipfile.ZIP_DEFLATED))
    (tmp_path / "old.pt").write_bytes(content)
    with pytest.raises(CheckpointError, match="not a zip archive"):
        read_torch(tmp_path / "old.pt")
