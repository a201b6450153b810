"""`trm-data build maze`: the command line of mazes; imported without numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from trm_data.errors import SpecError
from trm_data.kinds.fields import NO_DEFAULT_SHOWN, PuzzleFields, parse_range, parse_shape
from trm_data.kinds.maze.options import MazeOptions, symmetries

if TYPE_CHECKING:
    from trm_data.request import BuildRequest


@dataclass(frozen=True, kw_only=True)
class BuildMaze(PuzzleFields):
    """Build a maze dataset.

    Generated mazes are distributed like the published Maze-Hard set: walls and the pair (S, G) uniform among all that
    have a shortest path of --min-path steps. No two mazes of a dataset have the same layout under the symmetries of
    the grid. --aug 8 means all of a square maze's symmetries: 7 besides the original.

    Sources: generated; a file, as csv:PATH, txt:PATH or table:PATH (the word may be left out): CSV, mazes as lines of
    text, JSON, Parquet and others (docs/forms.md); hf or hf:REPOSITORY@REVISION.

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
    labels: Literal["shortest", "given"] = "shortest"
    """Paths that a file states: shortest refuses others, given keeps every path as it is."""

    def request(self) -> BuildRequest:
        """What is asked for."""
        from trm_data.generate.maze import default_min_path
        from trm_data.sources.hub import MAZE_HARD

        allowed = ("generated", "csv", "txt", "table", "hf")
        rows, columns = parse_shape("--grid", self.grid, "rows x columns, like 30x30")
        generated = self.source == "generated"
        low, high = parse_range("--walls", self.walls) if generated else (0.3, 0.5)
        try:
            default = default_min_path(rows, columns) if generated else 0
        except ValueError as error:
            raise SpecError(f"--grid {self.grid}: {error}") from error
        if self.labels != "shortest" and generated:
            raise SpecError(f"--labels {self.labels}: only for mazes of a file")
        if self.min_path is not None and not generated:
            raise SpecError(f"--min-path {self.min_path}: only for generated mazes")
        min_path = default if self.min_path is None else self.min_path
        options = MazeOptions(
            rows=rows, columns=columns, min_path=min_path, wall_low=low, wall_high=high, labels=self.labels
        )
        aug = self.aug - 1 if self.aug == symmetries(rows, columns) else self.aug  # 8 is accepted as "all"
        return self.make_request("maze", options, allowed, aug=aug, hub=MAZE_HARD)
