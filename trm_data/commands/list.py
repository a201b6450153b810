"""`trm-data list`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from trm_data.command import WIDE_SHOWS, Json, Root, Wide
from trm_data.commands.common import megabytes
from trm_data.show.render import print_table
from trm_data.storage.root import resolve_root

if TYPE_CHECKING:
    pass


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
        """Print a table."""
        from trm_data.describe.facts import list_datasets

        layout = resolve_root(self.root)
        summaries = list_datasets(layout)
        if self.json:
            print(json.dumps([asdict(summary) for summary in summaries], indent=1))
            return 0
        if not summaries:
            print(
                f"no datasets under {layout.place} yet; build one: trm-data build sudoku --size 500 --aug 1000"
            )
            return 0
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
        print_table(columns, rows, wide=self.wide, way_on=WIDE_SHOWS)
        return 0


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
