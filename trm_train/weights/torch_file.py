"""Reads tensors of a PyTorch state dict (`torch.save`) without torch and without unpickling.

A `.pt` file is a zip archive: `data.pkl` describes the tensors, `data/<key>` holds the bytes of each storage. The
description is a pickle, a program for a small stack machine. `pickletools.genops` splits it into instructions, and this
module executes the few that a state dict needs, on plain values. It imports and calls nothing that the pickle names:
names are compared with those below, and any other name is refused (docs/decisions/0040).
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_train.errors import CheckpointError

LARGEST_PICKLE_BYTES = 1 << 24
MOST_DIMENSIONS = 16

STORAGES = {
    "torch FloatStorage": np.dtype("<f4"),
    "torch DoubleStorage": np.dtype("<f8"),
    "torch HalfStorage": np.dtype("<f2"),
    "torch BFloat16Storage": np.dtype("<u2"),
}
"""numpy dtype of each storage type; bfloat16 is the upper half of a float32."""
DICT, TENSOR, PARAMETER = (
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
)
KNOWN = {*STORAGES, DICT, TENSOR, PARAMETER}


@dataclass(frozen=True)
class _Global:
    """A name in the pickle; it is never imported."""

    name: str


@dataclass(frozen=True)
class _Storage:
    """A storage in the archive: a sequence of elements."""

    kind: str
    key: str
    count: int


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


_MARK = object()
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = {"BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read_torch(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read the tensors of a state dict by name, as float32."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive, path.stat().st_size)
            entries = _interpret(members["data.pkl"])
            return _arrays(entries, members, path.stat().st_size)
    except zipfile.BadZipFile as error:
        raise CheckpointError(
            f"{path}: not a zip archive of torch.save ({error}). Save it with PyTorch 1.6 or later, or as .safetensors."
        ) from error
    except (OSError, ValueError, KeyError, IndexError, TypeError, NotImplementedError, RuntimeError) as error:
        raise CheckpointError(
            f"{path}: cannot be read as a PyTorch state dict ({_first_line(error)}). Save model.state_dict() alone, "
            "or as .safetensors."
        ) from error


def _members(archive: zipfile.ZipFile, size_bytes: int) -> dict[str, bytes]:
    """Return the contents of the archive by name, without the leading archive name."""
    infos = archive.infolist()
    if sum(info.file_size for info in infos) > size_bytes:
        raise ValueError("the entries of the archive declare more bytes than the file has")
    found: dict[str, bytes] = {}
    for info in infos:
        name = info.filename.partition("/")[2]
        if info.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{info.filename!r} is compressed; torch.save compresses nothing")
        if name in found:
            raise ValueError(f"{info.filename!r} is there twice")
        found[name] = archive.read(info)
    if "data.pkl" not in found:
        raise ValueError("the archive has no data.pkl")
    if len(found["data.pkl"]) > LARGEST_PICKLE_BYTES:
        raise ValueError(f"data.pkl has more than {LARGEST_PICKLE_BYTES:,} bytes")
    if found.get("byteorder", b"little") != b"little":
        raise ValueError("the byte order is not little")
    return found


def _interpret(content: bytes) -> dict[str, _Tensor]:
    """Return the entries of the state dict that a pickle describes."""
    named = [str(given) for operation, given, _ in pickletools.genops(content) if operation.name == "GLOBAL"]
    _refuse_unknown(named)
    machine = _Machine()
    for operation, argument, _ in pickletools.genops(content):
        if operation.name == "STOP":
            break
        machine.carry_out(operation.name, argument)
    (top,) = machine.stack
    if not isinstance(top, dict):
        raise ValueError("the file holds no dict of tensors")
    others = [repr(name)[:80] for name, value in top.items() if not isinstance(value, _Tensor)]
    if others:
        raise ValueError(f"entries that are no tensors: {', '.join(others)}")
    return top


class _Machine:
    """Stack and memo of the interpreter for a state dict; all values are plain."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def carry_out(self, name: str, argument: Any) -> None:
        """Execute one instruction."""
        stack = self.stack
        if name in ("PROTO", "FRAME"):
            return
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _VALUES:
            stack.append(argument)
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _TUPLES:
            stack.append(tuple(self._pop(_TUPLES[name])))
        elif name == "TUPLE":
            stack.append(tuple(self._pop_to_mark()))
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name == "GLOBAL":
            stack.append(_Global(argument))
        elif name == "STACK_GLOBAL":
            name = " ".join(map(str, self._pop(2)))
            _refuse_unknown([name])
            stack.append(_Global(name))
        elif name == "BINPERSID":
            stack.append(_storage(*self._pop(1)))
        elif name == "REDUCE":
            stack.append(_rebuilt(*self._pop(2)))
        elif name == "SETITEM":
            self._set_items(self._pop(2))
        elif name == "SETITEMS":
            self._set_items(self._pop_to_mark())
        elif name == "BUILD":  # attribute _metadata of an OrderedDict: versions of modules
            self._pop(1)
        else:
            raise ValueError(f"the pickle has the instruction {name}, which a state dict does not need")

    def _pop(self, count: int) -> list[Any]:
        popped = self.stack[-count:]
        if len(popped) < count or any(value is _MARK for value in popped):
            raise ValueError("the pickle takes values that are not there")
        del self.stack[-count:]
        return popped

    def _pop_to_mark(self) -> list[Any]:
        place = len(self.stack) - 1
        while place >= 0 and self.stack[place] is not _MARK:
            place -= 1
        if place < 0:
            raise ValueError("the pickle takes values that are not there")
        popped = self.stack[place + 1 :]
        del self.stack[place:]
        return popped

    def _set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        names, values = items[::2], items[1::2]
        if not isinstance(target, dict) or not all(isinstance(name, str) for name in names):
            raise ValueError("the pickle sets entries that are not named by texts")
        for name, value in zip(names, values, strict=True):
            if name in target:
                raise ValueError(f"the entry {name!r} is there twice")
            target[name] = value


def _refuse_unknown(names: Sequence[str]) -> None:
    """Raise ValueError for any name that a state dict does not need."""
    if unknown := sorted({name.replace(" ", ".", 1) for name in names if name not in KNOWN}):
        raise ValueError(
            f"refused, nothing was executed: the file names code that is no tensor: {', '.join(unknown)}"
        )


def _storage(identity: Any) -> _Storage:
    """Return the storage of a persistent id: `("storage", type, key, device, elements)`."""
    word, kind, key, _, count = identity
    if word != "storage" or not isinstance(kind, _Global) or kind.name not in STORAGES:
        raise ValueError("a storage is not of float32, float16, bfloat16 or float64")
    if not isinstance(key, str) or type(count) is not int or count < 0:
        raise ValueError("a storage has no key or no size")
    return _Storage(kind.name, key, count)


def _rebuilt(function: Any, arguments: Any) -> Any:
    """Return the result of the three known functions, without calling them."""
    name = function.name if isinstance(function, _Global) else ""
    if name == DICT and arguments == ():
        return {}
    if name == TENSOR and isinstance(arguments, tuple) and len(arguments) in (6, 7):
        storage, offset, shape, strides = arguments[:4]
        numbers = (offset, *shape, *strides)
        if not isinstance(storage, _Storage) or len(shape) != len(strides) or len(shape) > MOST_DIMENSIONS:
            raise ValueError("a tensor is not described by storage, offset, shape and strides")
        if not all(type(number) is int and 0 <= number < 2**48 for number in numbers):
            raise ValueError("a tensor has a shape or strides that are no sizes")
        return _Tensor(storage, offset, tuple(shape), tuple(strides))
    if name == PARAMETER and isinstance(arguments, tuple) and isinstance(arguments[0], _Tensor):
        return arguments[0]
    raise ValueError("the pickle calls something that is no tensor")


def _arrays(
    entries: dict[str, _Tensor], members: dict[str, bytes], size_bytes: int
) -> dict[str, NDArray[np.float32]]:
    total = sum(prod(tensor.shape) * STORAGES[tensor.storage.kind].itemsize for tensor in entries.values())
    if total > size_bytes:
        raise ValueError(f"the tensors declare {total:,} bytes; the file has {size_bytes:,}")
    return {name: _array(name, tensor, members) for name, tensor in entries.items()}


def _array(name: str, tensor: _Tensor, members: dict[str, bytes]) -> NDArray[np.float32]:
    storage, dtype = tensor.storage, STORAGES[tensor.storage.kind]
    content = members.get(f"data/{storage.key}")
    if content is None or len(content) != storage.count * dtype.itemsize:
        held = "missing" if content is None else f"{len(content):,} bytes"
        raise ValueError(f"{name}: its storage is {held}; expected {storage.count:,} elements")
    extent = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True))
    if prod(tensor.shape) and tensor.offset + extent >= storage.count:
        raise ValueError(
            f"{name}: shape {tensor.shape} is larger than its storage ({storage.count:,} elements)"
        )
    if not prod(tensor.shape):
        return np.zeros(tensor.shape, np.float32)
    strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
    array = np.ndarray(tensor.shape, dtype, content, tensor.offset * dtype.itemsize, strides)
    return widened(array) if storage.kind == "torch BFloat16Storage" else array.astype(np.float32)


def widened(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Convert bfloat16 numbers, given as their bits, to float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
