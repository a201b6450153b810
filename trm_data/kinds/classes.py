"""The symmetry classes that a choice has taken, each with its holder: a dictionary that goes on on the disk.

The newest classes are in memory, in a plain dictionary. When there are more than `NEWEST`, they become a run: a file
(`storage.spill`) of 16-byte keys in order, and one of their holders. A run is read in pieces of `PIECE` keys at most,
by an index of the leading bits of the hash; runs of a size are merged, a range of leading bits at a time. So memory
does not depend on how many classes there are (docs/decisions/0034), and looking up is for many hashes at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trm_data.storage.spill import SpillFile

NEWEST = 262_144
"""Classes in memory: 40 MB of them."""
PIECE = 1 << 20
"""Keys of a run that are read at a time: 16 MB."""
RUNS_OF_A_SIZE = 8
"""So many of them are merged."""
PREFIX_BITS = 14
"""Leading bits of the hash that an index tells apart."""
GAP = 4_096
"""Keys that are read though nobody asked for them, rather than in two readings."""

KEY_BYTES = 16
_DIGITS = np.full(128, 255, np.uint8)
_DIGITS[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)


class Classes:
    """Symmetry classes by their hash, each with the number of who holds it, 0 or more.

    Args:
        folder: Where runs are written; None for the system's folder of temporary files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.newest: dict[str, int] = {}
        """Those that are in no run yet; whoever takes a class writes it here."""
        self._folder = folder
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return self.on_disk + len(self.newest)

    @property
    def on_disk(self) -> int:
        """Classes in runs."""
        return sum(map(len, self._runs))

    def look_up(self, hashes: NDArray[np.str_]) -> NDArray[np.int64] | None:
        """Holder of each class that is in a run, -1 for others, int64 [N]; None where there is no run."""
        if not self._runs:
            return None
        keys = keys_of(hashes)
        order = np.argsort(keys, kind="stable")
        asked = keys[order]
        found = np.full(len(keys), -1, np.int64)
        for run in self._runs:
            run.look_up(asked, found)
        holders = np.empty_like(found)
        holders[order] = found
        return holders

    def settle(self) -> None:
        """Make a run of the newest, if they are too many for memory."""
        if len(self.newest) <= NEWEST:
            return
        keys = keys_of(np.array(list(self.newest), np.str_))
        holders = np.fromiter(self.newest.values(), np.int64, len(keys))
        self.newest.clear()
        order = np.argsort(keys, kind="stable")
        run = _Run(self._folder)
        run.append(keys[order], holders[order])
        self._runs.append(run.whole())
        while len(self._runs) >= RUNS_OF_A_SIZE:
            last = self._runs[-RUNS_OF_A_SIZE:]
            if last[0].merges != last[-1].merges:
                break
            self._runs[-RUNS_OF_A_SIZE:] = [_merged(last, self._folder)]

    def close(self) -> None:
        """Give the disk back its space."""
        for run in self._runs:
            run.close()
        self._runs.clear()


@dataclass
class _Run:
    """Classes on the disk, in the order of their keys.

    Attributes:
        folder: Where.
        merges: How often its classes were merged.
        counts: Keys for each value of the leading bits, until it is whole; then `starts` says where they begin.
    """

    folder: Path | None
    merges: int = 0
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1 << PREFIX_BITS, np.int64))

    def __post_init__(self) -> None:
        self._keys, self._holders = SpillFile(self.folder), SpillFile(self.folder)
        self.starts = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return self._keys.size // KEY_BYTES

    def append(self, keys: NDArray[np.bytes_], holders: NDArray[np.int64]) -> None:
        """More classes, in order, with keys above those that are there."""
        self._keys.append(keys)
        self._holders.append(holders)
        self.counts += np.bincount(_prefixes(keys), minlength=len(self.counts))

    def whole(self) -> _Run:
        """Nothing more will be appended."""
        self.starts = np.concatenate([[0], np.cumsum(self.counts)])
        self.counts = self.starts[:0]
        return self

    def keys(self, start: int, stop: int) -> NDArray[np.bytes_]:
        """Keys from one place to another."""
        return self._keys.read(start * KEY_BYTES, (stop - start) * KEY_BYTES).view(f"S{KEY_BYTES}")

    def holders(self, start: int, stop: int) -> NDArray[np.int64]:
        """Holders from one place to another."""
        return self._holders.read(start * 8, (stop - start) * 8).view(np.int64)

    def look_up(self, asked: NDArray[np.bytes_], found: NDArray[np.int64]) -> None:
        """Write the holders of those of the keys, which are in order, that are here."""
        prefixes = _prefixes(asked)
        for first, last in _pieces(self.starts, prefixes[np.diff(prefixes, prepend=-1) > 0]):
            start, stop = int(self.starts[first]), int(self.starts[last + 1])
            here = slice(*np.searchsorted(prefixes, [first, last + 1]).tolist())
            keys = self.keys(start, stop)
            places = np.minimum(np.searchsorted(keys, asked[here]), len(keys) - 1)
            hits = np.flatnonzero(keys[places] == asked[here])
            for hit, place in zip(hits.tolist(), places[hits].tolist(), strict=True):
                found[here.start + hit] = self.holders(start + place, start + place + 1)[0]

    def close(self) -> None:
        self._keys.close()
        self._holders.close()


def keys_of(hashes: NDArray[np.str_]) -> NDArray[np.bytes_]:
    """A key for each hash: its bytes where it is 32 hexadecimal digits, else blake2b of the text; 16 bytes [N]."""
    digits = _hexadecimal(hashes)
    if digits is not None:
        packed = digits[:, ::2] << 4 | digits[:, 1::2]
        return np.ascontiguousarray(packed).view(f"S{KEY_BYTES}").ravel()
    return np.array([_key(text) for text in hashes.tolist()], f"S{KEY_BYTES}")


def _hexadecimal(hashes: NDArray[np.str_]) -> NDArray[np.uint8] | None:
    """Their digits, uint8 [N, 32], if all of them are of hexadecimal digits; else None."""
    if hashes.dtype != np.dtype(f"<U{2 * KEY_BYTES}"):
        return None
    codes = np.ascontiguousarray(hashes).view(np.uint32).reshape(len(hashes), -1)
    if (codes > 127).any():
        return None
    digits = _DIGITS[codes]
    return None if (digits == 255).any() else digits


def _key(text: str) -> bytes:
    if len(text) == 2 * KEY_BYTES and set(text) <= set("0123456789abcdef"):
        return bytes.fromhex(text)
    return hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest()


def _prefixes(keys: NDArray[np.bytes_]) -> NDArray[np.int64]:
    """The leading bits of each key."""
    first = keys.view(">u2")[:: KEY_BYTES // 2]
    return (first >> (16 - PREFIX_BITS)).astype(np.int64)


def _pieces(starts: NDArray[np.int64], prefixes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """First and last prefix of what is read at a time, so that all of `prefixes` are that have keys."""
    prefixes = prefixes[starts[prefixes + 1] > starts[prefixes]]
    begins, ends = starts[prefixes].tolist(), starts[prefixes + 1].tolist()
    first = 0
    for i in range(1, len(begins) + 1):
        if i == len(begins) or begins[i] - ends[i - 1] > GAP or ends[i] - begins[first] > PIECE:
            yield int(prefixes[first]), int(prefixes[i - 1])
            first = i


def _merged(runs: Sequence[_Run], folder: Path | None) -> _Run:
    """One run of the classes of several, which are closed."""
    merged = _Run(folder, merges=runs[0].merges + 1)
    starts = np.sum([run.starts for run in runs], axis=0)
    for first, last in _pieces(starts, np.arange(1 << PREFIX_BITS)):
        bounds = [(int(run.starts[first]), int(run.starts[last + 1])) for run in runs]
        keys = np.concatenate([run.keys(*pair) for run, pair in zip(runs, bounds, strict=True)])
        holders = np.concatenate([run.holders(*pair) for run, pair in zip(runs, bounds, strict=True)])
        order = np.argsort(keys, kind="stable")
        merged.append(keys[order], holders[order])
    for run in runs:
        run.close()
    return merged.whole()
