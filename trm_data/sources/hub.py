"""The published Sudoku-Extreme and Maze-Hard files on the Hugging Face hub (the extra `hf`).

The revision is resolved to a commit before anything is fetched, so what was read can be read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trm_data.errors import SourceError, needs_extra
from trm_data.specs import SUDOKU_EXTREME

MAZE_HARD = "sapientinc/maze-30x30-hard-1k"


@dataclass(frozen=True)
class HubFile:
    """One file of a dataset repository, at a commit."""

    name: str
    """`repository/file@commit`."""
    path: Path
    licence: str


def fetch_hub_file(reference: str, split: str) -> HubFile:
    """`<split>.csv` of a dataset repository, from the local cache or the hub.

    Args:
        reference: `REPOSITORY@REVISION`, `REPOSITORY`, or empty for Sudoku-Extreme at its current commit.
        split: `train` or `test`.

    Raises:
        SourceError: The extra is missing, or the hub cannot be reached or does not have it.
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
        info = HfApi().dataset_info(repository, revision=revision or None)
        commit = info.sha or revision
        path = hf_hub_download(repository, f"{split}.csv", repo_type="dataset", revision=commit)
    except (HTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise SourceError(
            f"hf:{repository}: {type(error).__name__}: {error}. Without a network, download {split}.csv "
            f"elsewhere and build with --source csv:{split}.csv"
        ) from error
    licence = str((info.card_data or {}).get("license", "")) if info.card_data else ""
    return HubFile(f"{repository}/{split}.csv@{commit}", Path(path), licence)
