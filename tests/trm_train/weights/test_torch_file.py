"""PyTorch state dicts: read as data, and refused if they contain more than tensors."""

from __future__ import annotations

import contextlib
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trm_train.errors import CheckpointError
from trm_train.weights import read_torch

PUBLISHED = Path(__file__).parents[2] / "fixtures" / "published_checkpoint.pt"

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


def test_the_attributes_of_an_ordered_dict_are_passed_over(saved: Callable[..., Path]) -> None:
    entry = value("a") + tensor(FLOATS, "0", 1, (1,), (1,))
    metadata = value({"_metadata": {"": {"version": 1}}})
    content = b"\x80\x02" + named("collections\nOrderedDict") + b")R(" + entry + b"u" + metadata + b"b."
    assert read_torch(saved(content, {"0": b"\0\0\x80\x3f"}))["a"].tolist() == [1.0]


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


def test_all_names_of_code_are_said_at_once(saved: Callable[..., Path]) -> None:
    entries = {"a": named("os\nsystem") + value(("true",)) + b"R", "b": named("builtins\neval")}
    with pytest.raises(CheckpointError, match=r"builtins\.eval, os\.system"):
        read_torch(saved(pickled(entries), {}))


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
        (pickled({"a": tensor(FLOATS, "0", 4, (1 << 40,), (0,))}), {"0": FOUR}, "declare"),
        (pickled({"a": tensor(FLOATS, "0", 9, (4,), (1,))}), {"0": FOUR}, "its storage is 16 bytes"),
        (pickled({"a": tensor(FLOATS, "7", 4, (4,), (1,))}), {"0": FOUR}, "its storage is missing"),
        (pickled({"a": tensor(FLOATS, "0", 4, (-4,), (1,))}), {"0": FOUR}, "no sizes"),
        (pickled({"a": tensor(FLOATS, "0", 4, (1,), (1 << 61,))}), {"0": FOUR}, "no sizes"),
        (pickled({"step": value(7), "a": tensor(FLOATS, "0", 4, (4,), (1,))}), {"0": FOUR}, "'step'"),
        (b"\x80\x02]K\x01a.", {}, "APPEND|EMPTY_LIST"),
        (b"\x80\x02}q\x00R.", {}, "not there"),
        (b"\x80\x02}u.", {}, "not there"),
        (b"no pickle", {}, "cannot be read"),
        (b"", {}, "cannot be read"),
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


def test_every_cut_and_changed_byte_of_the_description_ends_in_one_error_or_tensors(
    saved: Callable[..., Path],
) -> None:
    content = pickled({"a": tensor(FLOATS, "0", 4, (2, 2), (2, 1))})
    random = np.random.default_rng(0)
    for _ in range(300):
        changed = bytearray(content)
        changed[random.integers(len(content))] = random.integers(256)
        cut = bytes(changed[: random.integers(1, len(content) + 1)])
        with contextlib.suppress(CheckpointError):
            read_torch(saved(cut if random.random() < 0.3 else bytes(changed), {"0": FOUR}))
