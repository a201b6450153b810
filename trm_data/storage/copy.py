"""Copies a folder from one root to another, file by file: checked where it arrives, going on where it was cut off.

What is there already with the same bytes is skipped. Files that say that others are whole come last, in the order the
caller gives, so that a copy that was cut off does not look whole. Neighbours: `trm_data.sync` copies datasets, whose
manifests say what is to be copied; here a listing does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field

from trm_data.errors import BuildError, not_written
from trm_data.show.progress import Progress
from trm_data.storage.atomic import file_sha256
from trm_data.storage.bucket import CLAIM
from trm_data.storage.store import Check, Folder, no_check

ATTEMPTS = 3
AT_A_TIME = 4
"""Files that are copied at a time."""


@dataclass(frozen=True)
class Copied:
    """What was copied.

    Attributes:
        files_copied: Files that were copied.
        files_kept: Files that were there already.
        bytes_copied: Bytes of the copied files.
        gone: Files that the source removed meanwhile.
    """

    files_copied: int = 0
    files_kept: int = 0
    bytes_copied: int = 0
    gone: list[str] = field(default_factory=list[str])


def copy_folder(
    source: Folder,
    target: Folder,
    progress: Progress,
    last: Sequence[str] = (),
    *,
    names: Sequence[str] | None = None,
    check: Check = no_check,
) -> Copied:
    """Copy files of a folder.

    Args:
        source: What to copy.
        target: Where to.
        progress: Told of every file; its caller has started it.
        last: Patterns of names that are copied after all others, pattern by pattern.
        names: Which; all if None.
        check: Called before each file is written: whether the target still may be.

    Raises:
        BuildError: A file changed while it was copied, or could not be written.
        BucketError: A bucket cannot be reached, or refuses.
    """
    patterns = [re.compile(pattern) for pattern in last]
    stages: list[list[str]] = [[] for _ in range(len(patterns) + 1)]
    for name in source.names() if names is None else names:
        if name.rsplit("/", 1)[-1] != CLAIM:
            found = [i for i, pattern in enumerate(patterns, start=1) if pattern.fullmatch(name)]
            stages[found[0] if found else 0].append(name)
    results: list[tuple[str, int, bool | None]] = []
    for stage in stages:
        check()
        results += _copy_all(source, target, stage, progress, check)
    return Copied(
        files_copied=sum(copied is True for _, _, copied in results),
        files_kept=sum(copied is False for _, _, copied in results),
        bytes_copied=sum(size for _, size, copied in results if copied),
        gone=[name for name, _, copied in results if copied is None],
    )


def _copy_all(
    source: Folder, target: Folder, names: list[str], progress: Progress, check: Check
) -> list[tuple[str, int, bool | None]]:
    """Name and size of each file, and whether it was copied (None: the source has removed it)."""

    def copy(name: str) -> tuple[str, int, bool | None]:
        try:
            for _ in range(ATTEMPTS):
                path = source.current(name)
                if path is None:
                    return name, 0, None
                with suppress(
                    FileNotFoundError
                ):  # the source has removed it, or this machine's cache, which was full
                    size, sha256 = path.stat().st_size, file_sha256(path)
                    put = target.store.put(f"{target.path}/{name}", path, size, sha256, check)
                    return name, size, put
            raise BuildError(
                f"{source.where(name)}: could not be kept on this machine; raise TRM_CACHE_BYTES"
            )
        except OSError as error:
            raise BuildError(not_written(target.where(name), error, "sync again")) from error

    done: list[tuple[str, int, bool | None]] = []
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        futures = [pool.submit(copy, name) for name in names]
        try:
            for future in as_completed(futures):
                done.append(future.result())
                progress.advance(1)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return done
