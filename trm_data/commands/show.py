"""`trm-data show`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg

from trm_data.command import Json, Root, emit
from trm_data.commands.common import Name, SplitName
from trm_data.commands.describe import print_example
from trm_data.errors import SpecError
from trm_data.storage.root import Layout, resolve_root


@dataclass(frozen=True, kw_only=True)
class Show:
    """Draw examples of a dataset in the terminal, or as a picture.

    For example:

      trm-data show sudoku-generated-500-aug-1000 --split train --index 3
      trm-data show sudoku-generated-500-aug-1000 --rating 5.. --count 4
      trm-data show maze-30x30-generated-1000-aug-7-rule --out maze.png
      trm-data show arc1-aug-100 --split test --task 0934a4d8 --out task.svg
    """

    name: Name
    split: SplitName = "train"
    """Split of the dataset."""
    index: Annotated[int | None, arg(metavar="ROW", help_behavior_hint="")] = None
    """First row to show, from 0."""
    rating: Annotated[str | None, arg(metavar="LOW..HIGH", help_behavior_hint="")] = None
    """Show originals with ratings in this range; 5.. means 5 and more."""
    task: Annotated[str | None, arg(metavar="TASK", help_behavior_hint="")] = None
    """Show all pairs of an ARC task, not augmented."""
    count: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Maximum number of examples (default: 1, or all pairs of a task)."""
    out: Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write a picture (.png or .svg)."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Draw the examples."""
        from trm_data.describe import read_example

        layout = resolve_root(self.root)
        examples = [read_example(layout, self.name, self.split, row) for row in self._rows(layout)]
        if self.out is not None:
            from pathlib import Path

            from trm_data.show.picture import write_picture

            drawings = [
                titled
                for example in examples
                for titled in ((f"given: {example.title}", example.puzzle), ("solution", example.solution))
            ]
            write_picture(drawings, Path(self.out), across=2)
            emit({"wrote": self.out}, f"wrote {self.out}", as_json=self.json)
            return 0
        values = [example.to_json() for example in examples]
        alone = self.count is None and self.task is None
        emit(values[0] if alone else values, lambda: [*map(print_example, examples)], as_json=self.json)
        return 0

    def _rows(self, layout: Layout) -> list[int]:
        """Return the rows to draw."""
        from trm_data.describe import rated_rows, task_rows

        chosen = [word for word in ("index", "rating", "task") if getattr(self, word) is not None]
        if len(chosen) > 1:
            raise SpecError(f"--{chosen[0]} and --{chosen[1]}: use only one of them")
        if self.count is not None and self.count < 1:
            raise SpecError(f"--count {self.count}: expected at least 1")
        if self.rating is not None:
            return rated_rows(layout, self.name, self.split, self.rating, self.count or 1)
        if self.task is not None:
            return task_rows(layout, self.name, self.split, self.task)[: self.count]
        first = self.index or 0
        if self.count is None:
            return [first]
        from trm_data.manifest import read_manifest

        split = read_manifest(layout, self.name).splits.get(self.split)
        last = first + self.count if split is None else min(first + self.count, split.num_examples)
        return list(range(first, max(last, first + 1)))
