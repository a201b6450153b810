"""What tables have in a specification and on the command line; imported without numpy."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from trm_data.kinds.parts import KindParts
from trm_data.specs import DatasetSpec, Options


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """What only a user's own tables of puzzles have."""

    rows: int
    columns: int
    vocabulary_size: int
    dihedral: bool = False
    """Whether the images under the symmetries of the grid are augmentations."""

    def source_arguments(self, spec: DatasetSpec) -> list[str]:
        """The tables."""
        arguments = [f"--train {shlex.quote(spec.source.name)}"]
        if spec.test_source is not None:
            arguments.append(f"--test {shlex.quote(spec.test_source.name)}")
        return arguments

    def arguments(self, spec: DatasetSpec) -> list[str]:
        """Grid, vocabulary and symmetries."""
        arguments = [f"--grid {self.rows}x{self.columns} --vocabulary {self.vocabulary_size}"]
        return [*arguments, "--dihedral"] if self.dihedral else arguments


PARTS = KindParts(
    name="table",
    implementation="trm_data.kinds.table.kind:TableKind",
    options=TableOptions,
    fields="trm_data.kinds.table.fields:BuildTable",
)
