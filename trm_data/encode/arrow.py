"""NumPy arrays and lists as Arrow columns over the same memory, and back.

`pyarrow.array` and `to_numpy` import pandas if it is installed, only to check the type of a value: a third of a
second in every process that writes or reads a shard. This module avoids that for numbers, and for up to `FEW` texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


FEW = 10_000
"""Maximum number of texts converted here; for more, pyarrow is faster, even with its import of pandas."""


def numbers_column(values: NDArray[Any]) -> pa.Array:
    """Return an array of integers or floats [N] as a column without missing values; NaN stays NaN."""
    import pyarrow as pa

    if values.ndim != 1 or not values.dtype.isnative:
        raise ValueError(f"a column is an array [N] in native order, got {values.dtype.str} {values.shape}")
    flat = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)])


def texts_column(values: Sequence[str | None]) -> pa.Array:
    """Return texts as a column; None is a missing value."""
    import pyarrow as pa

    if len(values) > FEW:
        return pa.array(values, pa.string())
    encoded = [b"" if value is None else value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    if ends[-1] > np.iinfo(np.int32).max:
        return pa.array(values, pa.large_string())
    missing = sum(value is None for value in values)
    there = np.packbits([value is not None for value in values], bitorder="little") if missing else None
    return pa.Array.from_buffers(
        pa.string(),
        len(encoded),
        [
            None if there is None else pa.py_buffer(there),
            pa.py_buffer(ends.astype(np.int32)),
            pa.py_buffer(b"".join(encoded)),
        ],
        missing,
    )


def constant_column(text: str, count: int) -> pa.Array:
    """Return a column with the same text `count` times, one byte each."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(numbers_column(np.zeros(count, np.int8)), texts_column([text]))


def table_of(columns: Mapping[str, Any]) -> pa.Table:
    """Return a table from columns: arrays of numbers, lists of texts or of integers, or Arrow columns."""
    import pyarrow as pa

    return pa.table({name: _column(values) for name, values in columns.items()})


def _column(values: Any) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return numbers_column(values)
    if isinstance(values, list):
        if all(value is None or isinstance(value, str) for value in values):
            return texts_column(values)
        if all(type(value) is int for value in values):
            return numbers_column(np.array(values, np.int64))
    return values


def numbers_of(column: pa.Array) -> NDArray[Any]:
    """Return a column of integers or floats without missing values as a read-only array over the same memory."""
    kind = np.dtype(column.type.to_pandas_dtype())
    buffer = column.buffers()[1]
    if buffer is None:
        return np.empty(0, kind)
    return np.frombuffer(buffer, kind, len(column), column.offset * kind.itemsize)
