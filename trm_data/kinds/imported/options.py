"""Imported rows in specifications, and the import request; imported without numpy."""

from __future__ import annotations

import json
import logging
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from trm_data.errors import SpecError
from trm_data.kinds.registry import KindParts
from trm_data.specs import DatasetSpec, Options, canonical_json

if TYPE_CHECKING:
    from trm_data.sources.published import ImportedRows
    from trm_data.specs import BuildRequest

LOG = logging.getLogger(__name__)
NAME = "finished"
"""Name of this kind in all manifests; elsewhere its rows are called imported rows."""
NO_RULES = "rows"
"""Value of --kind for rows without known rules."""


@dataclass(frozen=True, kw_only=True)
class ImportedOptions(Options):
    """Options specific to imported rows."""

    rows: int
    columns: int
    vocabulary_size: int
    of: str = ""
    """Kind whose rules apply to the rows; empty if unknown."""
    of_options: str = ""
    """Options of that kind, as canonical JSON."""

    @override
    def kind_label(self, kind: str) -> str:
        return f"{self.of or NO_RULES}, imported"

    @override
    def build_command(self, name: str, spec: DatasetSpec) -> str:
        kind = f" --kind {self.of}" if self.of else ""
        return f"trm-data import {shlex.quote(spec.source.name)}{kind} --name {name}"


def import_request(folder: str, name: str | None = None, kind: str | None = None) -> BuildRequest:
    """Return the request to import a folder of rows.

    Args:
        folder: Folder of the files.
        name: Name of the dataset; default: the name of the folder.
        kind: Kind whose rules apply to the rows; `rows` for none; default: as the folder states.

    Raises:
        SourceError: The layout is unknown, or its files do not match each other.
        SpecError: There is no such kind, or it has no rows of this shape.
    """
    from trm_data.sources.base import SourceRef
    from trm_data.specs import BuildRequest

    path = Path(folder).expanduser()
    return BuildRequest(
        kind=NAME,
        source=SourceRef("published", folder),
        test_size=None,
        options=imported_options(path, kind),
        name=name or path.resolve().name,
    )


def imported_options(folder: Path, kind: str | None = None) -> ImportedOptions:
    """Return the rows' shape and kind: the grid stated by the folder, else a square, else one row."""
    from trm_data.sources.published import read_imported

    found = read_imported(folder)
    side = round(found.sequence_length**0.5)
    square = (side, side) if side * side == found.sequence_length else (1, found.sequence_length)
    rows, columns = found.shape or square
    of, of_options = _rules(found, kind, rows, columns)
    return ImportedOptions(
        rows=rows, columns=columns, vocabulary_size=found.vocabulary_size, of=of, of_options=of_options
    )


def _rules(found: ImportedRows, kind: str | None, rows: int, columns: int) -> tuple[str, str]:
    """Return the kind whose rules apply, as requested or as the folder states, and its options as JSON, or "", ""."""
    from trm_data.kinds.registry import find_kind, options_from_json, options_of_shape

    stated = found.kind
    if kind == NO_RULES:
        return "", ""
    if stated is not None and stated[0] == NAME:  # an export of imported rows
        of, text = stated[1].get("of"), stated[1].get("of_options")
        try:
            stated = (of, json.loads(text)) if of and isinstance(of, str) and isinstance(text, str) else None
        except (ValueError, RecursionError) as error:
            raise SpecError(
                f"not options of the kind {of}: {error} (--kind {NO_RULES} needs none)"
            ) from error
    if kind is None and stated is None:
        return "", ""
    if stated is not None and kind in (None, stated[0]):
        if find_kind(stated[0]) is None:
            LOG.warning("the kind %s, whose rows these are, is not installed: imported as rows", stated[0])
            return "", ""
        options = options_from_json(*stated)
        return stated[0], canonical_json(asdict(options)).decode()
    assert kind is not None
    if kind == NAME:
        raise SpecError(f"--kind {kind}: unknown kind (expected a kind, or {NO_RULES!r})")
    options = options_of_shape(kind, rows, columns, found.vocabulary_size)
    parts = find_kind(kind)
    if parts is not None and parts.form_of_rows is not None:
        options = parts.form_of_rows(options, found)
    return kind, canonical_json(asdict(options)).decode()


PARTS = KindParts(
    name=NAME,
    implementation="trm_data.kinds.imported.kind:ImportedKind",
    options=ImportedOptions,
)
