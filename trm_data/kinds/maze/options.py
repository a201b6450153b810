"""What mazes have in a specification, in names and for the registry; imported without numpy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from typing_extensions import override
from tyro.conf import arg

from trm_data.errors import SpecError
from trm_data.kinds.fields import NO_DEFAULT_SHOWN, PuzzleFields, parse_range, parse_shape
from trm_data.kinds.registry import KindParts
from trm_data.specs import DatasetSpec, Options

if TYPE_CHECKING:
    from trm_data.request import BuildRequest


@dataclass(frozen=True, kw_only=True)
class MazeOptions(Options):
    """What only mazes have."""

    rows: int = 30
    columns: int = 30
    min_path: int = 0
    """Steps from S to G at least, for generated mazes; 0 for mazes that are read."""
    wall_low: float = 0.3
    """Least share of cells that are walls, for generated mazes."""
    wall_high: float = 0.5
    labels: Literal["shortest", "given"] = "shortest"
    """Whether the path that a file states must be a shortest one, or is kept as given."""

    hub_repository: ClassVar[str] = "sapientinc/maze-30x30-hard-1k"

    @override
    def shape_words(self) -> list[str]:
        return [f"{self.rows}x{self.columns}"]

    @override
    def arguments(self, spec: DatasetSpec) -> list[str]:
        arguments = [f"--grid {self.rows}x{self.columns}"]
        if spec.source.kind == "generated":
            walls = f"{self.wall_low:g}-{self.wall_high:g}"
            arguments.append(f"--min-path {self.min_path} --walls {walls}")
        if self.labels != "shortest":
            arguments.append(f"--labels {self.labels}")
        return arguments

    @override
    def choice_words(self) -> list[str]:
        return [] if self.labels == "shortest" else ["labels", self.labels]


def symmetries(rows: int, columns: int) -> int:
    """Symmetries of a grid, the identity included."""
    return 8 if rows == columns else 4


def spellings(name: str) -> Sequence[str]:
    """A maze with all its symmetries has 7 augmentations besides the original; some names count that too."""
    found = re.fullmatch(r"(maze-(\d{1,2})x(\d{1,2})-.+-aug-)(\d)(-.+)?", name)
    if found is None:
        return ()
    stem, rows, columns, aug, rest = found.groups(default="")
    every = symmetries(int(rows), int(columns))
    return [f"{stem}{count}{rest}" for count in (every - 1, every)] if every - int(aug) in (0, 1) else ()


def shape_options(rows: int, columns: int, vocabulary_size: int) -> MazeOptions:
    """A grid of that size."""
    return MazeOptions(rows=rows, columns=columns)


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

    @override
    def request(self) -> BuildRequest:
        from trm_data.kinds.maze.generate import default_min_path
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


PARTS = KindParts(
    name="maze",
    implementation="trm_data.kinds.maze.kind:MazeKind",
    options=MazeOptions,
    fields=BuildMaze,
    warm="trm_data.kinds.maze.warm",
    spellings=spellings,
    shape_options=shape_options,
)
