"""`trm-data export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

from trm_data.command import Json, Root, emit
from trm_data.commands.common import Name, megabytes
from trm_data.storage.root import resolve_root


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a dataset for others: npy in the published layout, Parquet, or a Hugging Face dataset folder.

    A virtual dataset is written with all its augmented rows.

    For example:

      trm-data export sudoku-generated-500-aug-1000 --format npy --out published/
      trm-data export maze-30x30-generated-1000-aug-7-rule --format hf --out hub/
    """

    name: Name
    format: Literal["npy", "parquet", "hf"] = "npy"
    """npy: layout of the published code; parquet: one file for each million rows; hf: with a card, ready to upload."""
    out: Annotated[str, arg(metavar="DIR")]
    """Folder to write; it must not exist."""
    root: Root = None
    json: Json = False
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        """Write the dataset and print a summary."""

        from trm_data.export import export_dataset
        from trm_data.show.progress import terminal_progress

        with terminal_progress(quiet=self.quiet or self.json) as progress:
            out = Path(self.out).expanduser()
            files = export_dataset(resolve_root(self.root), self.name, out, self.format, progress)
        size_bytes = sum(file.stat().st_size for file in files)
        said = f"{self.name}: {len(files)} files, {megabytes(size_bytes)}, in {out}"
        emit({"folder": out, "files": files, "size_bytes": size_bytes}, said, as_json=self.json)
        return 0
