"""`trm-data build sudoku`: the command line of Sudoku; imported without numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from trm_data.errors import SpecError
from trm_data.kinds.fields import NO_DEFAULT_SHOWN, PuzzleFields, parse_shape
from trm_data.kinds.sudoku.options import SudokuOptions

if TYPE_CHECKING:
    from trm_data.request import BuildRequest


@dataclass(frozen=True, kw_only=True)
class BuildSudoku(PuzzleFields):
    """Build a Sudoku dataset.

    Every puzzle has one solution; validation and test puzzles are equivalent to no training puzzle under the
    Sudoku symmetries. A killed build goes on where it stopped by the same command.

    Sources: generated; a file, as csv:PATH, txt:PATH or table:PATH (the word may be left out): a puzzle a line, grids
    over several lines, CSV, JSON, OpenSudoku, Parquet and others, also compressed (docs/forms.md); hf or
    hf:REPOSITORY@REVISION. PATH is local or a URL. A blank is one of . 0 * _; beside another blank, 0 is a digit where
    the top digit is nowhere (--symbols names the digits of a file).

    For example:

      trm-data build sudoku --size 500 --aug 1000
      trm-data build sudoku --box 2x3 --size 500 --aug 200 --val-size 200 --test-size 1000
      trm-data build sudoku --size 1000 --aug 1000 --difficulty extreme
      trm-data build sudoku --size 200 --test-size 40 --difficulty extreme --rating-bins 0,1,10,50
      trm-data build sudoku --source csv:train.csv --test-source csv:test.csv --size 1000 --aug 1000
      trm-data build sudoku --source puzzles.sdm.gz --size 300 --on-bad-row skip
      trm-data build sudoku --source mine.csv --columns question=start,answer=end --size 300 --test-size 50
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
    """Numbers from `R,R,...`; none from None.

    Raises:
        SpecError: Another form.
    """
    if text is None:
        return ()
    try:
        return tuple(float(low) for low in text.split(","))
    except ValueError:
        raise SpecError(f"--rating-bins {text}: numbers with commas, like 0,1,10,50") from None
