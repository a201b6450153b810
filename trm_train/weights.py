"""Weights files, in the format of their suffix. PyTorch state dicts are read without torch and without unpickling.

A `.pt` file is a zip archive: `data.pkl` describes the tensors, `data/<key>` holds the bytes of each storage. The
description is a pickle, a program for a small stack machine. `pickletools.genops` splits it into instructions, and this
module executes the few that a state dict needs, on plain values. It imports and calls nothing that the pickle names:
names are compared with those below, and any other name is refused (docs/decisions/0040).
"""

from __future__ import annotations

import json
import pickletools
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import not_written
from trm_data.sources.arrays import BROKEN
from trm_data.storage.atomic import parse_json
from trm_train.errors import CheckpointError, ConfigError


def is_weights_file(reference: str) -> bool:
    """Return whether a reference names a weights file, judged by its suffix."""
    return Path(reference).suffix in READERS


def read_weights(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read the tensors of a file by name, as float32."""
    if path.suffix not in READERS:
        raise ConfigError(f"{path}: suffix {path.suffix!r} (expected {', '.join(READERS)})")
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    return READERS[path.suffix](path)


def write_weights_file(path: Path, arrays: Mapping[str, NDArray[np.float32]]) -> None:
    """Write tensors by name as safetensors, atomically."""
    check_output(path)
    temporary = path.with_name(f".tmp-{path.name}")
    try:
        write_safetensors(temporary, arrays)
        temporary.rename(path)
    except OSError as error:
        raise CheckpointError(not_written(path, error, "try again")) from error
    finally:
        temporary.unlink(missing_ok=True)


def check_output(path: Path) -> None:
    """Check the suffix of an output file, and that the file does not exist."""
    if path.suffix != ".safetensors":
        raise ConfigError(f"--out {path}: suffix {path.suffix!r} (expected .safetensors)")
    if path.exists():
        raise ConfigError(f"--out {path}: the file exists. Choose another name.")


def read_npz(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read the arrays of an uncompressed file (`np.savez`) by name, as float32."""
    try:
        with zipfile.ZipFile(path) as archive:
            if (total := sum(member.file_size for member in archive.infolist())) > path.stat().st_size:
                raise ValueError(f"{total:,} bytes of arrays are more than the file has")
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        if other := [f"{name} of {array.dtype}" for name, array in found.items() if array.dtype.kind != "f"]:
            raise ValueError(f"{', '.join(other)}; expected floating-point numbers")
    except BROKEN as error:
        raise CheckpointError(f"{path}: cannot be read as an .npz file of weights ({error})") from error
    return {name: array.astype(np.float32, copy=False) for name, array in found.items()}


LARGEST_HEADER_BYTES = 1 << 24
SAFETENSORS_DTYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}


def read_metadata(path: Path) -> dict[str, str]:
    """Read the metadata of a safetensors file, without its tensors."""
    try:
        with path.open("rb") as file:
            return dict(_header(file.read(8), file.read, path.stat().st_size).get("__metadata__", {}))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: cannot be read as safetensors ({error}). Get the file again."
        ) from error


def _header(begin: bytes, read: Callable[[int], bytes], file_bytes: int) -> dict[str, Any]:
    """Return the header, whose size is in the first 8 bytes."""
    size = int.from_bytes(begin, "little")
    if not 2 <= size <= min(LARGEST_HEADER_BYTES, file_bytes - 8):
        raise ValueError(f"a header of {size:,} bytes in a file of {file_bytes:,}")
    return parse_json(read(size))


def read_safetensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read the tensors of a file by name, as float32."""
    try:
        with path.open("rb") as file:
            header = _header(file.read(8), file.read, path.stat().st_size)
            data = memoryview(file.read())
        header.pop("__metadata__", None)
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
    dtype, shape = SAFETENSORS_DTYPES.get(entry["dtype"]), tuple(entry["shape"])
    start, end = entry["data_offsets"]
    if dtype is None:
        raise ValueError(f"{name}: type {entry['dtype']!r}; expected one of {', '.join(SAFETENSORS_DTYPES)}")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"{name}: shape {shape}")
    if end - start != prod(shape) * dtype.itemsize:
        raise ValueError(f"{name}: {end - start:,} bytes for shape {shape} of {entry['dtype']}")
    array: NDArray[Any] = np.frombuffer(data[start:end], dtype).reshape(shape)
    return widened(array) if entry["dtype"] == "BF16" else array.astype(np.float32)


def write_safetensors(
    path: Path, arrays: Mapping[str, NDArray[np.float32]], metadata: Mapping[str, str] | None = None
) -> None:
    """Write float32 tensors by name; the same tensors give the same bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **(metadata or {})}}
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
    return {name: _tensor_values(name, tensor, members) for name, tensor in entries.items()}


def _tensor_values(name: str, tensor: _Tensor, members: dict[str, bytes]) -> NDArray[np.float32]:
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


READERS = {".pt": read_torch, ".pth": read_torch, ".safetensors": read_safetensors, ".npz": read_npz}
