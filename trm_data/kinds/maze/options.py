"""Mazes in specifications, names and the registry; imported without numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from typing_extensions import override
from tyro.conf import arg

from trm_data.errors import SpecError
from trm_data.kinds.fields import NO_DEFAULT_SHOWN, PuzzleFields, parse_range, parse_shape
from trm_data.kinds.registry import KindParts
from trm_data.specs import DatasetSpec, Options

if TYPE_CHECKING:
    from trm_data.sources.published import ImportedRows
    from trm_data.specs import BuildRequest

Labels = Literal["rule", "moved", "given"]
WALLS = "0.3-0.5"
"""Default range of the share of walls."""


@dataclass(frozen=True, kw_only=True)
class MazeOptions(Options):
    """Options specific to mazes."""

    rows: int = 30
    columns: int = 30
    min_path: int = 0
    """Minimum path length of generated mazes (steps from S to G); 0 for mazes that are read."""
    wall_low: float = 0.3
    """Minimum share of wall cells in generated mazes."""
    wall_high: float = 0.5
    unique: bool = False
    """Whether generated mazes are perfect mazes, which have one path."""
    labels: Labels = "moved"
    """rule: every image is labelled by the published rule; moved: a shortest path moves with its maze; given: any path
    moves with its maze."""

    hub_repository: ClassVar[str] = "sapientinc/maze-30x30-hard-1k"

    @classmethod
    @override
    def from_json(cls, value: dict[str, Any]) -> Self:
        labels = value.get("labels", "moved")
        return super().from_json({**value, "labels": "moved" if labels == "shortest" else labels})

    @property
    def shortest(self) -> bool:
        """Whether a given path must be a shortest one."""
        return self.labels != "given"

    @override
    def shape_words(self) -> list[str]:
        return [f"{self.rows}x{self.columns}"]

    @override
    def arguments(self, spec: DatasetSpec) -> list[str]:
        arguments = [f"--grid {self.rows}x{self.columns}"]
        if spec.source.kind == "generated":
            layout = "--unique" if self.unique else f"--walls {self.wall_low:g}-{self.wall_high:g}"
            arguments.append(f"--min-path {self.min_path} {layout}")
        if spec.aug or self.labels != "moved":
            arguments.append(f"--labels {self.labels}")
        return arguments

    @override
    def choice_words(self) -> list[str]:
        words = ["unique"] if self.unique else []
        if self.min_path and self.min_path != usual_min_path(self.rows, self.columns, unique=self.unique):
            words += ["min-path", str(self.min_path)]
        return words + {"rule": ["rule"], "moved": [], "given": ["labels", "given"]}[self.labels]


def usual_min_path(rows: int, columns: int, *, unique: bool) -> int:
    """Return the default minimum path of generated mazes: as rare as 109 steps are in 30x30.

    About 2e-5 of random pairs are that far apart, at the published wall shares: 12 steps for 5x5,
    70 for 20x20, 242 for 64x64. Measured for sides of 3 to 64.
    """
    usual = max(1, round(3.9 * math.sqrt(rows * columns)) - 8)
    return min(usual, longest_unique_path(rows, columns)) if unique else usual


def longest_unique_path(rows: int, columns: int) -> int:
    """Return the length of the longest possible path of a perfect maze, which visits all rooms."""
    return 2 * (((rows + 1) // 2) * ((columns + 1) // 2) - 1)


def form_of_rows(options: MazeOptions, found: ImportedRows) -> MazeOptions:
    """Return the options with the label rule of imported rows, as inferred from the rows."""
    from trm_data.kinds.maze.solve import label_mazes, path_problems

    shape, labels = (options.rows, options.columns), "rule"
    for rows in found.splits.values():
        try:
            if (label_mazes(rows.inputs, *shape).labels == rows.labels).all():
                continue
            shortest = not any(path_problems(rows.inputs, rows.labels, *shape))
        except ValueError:  # not mazes; the import reports the problem
            return options
        labels = "moved" if shortest and labels != "given" else "given"
    return replace(options, labels=labels)


def shape_options(rows: int, columns: int, vocabulary_size: int) -> MazeOptions:
    """Return the options of a grid of this size."""
    return MazeOptions(rows=rows, columns=columns)


@dataclass(frozen=True, kw_only=True)
class BuildMaze(PuzzleFields):
    """Build a maze dataset.

    Generated mazes have the distribution of the published Maze-Hard set: walls and the pair (S, G) are uniform among
    all with a shortest path of at least --min-path steps. No two mazes of a dataset have the same layout under the
    symmetries of the grid. --aug 8 means all symmetries of a square maze: 7 besides the original.

    Sources: generated; a file PATH, or csv:PATH, txt:PATH, table:PATH (CSV, text, JSON, Parquet and others:
    docs/datasets.md); hf or hf:REPOSITORY@REVISION.

    For example:

      trm-data build maze --size 1000 --aug 8
      trm-data build maze --grid 50x50 --size 1000
      trm-data build maze --grid 30x30 --unique --size 1000
      trm-data build maze --source csv:train.csv --test-source csv:test.csv --size 1000 --aug 8
    """

    grid: Annotated[str, arg(metavar="RxC")] = "30x30"
    """Rows x columns, up to 64x64."""
    min_path: Annotated[int | None, arg(metavar="STEPS", **NO_DEFAULT_SHOWN)] = None
    """Minimum path length of generated mazes, in steps (default: 3.9 times the root of the number of cells, less
    8: 23 for 8x8, 109 for 30x30)."""
    walls: Annotated[str | None, arg(metavar="LOW-HIGH", **NO_DEFAULT_SHOWN)] = None
    """Share of wall cells in generated mazes (default: 0.3-0.5)."""
    unique: bool = False
    """Generate perfect mazes: a spanning tree with one path between any two cells."""
    labels: Annotated[Labels | None, arg(metavar="rule|moved|given", **NO_DEFAULT_SHOWN)] = None
    """Labels of augmented mazes (default: rule). rule: as published (breadth-first: down, left, right, up); moved:
    the path moves with its maze; given: any path."""

    @override
    def request(self) -> BuildRequest:
        from trm_data.sources.base import MAZE_HARD

        allowed = ("generated", "csv", "txt", "table", "hf")
        rows, columns = parse_shape("--grid", self.grid, "rows x columns, like 30x30")
        generated = self.source == "generated"
        low, high = parse_range("--walls", self.walls or WALLS if generated else WALLS)
        if self.unique and (self.walls is not None or not generated):
            what = f"--walls {self.walls}" if generated else f"--source {self.source}"
            raise SpecError(
                f"--unique with {what}: a perfect maze is generated, and its layout sets its walls"
            )
        default = usual_min_path(rows, columns, unique=self.unique) if generated else 0
        if self.labels == "given" and generated:
            raise SpecError(f"--labels {self.labels}: only for mazes of a file; expected rule, moved")
        if self.min_path is not None and not generated:
            raise SpecError(f"--min-path {self.min_path}: only for generated mazes")
        min_path = default if self.min_path is None else self.min_path
        options = MazeOptions(
            rows=rows,
            columns=columns,
            min_path=min_path,
            wall_low=low,
            wall_high=high,
            unique=self.unique,
            labels=self.labels or ("rule" if self.aug else "moved"),
        )
        symmetries = 8 if rows == columns else 4
        aug = self.aug - 1 if self.aug == symmetries else self.aug  # 8 is accepted as "all"
        return self.make_request("maze", options, allowed, aug=aug, hub=MAZE_HARD)


PARTS = KindParts(
    name="maze",
    implementation="trm_data.kinds.maze.kind:MazeKind",
    options=MazeOptions,
    fields=BuildMaze,
    warm="trm_data.kinds.maze.warm",
    shape_options=shape_options,
    form_of_rows=form_of_rows,
)
