"""What imported rows have in a specification, and the request that imports them; imported without numpy."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trm_data.kinds.parts import KindParts
from trm_data.specs import DatasetSpec, Options

if TYPE_CHECKING:
    from trm_data.request import BuildRequest

NAME = "finished"
"""What manifests call this kind since the first one; everywhere else its rows are imported ones."""


@dataclass(frozen=True, kw_only=True)
class ImportedOptions(Options):
    """What only imported rows have."""

    rows: int
    columns: int
    vocabulary_size: int

    def build_command(self, name: str, spec: DatasetSpec) -> str:
        """Rows are imported, not built."""
        return f"trm-data import {shlex.quote(spec.source.name)} --name {name}"


def import_request(folder: str, name: str | None) -> BuildRequest:
    """What to build of the rows in a folder; without a name, under that of the folder.

    Raises:
        SourceError: No layout that is known, or files that do not fit each other.
    """
    from trm_data.request import BuildRequest
    from trm_data.sources.base import SourceRef

    path = Path(folder).expanduser()
    return BuildRequest(
        kind=NAME,
        source=SourceRef("published", folder),
        test_size=None,
        options=imported_options(path),
        name=name or path.resolve().name,
    )


def imported_options(folder: Path) -> ImportedOptions:
    """The shape of the rows in a folder: the grid that it states, else a square, else one row.

    Raises:
        SourceError: No such layout, or files that do not fit each other.
    """
    from trm_data.sources.published import read_imported

    found = read_imported(folder)
    side = round(found.sequence_length**0.5)
    square = (side, side) if side * side == found.sequence_length else (1, found.sequence_length)
    rows, columns = found.shape or square
    return ImportedOptions(rows=rows, columns=columns, vocabulary_size=found.vocabulary_size)


PARTS = KindParts(
    name=NAME,
    implementation="trm_data.kinds.imported.kind:ImportedKind",
    options=ImportedOptions,
    import_request=import_request,
)
