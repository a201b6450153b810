"""Tokens of the kinds, and a block of examples as the content of one ArrayRecord record.

A block is one self-describing Arrow IPC stream: a schema and one record batch, so any Arrow library can read a record
without this package. `encode_block` and `decode_block` are inverses. The record file compresses the stream
(docs/decisions/0003).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import CorruptDatasetError
from trm_data.records import Rows

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


def _numbers_column(values: NDArray[Any]) -> pa.Array:
    """Return an array of integers [N] as a column over the same memory.

    `pyarrow.array` would import pandas, if it is installed, only to check the type of a value.
    """
    import pyarrow as pa

    flat = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)])


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


def encode_block(rows: Rows, schema: pa.Schema) -> bytes:
    """Return rows as the bytes of one record."""
    import pyarrow as pa

    columns = {
        name: _numbers_column(getattr(rows, field).reshape(-1))
        for name, field in zip(schema.names, rows.columns(), strict=True)
    }
    for name in ("inputs", "labels"):
        columns[name] = pa.FixedSizeListArray.from_arrays(columns[name], type=schema.field(name).type)
    batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return cast(bytes, sink.getvalue().to_pybytes())


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
        if stream.schema.equals(schema):
            _check_body(record, schema)
            batch = stream.read_next_batch()
            batch.validate()
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
