"""Tables in specifications and on the command line; imported without numpy."""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from typing_extensions import override
from tyro.conf import arg

from trm_data.errors import SpecError
from trm_data.kinds.fields import NO_DEFAULT_SHOWN, BuildFields, parse_shape
from trm_data.kinds.registry import KindParts
from trm_data.specs import DatasetSpec, Options

if TYPE_CHECKING:
    from trm_data.kinds.table.source import TableRows
    from trm_data.specs import BuildRequest


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """Options specific to users' own tables."""

    rows: int
    columns: int
    vocabulary_size: int
    dihedral: bool = False
    """Whether the symmetries of the grid are used as augmentations."""

    @override
    def source_arguments(self, spec: DatasetSpec) -> list[str]:
        arguments = [f"--train {shlex.quote(spec.source.name)}"]
        if spec.test_source is not None:
            arguments.append(f"--test {shlex.quote(spec.test_source.name)}")
        return arguments

    @override
    def arguments(self, spec: DatasetSpec) -> list[str]:
        arguments = [f"--grid {self.rows}x{self.columns} --vocabulary {self.vocabulary_size}"]
        return [*arguments, "--dihedral"] if self.dihedral else arguments


LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class BuildTable(BuildFields):
    """Build a dataset from your own puzzles (docs/own-puzzles.md).

    A table is a Parquet, CSV, npz or npy file with `inputs` and `labels`: grids of one size, tokens 0 to 255. Token 0
    is PAD and ignored as a label. Grid and vocabulary are read from the training table by default.

    For example:

      trm-data build table --train queens.npz --test queens-test.npz --name queens
      trm-data build table --train puzzles.parquet --val-size 100 --test-size 500 --dihedral --aug 7
      trm-data build table --train puzzles.csv --grid 8x8
      trm-data build table --train theirs.parquet --columns inputs=question,labels=answer --grid 9x9
    """

    train: Annotated[str, arg(metavar="FILE")]
    """Table of the training puzzles: .parquet, .csv, .npz or .npy, local or a URL."""
    test: Annotated[str | None, arg(metavar="FILE", **NO_DEFAULT_SHOWN)] = None
    """Table of the test puzzles (default: taken from the training table)."""
    columns: Annotated[str | None, arg(metavar="NAMES", **NO_DEFAULT_SHOWN)] = None
    """Names of the columns, such as inputs=question,labels=answer."""
    size: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Training puzzles (default: all that validation and test leave)."""
    aug: Annotated[int, arg(metavar="N")] = 0
    """Augmentations of each training puzzle besides the original; needs --dihedral."""
    val_size: Annotated[int, arg(metavar="N")] = 0
    """Validation puzzles."""
    test_size: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Test puzzles (default: all of --test; 0 without it)."""
    grid: Annotated[str | None, arg(metavar="RxC", **NO_DEFAULT_SHOWN)] = None
    """Rows x columns (default: from the table, or 1 row)."""
    vocabulary: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Tokens, PAD included (default: the largest token of the tables plus 1)."""
    dihedral: bool = False
    """Augment with the symmetries of the grid; images count as the same puzzle."""
    on_bad_row: Literal["stop", "skip"] = "stop"
    """stop at an invalid row, or skip it and record it in the table `rejects`."""

    @override
    def request(self) -> BuildRequest:
        from trm_data.kinds.table.source import read_table
        from trm_data.sources.base import SourceRef, open_sources

        named = self.columns or ""
        train = SourceRef("table", self.train, columns=named)
        test = None if self.test is None else SourceRef("table", self.test, columns=named)
        with open_sources(train, test) as sources:
            tables = [read_table(source)[0] for source in (sources.main, sources.test) if source is not None]
        rows, columns = tables[0].shape or (1, tables[0].inputs.shape[1])
        if self.dihedral and self.grid is None and tables[0].shape is None:
            raise SpecError(f"--dihedral: {self.train} has flat rows; name the grid with --grid RxC")
        self._say_what_is_easily_missed(tables[0])
        if self.grid is not None:
            rows, columns = parse_shape("--grid", self.grid, "rows x columns, like 8x8")
        largest = max(int(max(t.inputs.max(initial=0), t.labels.max(initial=0))) for t in tables)
        return self.ask(
            kind="table",
            source=train,
            test_source=test,
            test_size=(None if test is not None else 0) if self.test_size is None else self.test_size,
            options=TableOptions(
                rows=rows,
                columns=columns,
                vocabulary_size=self.vocabulary or max(2, largest + 1),
                dihedral=self.dihedral,
            ),
        )

    def _say_what_is_easily_missed(self, train: TableRows) -> None:
        """Warn about PAD labels and about missing held-out puzzles."""
        if len(train) and (empty := float((train.labels == 0).mean())):
            LOG.warning(
                "--train %s: %.0f%% of the cells of its labels are 0 (PAD): neither learned nor scored; add 1 to all "
                "tokens if 0 is an answer",
                self.train,
                100 * empty,
            )
        if self.test is None and not self.val_size and not self.test_size:
            LOG.warning(
                "--train %s: nothing is held out; --val-size N and --test-size N keep puzzles of it, --test FILE has "
                "others",
                self.train,
            )


PARTS = KindParts(
    name="table",
    implementation="trm_data.kinds.table.kind:TableKind",
    options=TableOptions,
    fields=BuildTable,
)
