"""What mazes have in a specification, in names and for the registry; imported without numpy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from trm_data.kinds.parts import KindParts
from trm_data.specs import DatasetSpec, Options


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

    def shape_words(self) -> list[str]:
        """The grid."""
        return [f"{self.rows}x{self.columns}"]

    def arguments(self, spec: DatasetSpec) -> list[str]:
        """Grid, and what generated mazes obey."""
        arguments = [f"--grid {self.rows}x{self.columns}"]
        if spec.source.kind == "generated":
            walls = f"{self.wall_low:g}-{self.wall_high:g}"
            arguments.append(f"--min-path {self.min_path} --walls {walls}")
        if self.labels != "shortest":
            arguments.append(f"--labels {self.labels}")
        return arguments

    def choice_words(self) -> list[str]:
        """Labels that are kept as given."""
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


PARTS = KindParts(
    name="maze",
    implementation="trm_data.kinds.maze.kind:MazeKind",
    options=MazeOptions,
    fields="trm_data.kinds.maze.fields:BuildMaze",
    warm="trm_data.kinds.maze.warm",
    kernels={"solve/maze_kernels": 7.5, "augment/grid": 7.5, "generate/maze_kernels": 7.5},
    spellings=spellings,
    shape_options=shape_options,
)
