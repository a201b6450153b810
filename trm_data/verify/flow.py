"""Check a dataset against its manifest, and its puzzles against the rules; list all problems.

Only the manifest's own digest is trusted. Files are hashed, rows decoded and counted, and the content digest is
recomputed. The kind checks every base puzzle, every augmented row is derived again and compared, the splits are
compared for shared symmetry classes, and the catalog files are compared with the rows. While one shard is checked the
next two are read, so memory holds three shards. `checker` handles files and splits, `rows` the rows of a shard.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from trm_data.errors import CorruptDatasetError
from trm_data.manifest import read_manifest
from trm_data.show.progress import NoProgress, Progress
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
