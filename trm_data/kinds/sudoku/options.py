"""Sudoku in specifications, names and the registry; imported without numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from typing_extensions import override
from tyro.conf import arg

from trm_data.errors import SpecError
from trm_data.kinds.fields import NO_DEFAULT_SHOWN, PuzzleFields, parse_shape
from trm_data.kinds.registry import KindParts
from trm_data.specs import SUDOKU_EXTREME, DatasetSpec, Options

if TYPE_CHECKING:
    from trm_data.sources.base import SourceRef
    from trm_data.specs import BuildRequest


@dataclass(frozen=True, kw_only=True)
class SudokuOptions(Options):
    """Options specific to Sudoku."""

    box_rows: int = 3
    box_columns: int = 3
    min_rating: float | None = None
    max_rating: float | None = None
    rating_bins: tuple[float, ...] = ()
    """Lower ends of rating intervals; every split takes its puzzles from them in turn."""
    difficulty: Literal["random", "extreme"] = "random"
    """Difficulty of generated puzzles: random minimal puzzles, or hard puzzles found by a search."""

    @property
    def box(self) -> tuple[int, int]:
        """Rows and columns of a box."""
        return self.box_rows, self.box_columns

    @property
    def side(self) -> int:
        """Side of the grid in cells: box rows * box columns."""
        return self.box_rows * self.box_columns

    hub_repository: ClassVar[str] = SUDOKU_EXTREME
    hub_word: ClassVar[str] = "extreme"

    @override
    def shape_words(self) -> list[str]:
        return [] if self.box == (3, 3) else [f"{self.box_rows}x{self.box_columns}"]

    @override
    def name_words(self, kind: str, source: SourceRef) -> list[str]:
        words = super().name_words(kind, source)
        return [*words, "extreme"] if self.difficulty == "extreme" else words

    @override
    def choice_words(self) -> list[str]:
        words: list[str] = []
        for word, value in (("min-rating", self.min_rating), ("max-rating", self.max_rating)):
            if value is not None:
                words += [word, f"{value:g}"]
        return [*words, "bins", *(f"{low:g}" for low in self.rating_bins)] if self.rating_bins else words

    @override
    def arguments(self, spec: DatasetSpec) -> list[str]:
        arguments = [f"--box {self.box_rows}x{self.box_columns}"]
        if self.difficulty != "random":
            arguments.append(f"--difficulty {self.difficulty}")
        for option, value in (("min", self.min_rating), ("max", self.max_rating)):
            if value is not None:
                arguments.append(f"--{option}-rating {value:g}")
        if self.rating_bins:
            arguments.append(f"--rating-bins {','.join(f'{low:g}' for low in self.rating_bins)}")
        return arguments


BOXES_OF_SIDES = {4: (2, 2), 6: (2, 3), 8: (2, 4), 9: (3, 3), 10: (2, 5), 12: (3, 4), 15: (3, 5), 16: (4, 4)}
"""Default box of a grid, by side."""


def shape_options(rows: int, columns: int, vocabulary_size: int) -> SudokuOptions:
    """Return options with the default box of a grid's side."""
    if rows not in BOXES_OF_SIDES:
        raise SpecError(
            f"--kind sudoku: rows are squares of side {', '.join(map(str, BOXES_OF_SIDES))}, these are {rows}x{columns}"
        )
    box_rows, box_columns = BOXES_OF_SIDES[rows]
    return SudokuOptions(box_rows=box_rows, box_columns=box_columns)


@dataclass(frozen=True, kw_only=True)
class BuildSudoku(PuzzleFields):
    """Build a Sudoku dataset.

    Every puzzle has one solution. No symmetry maps a validation or test puzzle to a training puzzle. The same command
    resumes a killed build.

    Sources: generated; a file PATH, or csv:PATH, txt:PATH, table:PATH (lines, grids, CSV, JSON, OpenSudoku, Parquet
    and others, also compressed: docs/datasets.md); hf or hf:REPOSITORY@REVISION. PATH is local or a URL. Blanks are .
    0 * _; --symbols names the digits of other files.

    For example:

      trm-data build sudoku --size 500 --aug 1000
      trm-data build sudoku --box 2x3 --size 500 --aug 200 --val-size 200 --test-size 1000
      trm-data build sudoku --size 1000 --aug 1000 --difficulty extreme
      trm-data build sudoku --size 200 --test-size 40 --difficulty extreme --rating-bins 0,1,10,50
      trm-data build sudoku --source csv:train.csv --test-source csv:test.csv --size 1000 --aug 1000
      trm-data build sudoku --source puzzles.sdm.gz --size 300 --on-bad-row skip
      trm-data build sudoku --source mine.csv --columns question=start,answer=end --size 300 --test-size 50
    """

    box: Annotated[str, arg(metavar="RxC")] = "3x3"
    """Rows x columns of a box, from 2x2 (4x4 grids) by 2x3, 3x3, 2x5 and so on to 4x4 and 2x8 (16x16 grids)."""
    difficulty: Literal["random", "extreme"] = "random"
    """random: minimal puzzles; extreme: as hard as Sudoku-Extreme (generated 9x9 only)."""
    min_rating: Annotated[float | None, arg(metavar="R", **NO_DEFAULT_SHOWN)] = None
    """Minimum rating, in guesses of a solver (docs/datasets.md)."""
    max_rating: Annotated[float | None, arg(metavar="R", **NO_DEFAULT_SHOWN)] = None
    """Maximum rating."""
    rating_bins: Annotated[str | None, arg(metavar="R,R,...", **NO_DEFAULT_SHOWN)] = None
    """Lower ends of rating intervals; every split takes the same number of puzzles from each."""

    @override
    def request(self) -> BuildRequest:
        box_rows, box_columns = parse_shape("--box", self.box, "rows x columns of a box, like 3x3")
        options = SudokuOptions(
            box_rows=box_rows,
            box_columns=box_columns,
            min_rating=self.min_rating,
            max_rating=self.max_rating,
            rating_bins=parse_bins(self.rating_bins),
            difficulty=self.difficulty,
        )
        return self.make_request("sudoku", options, ("generated", "csv", "txt", "table", "hf"))


def parse_bins(text: str | None) -> tuple[float, ...]:
    """Parse the numbers of `R,R,...`; return an empty tuple for None."""
    if text is None:
        return ()
    try:
        return tuple(float(low) for low in text.split(","))
    except ValueError:
        raise SpecError(
            f"--rating-bins {text}: expected numbers separated by commas, such as 0,1,10,50"
        ) from None


PARTS = KindParts(
    name="sudoku",
    implementation="trm_data.kinds.sudoku.kind:SudokuKind",
    options=SudokuOptions,
    fields=BuildSudoku,
    warm="trm_data.kinds.sudoku.warm",
    shape_options=shape_options,
)
