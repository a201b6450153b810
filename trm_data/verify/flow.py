"""Checks a dataset against its manifest, and its puzzles against the rules; lists all faults.

Nothing is trusted but the manifest's own digest: files are hashed, rows decoded and counted, the content digest
computed again, every base puzzle checked by its kind, every augmented row derived again and compared, the splits
compared for shared symmetry classes, and the catalog files compared with the rows. Works shard by shard: while one
is checked the next two are read, and memory holds those three; `checker` goes through files and splits, `rows`
checks the rows of a shard.
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
    """What `verify_dataset` found.

    Attributes:
        name: The dataset.
        problems: One line for each thing that is wrong; none if the dataset is whole.
        notes: What is known and no failure, such as duplicates in published sets.
        counts: How much was checked, by what.
        seconds: How long it took.
    """

    name: str
    problems: list[str]
    notes: list[str] = field(default_factory=list[str])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
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
