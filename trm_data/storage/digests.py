"""Files whose names carry the digest of their bytes: `<stem>.<16 hexadecimal digits of sha256>.parquet`.

The name alone reveals any damage, without another file that could be lost. A file is checked when it is first read,
and again when its size, time or inode changes; `cache/whole.json` of this machine records the checked files. Files of
format 1 have no digest and are not checked. Writers of the same stem replace one another: the old file is deleted
after the new one exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trm_data.errors import CorruptFileError
from trm_data.storage.atomic import file_sha256, parse_json, sync_file, temporary_path, write_json
from trm_data.storage.store import Folder

DIGITS = 16
NAME = re.compile(rf"(?P<stem>.+?)(\.(?P<digest>[0-9a-f]{{{DIGITS}}}))?\.parquet")
CACHED = re.compile(r"[0-9a-f]{64}")
"""Name of a file in this machine's cache of a bucket: its sha256 (`storage.cache`)."""


def stem_of(name: str) -> str:
    """Return the stem of a file name, which is the same for files that replace one another."""
    match = NAME.fullmatch(name)
    return name if match is None else match["stem"]


def digest_of(name: str) -> str | None:
    """Return the digest in a name, or None if it has none, as in format 1."""
    match = NAME.fullmatch(name)
    return None if match is None else match["digest"]


def write_digested(folder: Folder, stem: str, write: Callable[[Path], None]) -> str:
    """Write a file atomically under a name with its digest; other files of the stem stay.

    Args:
        folder: Target folder.
        stem: Stem of its name.
        write: Writes the content to a path.

    Returns:
        Its name in the folder.
    """
    temporary = temporary_path(folder.working(f"{stem}.parquet"))
    try:
        write(temporary)
        sync_file(temporary)
        sha256 = file_sha256(temporary)
        name = f"{stem}.{sha256[:DIGITS]}.parquet"
        temporary.replace(folder.working(name))
    finally:
        temporary.unlink(missing_ok=True)
    folder.finish(name, sha256)
    return name


def of_stem(folder: Folder, stem: str) -> list[str]:
    """List the files of a stem.

    A writer lists the files to replace before it writes. So if two writers replace them at once, at least one file
    stays.
    """
    return [name for name in folder.names("*.parquet") if stem_of(name) == stem]


def one_of_each(names: Iterable[str]) -> list[str]:
    """Return one file of each stem. If a writer died before it removed the old file, both are valid."""
    chosen: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (digest_of(name) is not None, name)):
        chosen[stem_of(name)] = name
    return sorted(chosen.values())


def checked_files(
    folder: Folder, names: Sequence[str], *, again: bool = False, damaged: list[str] | None = None
) -> list[Path | None]:
    """Return local paths of files, each checked against the digest in its name; None for missing files.

    Args:
        folder: Their folder.
        names: Their names in it.
        again: Also check files that passed before.
        damaged: Receives a line for each damaged file, whose path is then None. Without it damage is an error.

    Raises:
        CorruptFileError: A file is damaged, and `damaged` is None.
    """
    if not names:
        return []
    paths = folder.currents(names)
    note = folder.store.machine / "cache" / "whole.json"
    known = {} if again else _read(note)
    unknown = [
        (name, path, digest, mark)
        for name, path in zip(names, paths, strict=True)
        if path is not None and (digest := digest_of(name)) is not None
        if not (CACHED.fullmatch(path.name) and path.name.startswith(digest))  # already verified by the cache
        if known.get(str(path)) != (mark := _mark(path, digest))
    ]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda item: _digest(item[1]), unknown))
    gone = {path for (_, path, _, mark), there in zip(unknown, found, strict=True) if not (mark and there)}
    for (name, path, digest, _), there in zip(unknown, found, strict=True):
        if path in gone or there == digest:
            continue
        said = (
            f"{folder.where(name)}: its bytes are not those that were written (their digest is {there}, the name "
            "says another). Restore it from a copy, or delete it and make a new one"
        )
        if damaged is None:
            raise CorruptFileError(said)
        damaged.append(said)
        gone.add(path)
    if unknown:
        _write(note, {**_read(note), **{str(path): mark for _, path, _, mark in unknown if path not in gone}})
    return [None if path in gone else path for path in paths]


def _digest(path: Path) -> str:
    """Return the digest of a file's bytes; empty if the file was deleted meanwhile."""
    try:
        return file_sha256(path)[:DIGITS]
    except FileNotFoundError:
        return ""


def _mark(path: Path, digest: str) -> str:
    """Return a string that changes when a file may have other bytes; empty if the file was deleted meanwhile."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return ""
    return f"{digest} {status.st_size} {status.st_mtime_ns} {status.st_ino}"


def _read(note: Path) -> dict[str, str]:
    try:
        found = parse_json(note.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(note: Path, known: dict[str, str]) -> None:
    """Save which files are checked; if that fails, files are checked each time."""
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        write_json(note, {path: mark for path, mark in known.items() if Path(path).is_file()})
    except OSError:
        return
