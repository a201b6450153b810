"""Check a dataset against its manifest, and its puzzles against the rules; list all problems.

Only the manifest's own digest is trusted. Files are hashed, rows decoded and counted, and the content digest is
recomputed. The kind checks every base puzzle, every augmented row is derived again and compared, the splits are
compared for shared symmetry classes, and the catalog files are compared with the rows. While one shard is checked the
next one is read, so memory holds two shards. `checker` handles files and splits, `rows` the rows
of a shard.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from trm_data.errors import CorruptDatasetError, SourceError
from trm_data.manifest import read_manifest
from trm_data.show.progress import NoProgress, Progress
from trm_data.sources.published import FACTS
from trm_data.storage.atomic import file_sha256, parse_json
from trm_data.storage.root import Layout
from trm_data.verify.checker import Checker


@dataclass(frozen=True)
class Verification:
    """Result of `verify_dataset`.

    Attributes:
        name: The dataset.
        problems: One line for each problem; empty if the dataset is intact.
        notes: Known facts that are not failures, such as duplicates in published sets.
        counts: How many items were checked, by type.
        seconds: Duration (s).
    """

    name: str
    problems: list[str]
    notes: list[str] = field(default_factory=list[str])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


def verify_dataset(layout: Layout, name: str, progress: Progress | None = None) -> Verification:
    """Check everything about one dataset.

    Raises:
        DatasetNotFoundError: There is no such dataset.
    """
    begun = time.perf_counter()
    progress = progress or NoProgress()
    try:
        manifest = read_manifest(layout, name)
    except CorruptDatasetError as error:
        return Verification(name, [str(error)])
    checker = Checker(layout.dataset(manifest.name), manifest, progress)
    checker.check_files()
    if not checker.problems:
        checker.check_content()
    return Verification(name, checker.problems, checker.notes, checker.counts, time.perf_counter() - begun)


def check_exported_rows(folder: Path) -> None:
    """Check the row files of an exported folder against its recorded digests; other folders are not checked."""
    if not (folder / FACTS).is_file():
        return
    try:
        files = dict(parse_json((folder / FACTS).read_bytes()).get("files", {}))
    except (OSError, ValueError, TypeError, AttributeError):
        return  # the reader of the rows reports the problem
    for name, digest in files.items():
        if not name.endswith((".npy", ".parquet")):
            continue
        path = folder / name
        if not path.is_file() or file_sha256(path) != digest:
            what = "has other bytes than were exported" if path.is_file() else "is missing"
            raise SourceError(
                f"{path}: {what} ; export the dataset again, or remove {FACTS} to import the rows as they are"
            )
