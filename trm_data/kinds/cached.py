"""Candidates of slow generators are cached under the root, in blocks: a killed build goes on choosing where it was.

And the nested datasets of a study, whose candidates are the same, make them once. Only time depends on it: the folder
may be deleted, and a block that is not whole is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np

from trm_data.kinds.candidates import Candidates
from trm_data.specs import BUILDER_VERSION, canonical_json
from trm_data.storage.atomic import write_bytes

BLOCK_CANDIDATES = 16
_DIGEST_BYTES = 32


def cache_folder(folder: Path, *generator: object) -> Path:
    """Where the candidates of one generator are cached.

    Args:
        folder: For all generators.
        generator: JSON values that say which one, with everything that its candidates depend on.
    """
    return folder / hashlib.sha256(canonical_json([BUILDER_VERSION, *generator])).hexdigest()[:16]


def cached_block(
    make: Callable[[int, tuple[int, int]], Candidates], folder: Path, stream: int, block: int
) -> Candidates:
    """The candidates from `block * BLOCK_CANDIDATES` on of a stream, read if they are there, else made and written."""
    bounds = block * BLOCK_CANDIDATES, (block + 1) * BLOCK_CANDIDATES
    path = folder / f"{stream}-{block:08d}.block"
    found = _read(path, bounds)
    if found is None:
        found = make(stream, bounds)
        with contextlib.suppress(OSError):  # only time is lost
            folder.mkdir(parents=True, exist_ok=True)
            for left in folder.glob(f".tmp-*-{path.name}"):  # by a killed build
                left.unlink(missing_ok=True)
            write_bytes(path, _to_bytes(found))
    return found


def _to_bytes(candidates: Candidates) -> bytes:
    sink = io.BytesIO()
    np.savez_compressed(sink, allow_pickle=False, **candidates.columns())
    content = sink.getvalue()
    return hashlib.sha256(content).digest() + content


def _read(path: Path, bounds: tuple[int, int]) -> Candidates | None:
    """The block of a file; None if there is none, a damaged one, or another one in it."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, content = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        return None
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            found = Candidates.of_columns({name: file[name] for name in file.files})
    except (ValueError, KeyError):  # whole, but not what is written today
        return None
    return found if np.array_equal(found.source_rows, np.arange(*bounds)) else None
