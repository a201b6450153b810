"""Copy files between folders of any two roots: `sync` of datasets, runs and results.

Every file is checked at the source and at the target. Files that the target already has, with the same bytes, are
skipped, so an interrupted copy resumes. Files that mark others as complete are copied last, so that an interrupted
copy does not look complete.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass

from trm_data.errors import BuildError, not_written
from trm_data.show.progress import Progress
from trm_data.storage.atomic import file_sha256
from trm_data.storage.lease import LEASE_FILE
from trm_data.storage.root import StoredFile
from trm_data.storage.store import Check, Folder, no_check

ATTEMPTS = 3
AT_A_TIME = 4
"""Number of files copied in parallel."""


@dataclass(frozen=True)
class Copied:
    """Result of a copy.

    Attributes:
        files_copied: Files that were copied.
        files_kept: Files that the target already had.
        bytes_copied: Bytes of the copied files.
    """

    files_copied: int
    files_kept: int
    bytes_copied: int


def copy_files(
    source: Folder,
    target: Folder,
    files: Sequence[str | StoredFile],
    progress: Progress,
    check: Check = no_check,
    *,
    last: Sequence[str] = (),
) -> Copied:
    """Copy files, `AT_A_TIME` in parallel.

    Args:
        source: Source folder.
        target: Target folder.
        files: Names, or files with the size and digest that the source must have. A name that the source has removed
            meanwhile is skipped.
        progress: Advances by 1 for every name, and by the bytes of every file with a digest; the caller starts it.
        check: Called before each file is written, to check that the target may still be written.
        last: Regular expressions of names that are copied after all others, in this order.
    """
    patterns = [re.compile(pattern) for pattern in last]
    stages: list[list[str | StoredFile]] = [[] for _ in range(len(patterns) + 1)]
    for file in files:
        name = file if isinstance(file, str) else file.file
        if name.rsplit("/", 1)[-1] != LEASE_FILE:
            found = [i for i, pattern in enumerate(patterns, start=1) if pattern.fullmatch(name)]
            stages[found[0] if found else 0].append(file)
    done: list[tuple[int, bool | None]] = []
    for stage in stages:
        check()
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            futures = {pool.submit(_copy_file, source, target, file, check): file for file in stage}
            try:
                for future in as_completed(futures):
                    done.append(future.result())
                    progress.advance(1 if isinstance(futures[future], str) else done[-1][0])
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return Copied(
        files_copied=sum(copied is True for _, copied in done),
        files_kept=sum(copied is False for _, copied in done),
        bytes_copied=sum(size for size, copied in done if copied),
    )


def _copy_file(
    source: Folder, target: Folder, file: str | StoredFile, check: Check
) -> tuple[int, bool | None]:
    """Copy one file; return its size, and whether it was copied (None: the source has removed it)."""
    name = file if isinstance(file, str) else file.file
    there, here = f"{target.path}/{name}", f"{source.path}/{name}"
    try:
        for _ in range(ATTEMPTS):
            with suppress(FileNotFoundError):  # removed by the source, or by this machine's full cache
                if isinstance(file, str):
                    path = source.current(name)
                    if path is None:
                        return 0, None
                    size, sha256 = path.stat().st_size, file_sha256(path)
                else:
                    size, sha256 = file.size_bytes, file.sha256
                    if not target.store.damage(there, size, sha256):
                        return size, False
                    path = source.store.fetch(here, size, sha256)
                return size, target.store.put(there, path, size, sha256, check)
        raise BuildError(f"{source.where(name)}: could not be kept on this machine; raise TRM_CACHE_BYTES")
    except OSError as error:
        raise BuildError(not_written(target.where(name), error, "sync again")) from error
