"""The published Sudoku-Extreme and Maze-Hard files on the Hugging Face hub (the extra `hf`).

The revision is resolved to a commit before any download, so the same data can be read again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trm_data.errors import SourceError, needs_extra, without_credentials
from trm_data.specs import SUDOKU_EXTREME

MAZE_HARD = "sapientinc/maze-30x30-hard-1k"


@dataclass(frozen=True)
class HubFile:
    """One file of a dataset repository, at a commit."""

    name: str
    """`repository/file@commit`."""
    path: Path
    licence: str


def check_room(repository: str, info: Any, names: Iterable[str], repo_type: str) -> None:
    """Raise SourceError if the disk of the hub's cache has no space for a download.

    Args:
        repository: `OWNER/NAME`.
        info: The hub's repository info, with file metadata.
        names: Files to download; cached files need no space.
        repo_type: `dataset` or `model`.
    """
    from huggingface_hub import constants, try_to_load_from_cache

    sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    size = sum(
        sizes.get(name, 0)
        for name in names
        if not isinstance(
            try_to_load_from_cache(repository, name, revision=info.sha, repo_type=repo_type), str
        )
    )
    folder = Path(constants.HF_HUB_CACHE)
    free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free
    if size > free:
        raise SourceError(
            f"hf:{repository}: the files have {size:,} bytes, but {folder} has room for {free:,}. Free some, or set "
            "HF_HOME to a folder on a larger disk."
        )


def fetch_hub_file(reference: str, split: str) -> HubFile:
    """Return `<split>.csv` of a dataset repository, from the local cache or the hub.

    Args:
        reference: `REPOSITORY@REVISION`, `REPOSITORY`, or empty for Sudoku-Extreme at its current commit.
        split: `train` or `test`.
    """
    try:
        from huggingface_hub import HfApi, hf_hub_download
        from huggingface_hub.errors import (
            HTTPError,  # pyright: ignore[reportPrivateImportUsage]
            LocalEntryNotFoundError,
        )
    except ImportError as error:
        raise SourceError(needs_extra("--source hf", "hf")) from error
    repository, _, revision = (reference or SUDOKU_EXTREME).partition("@")
    try:
        info = HfApi().dataset_info(repository, revision=revision or None, files_metadata=True)
        check_room(repository, info, [f"{split}.csv"], "dataset")
        commit = info.sha or revision
        path = hf_hub_download(repository, f"{split}.csv", repo_type="dataset", revision=commit)
    except (HTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        said = f"{type(error).__name__}: {without_credentials(str(error))}"
        raise SourceError(
            f"hf:{repository}: {said}. Without a network, download {split}.csv elsewhere and build with "
            f"--source csv:{split}.csv"
        ) from error
    licence = str((info.card_data or {}).get("license", "")) if info.card_data else ""
    return HubFile(f"{repository}/{split}.csv@{commit}", Path(path), licence)
