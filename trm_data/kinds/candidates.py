"""Candidate puzzles of a dataset, and their cache."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.specs import BUILDER_VERSION, canonical_json
from trm_data.storage.atomic import write_bytes

_FACT = "fact_"


@dataclass(frozen=True)
class Candidates:
    """N valid puzzles of S cells, with the information to choose among them.

    Attributes:
        inputs: Tokens, uint8 [N, S].
        labels: Tokens, uint8 [N, S].
        source_rows: Row of each puzzle in its source, int64 [N].
        hashes: Hashes of the canonical forms, text [N].
        automorphisms: Number of symmetries that map each puzzle to itself, int64 [N].
        facts: Columns of the catalog, each of length N.
    """

    inputs: NDArray[np.uint8]
    labels: NDArray[np.uint8]
    source_rows: NDArray[np.int64]
    hashes: NDArray[np.str_]
    automorphisms: NDArray[np.int64]
    facts: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])

    def __len__(self) -> int:
        return len(self.inputs)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name, facts as `fact_...`."""
        return {
            "inputs": self.inputs,
            "labels": self.labels,
            "source_rows": self.source_rows,
            "hashes": self.hashes,
            "automorphisms": self.automorphisms,
            **{_FACT + name: values for name, values in self.facts.items()},
        }

    @staticmethod
    def of_columns(columns: Mapping[str, NDArray[Any]]) -> Candidates:
        """Return candidates from arrays by name, the inverse of `columns`."""
        facts = {
            name.removeprefix(_FACT): values for name, values in columns.items() if name.startswith(_FACT)
        }
        others = {name: values for name, values in columns.items() if not name.startswith(_FACT)}
        return Candidates(**others, facts=facts)

    def take(self, positions: NDArray[np.int64] | list[int]) -> Candidates:
        """Return the candidates at `positions`."""
        return Candidates.of_columns({name: values[positions] for name, values in self.columns().items()})

    @staticmethod
    def concatenate(parts: list[Candidates]) -> Candidates:
        """Return all candidates of `parts` in order."""
        columns = [part.columns() for part in parts]
        return Candidates.of_columns(
            {name: np.concatenate([each[name] for each in columns]) for name in columns[0]}
        )


BLOCK_CANDIDATES = 16
_DIGEST_BYTES = 32


def cache_folder(folder: Path, *generator: object) -> Path:
    """Return the cache folder for the candidates of one generator.

    Args:
        folder: Cache folder of all generators.
        generator: JSON values that identify the generator, with everything that its candidates depend on.
    """
    return folder / hashlib.sha256(canonical_json([BUILDER_VERSION, *generator])).hexdigest()[:16]


def cached_block(
    make: Callable[[int, tuple[int, int]], Candidates], folder: Path, stream: int, block: int
) -> Candidates:
    """Return the candidates of a stream from `block * BLOCK_CANDIDATES` on, from the cache, or make and cache them."""
    bounds = block * BLOCK_CANDIDATES, (block + 1) * BLOCK_CANDIDATES
    path = folder / f"{stream}-{block:08d}.block"
    found = _read(path, bounds)
    if found is None:
        found = make(stream, bounds)
        with contextlib.suppress(OSError):  # only time is lost
            folder.mkdir(parents=True, exist_ok=True)
            for left in folder.glob(f".tmp-*-{path.name}"):  # of a killed build
                left.unlink(missing_ok=True)
            sink = io.BytesIO()
            np.savez_compressed(sink, allow_pickle=False, **found.columns())
            content = sink.getvalue()
            write_bytes(path, hashlib.sha256(content).digest() + content)
    return found


def _read(path: Path, bounds: tuple[int, int]) -> Candidates | None:
    """Return the block in a file; None if the file is missing, damaged, or has another block."""
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
    except (ValueError, TypeError):  # intact, but of an older format
        return None
    return found if np.array_equal(found.source_rows, np.arange(*bounds)) else None
