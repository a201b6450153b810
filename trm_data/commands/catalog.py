"""`trm-data catalog` rebuilds the SQL index of the datasets."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.command import Exit, Json, Root, emit
from trm_data.errors import Note
from trm_data.storage.root import root_to_read


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """Rebuild the SQL index from the manifests under the root: `trm-data catalog refresh`.

    trm-data sql does this when the index lacks a dataset. The index of a bucket is in the user's cache directory.

    For example:

      trm-data catalog refresh --root gs://my-bucket/trm
    """

    action: Annotated[Positional[Literal["refresh"]], arg(metavar="refresh")]
    """refresh: rebuild the index."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Rebuild the index and print its path."""
        from trm_data.catalog.write import refresh_catalog

        layout = root_to_read(self.root)
        problems = refresh_catalog(layout)
        names = layout.dataset_names()
        said = f"{layout.catalog}: {len(names)} datasets under {layout.place}"
        emit({"catalog": layout.catalog, "datasets": names, "problems": problems}, said, as_json=self.json)
        for problem in () if self.json else problems:
            print(f"  {problem}", file=sys.stderr)
        return Exit.FOUND if any(not isinstance(problem, Note) for problem in problems) else Exit.DONE
