"""What Sudoku has in a specification, in names and for the registry; imported without numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trm_data.errors import SpecError
from trm_data.kinds.parts import KindParts
from trm_data.specs import SUDOKU_EXTREME, DatasetSpec, Options, Origin


@dataclass(frozen=True, kw_only=True)
class SudokuOptions(Options):
    """What only Sudoku has."""

    box_rows: int = 3
    box_columns: int = 3
    min_rating: float | None = None
    max_rating: float | None = None
    rating_bins: tuple[float, ...] = ()
    """Lower ends of rating intervals; every split takes its puzzles from them in turn."""
    difficulty: Literal["random", "extreme"] = "random"
    """Whether generated puzzles are random minimal ones, or searched for hardness."""

    @property
    def box(self) -> tuple[int, int]:
        """Rows and columns of a box."""
        return self.box_rows, self.box_columns

    @property
    def side(self) -> int:
        """Cells in a row of the grid, n = box rows * box columns."""
        return self.box_rows * self.box_columns

    hub_repository: ClassVar[str] = SUDOKU_EXTREME
    hub_word: ClassVar[str] = "extreme"

    def shape_words(self) -> list[str]:
        """The box, where it is not 3x3."""
        return [] if self.box == (3, 3) else [f"{self.box_rows}x{self.box_columns}"]

    def name_words(self, kind: str, source: Origin) -> list[str]:
        """Searched puzzles are generated and extreme."""
        words = super().name_words(kind, source)
        return [*words, "extreme"] if self.difficulty == "extreme" else words

    def choice_words(self) -> list[str]:
        """Ratings that are asked for."""
        words: list[str] = []
        for word, value in (("min-rating", self.min_rating), ("max-rating", self.max_rating)):
            if value is not None:
                words += [word, f"{value:g}"]
        return [*words, "bins", *(f"{low:g}" for low in self.rating_bins)] if self.rating_bins else words

    def arguments(self, spec: DatasetSpec) -> list[str]:
        """Box, difficulty and ratings."""
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
"""The usual box of a grid, by its side."""


def shape_options(rows: int, columns: int, vocabulary_size: int) -> SudokuOptions:
    """The usual box of a grid's side.

    Raises:
        SpecError: No Sudoku has that side.
    """
    if rows not in BOXES_OF_SIDES:
        raise SpecError(
            f"--kind sudoku: rows are squares of side {', '.join(map(str, BOXES_OF_SIDES))}, these are {rows}x{columns}"
        )
    box_rows, box_columns = BOXES_OF_SIDES[rows]
    return SudokuOptions(box_rows=box_rows, box_columns=box_columns)


def more_kernels(options: SudokuOptions) -> dict[str, float]:
    """The search for hard puzzles, which random ones do not need."""
    return {"generate/hard_kernels": 20.0} if options.difficulty == "extreme" else {}


PARTS = KindParts(
    name="sudoku",
    implementation="trm_data.kinds.sudoku.kind:SudokuKind",
    options=SudokuOptions,
    fields="trm_data.kinds.sudoku.fields:BuildSudoku",
    warm="trm_data.kinds.sudoku.warm",
    kernels={
        "solve/sudoku_kernels": 7.5,
        "canonical/sudoku_kernels": 7.5,
        "augment/sudoku_kernels": 7.5,
        "generate/sudoku_kernels": 7.5,
    },
    more_kernels=more_kernels,
    shape_options=shape_options,
)
