"""`trm-data list`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from trm_data.command import WIDE_SHOWS, Json, Root, Wide, emit
from trm_data.commands.common import megabytes
from trm_data.show.render import print_table
from trm_data.storage.root import resolve_root

if TYPE_CHECKING:
    from trm_data.manifest import Summary
    from trm_data.storage.root import Layout


@dataclass(frozen=True, kw_only=True)
class List:
    """List the datasets under the root.

    For example:

      trm-data list
      trm-data list --root gs://bucket/trm --json
    """

    wide: Wide = False
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Print a table of the datasets."""
        from trm_data.manifest import list_datasets

        layout = resolve_root(self.root)
        summaries = list_datasets(layout)
        emit(summaries, partial(self._print, layout, summaries), as_json=self.json)
        return 0

    def _print(self, layout: Layout, summaries: list[Summary]) -> None:
        if not summaries:
            print(
                f"no datasets under {layout.place} yet; build one: trm-data build sudoku --size 500 --aug 1000"
            )
            return
        rows = [
            (
                s.name,
                s.problem or s.kind_label,
                *(_count(s.splits.get(split)) for split in ("train", "validation", "test")),
                megabytes(s.size_bytes),
                s.digest[:12],
            )
            for s in summaries
        ]
        columns = ["dataset", "kind", "train", "validation", "test", "size", "digest"]
        print_table(columns, rows, wide=self.wide, hint=WIDE_SHOWS)


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
