"""Write one shard of whole groups: temporary file, close, check, rename.

Input: a stream of `Rows`, each with whole groups. Output: the shard, and the content of its sidecar as `ShardInfo`.
Neighbours: `trm_data.building.shard_job` calls `write_shard`, `reader` reads what was written.

Names of shard files are `<split>-00003-of-00016.array_record`, each with a sidecar `<shard>.json`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from trm_data.encode import block_schema, encode_block
from trm_data.errors import BuildError, not_written
from trm_data.records import Rows
from trm_data.shards.reader import GROUP_DIGEST_BYTES, check_threads, group_digests
from trm_data.specs import BLOCK_EXAMPLES, canonical_json
from trm_data.storage.atomic import (
    file_sha256,
    json_bytes,
    parse_json,
    sync_file,
    temporary_path,
)
from trm_data.storage.root import FileEntry

SUFFIX = ".array_record"


def shard_name(split: str, shard: int, num_shards: int) -> str:
    """Return the file name of one shard."""
    return f"{split}-{shard:05d}-of-{num_shards:05d}{SUFFIX}"


def sidecar_name(shard: str) -> str:
    """Return the file name of a shard's sidecar, the small JSON file that marks the shard as complete."""
    return f"{shard}.json"


WRITER_OPTIONS = "group_size:1,zstd:1"
"""One record per chunk, compressed once by ArrayRecord (docs/decisions/0003)."""

SIDECAR_VERSION = 2
"""Since version 2, a sidecar contains its own digest; older sidecars are ignored and their shards written again."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ShardInfo(FileEntry):
    """Metadata of a complete shard; its sidecar stores it as JSON."""

    num_records: int
    num_examples: int
    first_group: int
    num_groups: int
    group_digests: str
    """Base64 of the concatenated group digests."""
    spec_digest: str
    """Digest of the specification for which the shard was built."""

    def group_digest_bytes(self) -> bytes:
        """Return the concatenated group digests."""
        return base64.b64decode(self.group_digests)


def write_shard(
    path: Path, parts: Iterable[Rows], *, sequence_length: int, spec_digest: str, first_group: int
) -> ShardInfo:
    """Write one shard atomically.

    Args:
        path: Final name of the shard.
        parts: Rows in group order; a group is never split between two parts.
        sequence_length: Cells of a row.
        spec_digest: Digest of the specification that is being built.
        first_group: Group of the first row.
    """
    temporary = temporary_path(path)
    try:
        num_records, num_examples, digests = _write_records(temporary, parts, sequence_length)
        _check_written(temporary, num_records)
        info = ShardInfo(
            file=path.name,
            sha256=file_sha256(temporary),
            size_bytes=temporary.stat().st_size,
            num_records=num_records,
            num_examples=num_examples,
            first_group=first_group,
            num_groups=len(digests) // GROUP_DIGEST_BYTES,
            group_digests=base64.b64encode(digests).decode(),
            spec_digest=spec_digest,
        )
        sync_file(temporary)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BuildError(not_written(path, error, "build again")) from error
    return info


def _write_records(path: Path, parts: Iterable[Rows], sequence_length: int) -> tuple[int, int, bytes]:
    """Write all blocks; return the numbers of records and examples, and the group digests."""
    from array_record.python.array_record_module import ArrayRecordWriter

    check_threads()  # without these threads a writer aborts the process when it closes
    schema = block_schema(sequence_length)
    writer = _on_disk(ArrayRecordWriter, str(path), WRITER_OPTIONS)
    num_examples = 0
    digests: list[bytes] = []
    rest = Rows.empty(0, sequence_length)
    try:
        for part in parts:
            digests.append(group_digests(part))
            num_examples += len(part)
            rows = Rows.concatenate([rest, part])
            whole = len(rows) - len(rows) % BLOCK_EXAMPLES
            for start in range(0, whole, BLOCK_EXAMPLES):
                _on_disk(writer.write, encode_block(rows.slice(start, start + BLOCK_EXAMPLES), schema))
            rest = rows.slice(whole, len(rows))
        if len(rest):
            _on_disk(writer.write, encode_block(rest, schema))
    finally:
        if writer.is_open():
            _on_disk(writer.close)
    return -(-num_examples // BLOCK_EXAMPLES), num_examples, b"".join(digests)


def _on_disk(action: Callable[..., T], *arguments: object) -> T:
    """Call ArrayRecord, and convert its ValueError or RuntimeError for a full disk to an OSError."""
    try:
        return action(*arguments)
    except (RuntimeError, ValueError) as error:
        raise OSError(str(error)) from error


def _check_written(path: Path, num_records: int) -> None:
    """Open the file and count its records before it gets its name: a writer that lost bytes closes without an error."""
    from array_record.python.array_record_module import ArrayRecordReader

    reader = ArrayRecordReader(str(path))
    try:
        found = reader.num_records() if reader.ok() else 0
    finally:
        reader.close()
    if found != num_records:
        raise OSError(f"{found} of {num_records} records are in the file")


def sidecar_to_bytes(info: ShardInfo) -> bytes:
    """Return the content of the sidecar file of a shard."""
    value = {"sidecar_version": SIDECAR_VERSION, **asdict(info)}
    return json_bytes({**value, "digest": hashlib.sha256(canonical_json(value)).hexdigest()})


def sidecar_from_bytes(content: bytes) -> ShardInfo | None:
    """Parse a sidecar, the inverse of `sidecar_to_bytes`; return None if it was changed or has an unknown version."""
    try:
        value = parse_json(content)
        info = ShardInfo(**{name: value[name] for name in ShardInfo.__dataclass_fields__})
        return info if sidecar_to_bytes(info) == content else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
