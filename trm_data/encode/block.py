"""A block of examples as one self-describing Arrow IPC stream: what one ArrayRecord record holds.

`encode_block` and `decode_block` are inverses. The stream is a schema and one record batch, so any Arrow
library reads a record without this package. Compression is the record file's (docs/decisions/0003).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import CorruptDatasetError
from trm_data.records import Rows

if TYPE_CHECKING:
    import pyarrow as pa


def block_schema(sequence_length: int) -> pa.Schema:
    """Arrow schema of a block whose rows have `sequence_length` cells."""
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
    """All rows as one Arrow batch over the same memory; slices of it are blocks."""
    import pyarrow as pa

    def cells(values: NDArray[np.uint8], column: str) -> pa.Array:
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, type=schema.field(column).type)

    return pa.RecordBatch.from_arrays(
        [
            cells(rows.inputs, "inputs"),
            cells(rows.labels, "labels"),
            pa.array(rows.puzzle_identifiers),
            pa.array(rows.groups),
            pa.array(rows.augmentations),
            pa.array(rows.examples),
        ],
        schema=schema,
    )


def encode_block(batch: pa.RecordBatch) -> bytes:
    """A batch as the bytes of one record."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return cast(bytes, sink.getvalue().to_pybytes())


def decode_block(record: bytes, schema: pa.Schema) -> Rows:
    """Rows of one record, as read-only views into its bytes.

    Raises:
        CorruptDatasetError: Not an Arrow stream, or one of another schema.
    """
    import pyarrow as pa

    try:
        batch = pa.ipc.open_stream(record).read_next_batch()
        batch.validate(full=True)
        found = batch.schema.names
    except (pa.ArrowException, OSError, StopIteration, MemoryError, ValueError) as error:
        raise CorruptDatasetError(f"a record is not an Arrow stream: {error}") from error
    if not batch.schema.equals(schema):
        raise CorruptDatasetError(f"a record has the columns {found}, not {schema.names}")
    if any(column.null_count for column in batch.columns):
        raise CorruptDatasetError("a record has missing values")

    def column(name: str) -> NDArray[np.int32]:
        return batch.column(name).to_numpy(zero_copy_only=True)

    def cells(name: str) -> NDArray[np.uint8]:
        return batch.column(name).flatten().to_numpy(zero_copy_only=True).reshape(batch.num_rows, -1)

    return Rows(
        inputs=cells("inputs"),
        labels=cells("labels"),
        puzzle_identifiers=column("puzzle_identifier"),
        groups=column("group"),
        augmentations=column("augmentation"),
        examples=column("example"),
    )
