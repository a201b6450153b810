"""Tokens of the kinds, NumPy arrays as Arrow columns, and a block of examples as the content of one ArrayRecord record.

A block is one self-describing Arrow IPC stream: a schema and one record batch, so any Arrow library can read a record
without this package. `encode_block` and `decode_block` are inverses. The record file compresses the stream
(docs/decisions/0003).

`pyarrow.array` and `to_numpy` import pandas if it is installed, only to check the type of a value: a third of a
second in every process that writes or reads a shard. `numbers_column` and its neighbours avoid that for numbers, and
for up to `FEW` texts. They convert over the same memory.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import CorruptDatasetError
from trm_data.records import Rows
from trm_data.specs import BLOCK_EXAMPLES

if TYPE_CHECKING:
    import pyarrow as pa


PAD = 0
"""Padding at positions without a cell; ignored as a label."""

SUDOKU_BLANK = 1
"""A blank cell. A digit d is the token d + 1, so a cell value v is the token v + 1."""


def sudoku_vocabulary_size(side: int) -> int:
    """Return the number of tokens, with PAD, blank and the digits: 11 for 9x9."""
    return side + 2


MAZE_WALL = 1
"""A cell that cannot be entered: `#`."""
MAZE_FREE = 2
"""A cell that can be entered: a space."""
MAZE_START = 3
"""Start of the path: `S`."""
MAZE_GOAL = 4
"""End of the path: `G`."""
MAZE_PATH = 5
"""A free cell on the path: `o`; only in labels."""
MAZE_VOCABULARY_SIZE = 6
"""PAD and the five tokens of a maze."""


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


def block_schema(sequence_length: int) -> pa.Schema:
    """Return the Arrow schema of a block whose rows have `sequence_length` cells."""
    import pyarrow as pa

    cells = pa.list_(pa.field("cell", pa.uint8(), nullable=False), sequence_length)
    return pa.schema(
        [
            pa.field("inputs", cells, nullable=False),
            pa.field("labels", cells, nullable=False),
            pa.field("puzzle_identifier", pa.int32(), nullable=False),
            pa.field("group", pa.int32(), nullable=False),
            pa.field("augmentation", pa.int32(), nullable=False),
            pa.field("example", pa.int32(), nullable=False),
        ]
    )


def to_batch(rows: Rows, schema: pa.Schema) -> pa.RecordBatch:
    """Return all rows as one Arrow batch over the same memory; slices of it are blocks."""
    import pyarrow as pa

    def cells(values: NDArray[np.uint8], column: str) -> pa.Array:
        flat = numbers_column(values.reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, type=schema.field(column).type)

    return pa.RecordBatch.from_arrays(
        [
            cells(rows.inputs, "inputs"),
            cells(rows.labels, "labels"),
            numbers_column(rows.puzzle_identifiers),
            numbers_column(rows.groups),
            numbers_column(rows.augmentations),
            numbers_column(rows.examples),
        ],
        schema=schema,
    )


def encode_block(batch: pa.RecordBatch) -> bytes:
    """Return a batch as the bytes of one record."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return cast(bytes, sink.getvalue().to_pybytes())


@dataclass(frozen=True)
class _Frame:
    """The bytes that pyarrow writes around the columns of a full block, which needs no padding: always the same."""

    before: bytes
    after: bytes

    def join(self, rows: Rows) -> bytes:
        """Return the record of a full block."""
        columns = (np.ascontiguousarray(column).data for column in rows.columns().values())
        return b"".join((self.before, *columns, self.after))


@functools.lru_cache(maxsize=16)
def _frame(sequence_length: int) -> _Frame | None:
    """Return the frame of blocks with this many cells per row; None if pyarrow writes a second block differently."""
    schema, body = block_schema(sequence_length), _body(sequence_length)
    blank, other = _sample_block(sequence_length, 0), _sample_block(sequence_length, 1)
    written, expected = (encode_block(to_batch(rows, schema)) for rows in (blank, other))
    before = len(written) - body - len(_END_OF_STREAM)
    frame = _Frame(written[: max(before, 0)], written[before + body :])
    return frame if before > 0 and frame.join(other) == expected else None


def _body(sequence_length: int) -> int:
    """Return the size in bytes of the columns of a full block."""
    return BLOCK_EXAMPLES * (2 * sequence_length + 4 * 4)


class BlockEncoder:
    """Encodes rows to the bytes of `encode_block`; copies the columns of full blocks only once.

    Args:
        sequence_length: Cells of a row.
    """

    def __init__(self, sequence_length: int) -> None:
        self._schema = block_schema(sequence_length)
        self._frame = _frame(sequence_length)

    def encode(self, rows: Rows) -> bytes:
        """Return the bytes of one record, of at most 256 rows."""
        if self._frame and len(rows) == BLOCK_EXAMPLES:
            return self._frame.join(rows)
        return encode_block(to_batch(rows, self._schema))


class BlockDecoder:
    """Decodes the records of a shard; takes the columns of full blocks from their fixed offsets.

    Args:
        sequence_length: Cells of a row.
    """

    def __init__(self, sequence_length: int) -> None:
        self._schema = block_schema(sequence_length)
        self._length = sequence_length

    def decode(self, record: bytes) -> Rows:
        """Decode one record, like `decode_block`."""
        cells = BLOCK_EXAMPLES * self._length
        frame = _frame(self._length) if len(record) > _body(self._length) else None
        if (
            frame is None
            or len(record) != len(frame.before) + _body(self._length) + len(frame.after)
            or not (record.startswith(frame.before) and record.endswith(frame.after))
        ):
            return decode_block(record, self._schema)
        start, shape = len(frame.before), (BLOCK_EXAMPLES, self._length)
        numbers = np.frombuffer(record, np.int32, 4 * BLOCK_EXAMPLES, start + 2 * cells)
        identifiers, groups, augmentations, examples = numbers.reshape(4, BLOCK_EXAMPLES)
        return Rows(
            inputs=np.frombuffer(record, np.uint8, cells, start).reshape(shape),
            labels=np.frombuffer(record, np.uint8, cells, start + cells).reshape(shape),
            puzzle_identifiers=identifiers,
            groups=groups,
            augmentations=augmentations,
            examples=examples,
        )


_END_OF_STREAM = bytes.fromhex("ffffffff00000000")
"""End marker of an Arrow stream: a continuation marker and the length 0."""


def _sample_block(sequence_length: int, value: int) -> Rows:
    cells = np.full((BLOCK_EXAMPLES, sequence_length), value, np.uint8)
    numbers = np.arange(BLOCK_EXAMPLES, dtype=np.int32) * np.int32(value)
    return Rows(cells, cells, numbers, numbers, numbers, numbers)


def _check_body(record: bytes, schema: pa.Schema) -> None:
    """Reject a compressed body before it is decompressed, because it could take any amount of memory.

    pyarrow does not tell whether a body is compressed. So validate it with zeros: only an uncompressed one is valid.
    """
    import pyarrow as pa

    messages = pa.ipc.MessageReader.open_stream(record)
    messages.read_next_message()
    message = messages.read_next_message()
    head = message.serialize().to_pybytes()[: -message.body.size or None]
    blank = pa.py_buffer(head + bytes(message.body.size))
    pa.ipc.read_record_batch(blank, schema).validate(full=True)


def decode_block(record: bytes, schema: pa.Schema) -> Rows:
    """Return the rows of one record, as read-only views into its bytes."""
    import pyarrow as pa

    try:
        stream = pa.ipc.open_stream(record)
        found, batch = stream.schema.names, None
        if stream.schema.equals(schema):  # without dictionaries, the second message is the batch
            _check_body(record, schema)
            batch = stream.read_next_batch()
            batch.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration, MemoryError, ValueError) as error:
        raise CorruptDatasetError(f"a record is not an Arrow stream: {error}") from error
    if batch is None:
        raise CorruptDatasetError(f"a record has the columns {found}, not {schema.names}")
    if any(column.null_count for column in batch.columns):
        raise CorruptDatasetError("a record has missing values")

    def column(name: str) -> NDArray[np.int32]:
        return numbers_of(batch.column(name))

    def cells(name: str) -> NDArray[np.uint8]:
        column = batch.column(name)
        return numbers_of(column.flatten()).reshape(batch.num_rows, column.type.list_size)

    return Rows(
        inputs=cells("inputs"),
        labels=cells("labels"),
        puzzle_identifiers=column("puzzle_identifier"),
        groups=column("group"),
        augmentations=column("augmentation"),
        examples=column("example"),
    )
