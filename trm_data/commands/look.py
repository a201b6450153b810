"""The commands that read datasets: `list`, `describe`, `show`, `sql`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from trm_data.command import WIDE_SHOWS, Json, Root, SkipDamaged, Wide, say_what_is_left_out
from trm_data.commands.answer import FormOption, Out, choose_form, give_answer, give_views, read_query
from trm_data.commands.common import Name, SplitName, megabytes
from trm_data.errors import QueryError, SpecError, UsageError
from trm_data.show.render import print_drawings, print_table
from trm_data.storage.root import Layout, resolve_root

if TYPE_CHECKING:
    from trm_data.describe.examples import Example


@dataclass(frozen=True, kw_only=True)
class List:
    """List the datasets under the root.

    For example:

      trm-data list
      trm-data list --root gs://bucket/trm --json
    """

    wide: Wide = False
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Print a table."""
        from trm_data.describe.facts import list_datasets

        layout = resolve_root(self.root)
        summaries = list_datasets(layout)
        if self.json:
            print(json.dumps([asdict(summary) for summary in summaries], indent=1))
            return 0
        if not summaries:
            print(
                f"no datasets under {layout.place} yet; build one: trm-data build sudoku --size 500 --aug 1000"
            )
            return 0
        rows = [
            (
                s.name,
                s.problem or s.kind_label,
                *(_count(s.splits.get(split)) for split in ("train", "validation", "test")),
                megabytes(s.size_bytes),
                s.digest[:12],
            )
            for s in summaries
        ]
        columns = ["dataset", "kind", "train", "validation", "test", "size", "digest"]
        print_table(columns, rows, wide=self.wide, way_on=WIDE_SHOWS)
        return 0


@dataclass(frozen=True, kw_only=True)
class Describe:
    """Say what a dataset is: specification, splits, counts, sizes, digest, one example.

    For example:

      trm-data describe sudoku-generated-500-aug-1000
      trm-data describe sudoku-generated-500-aug-1000 --html page.html
    """

    name: Name
    html: Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write a page with counts, histograms and a sample of puzzles instead."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Print the description."""
        from trm_data.describe.examples import read_example
        from trm_data.describe.facts import describe_dataset

        layout = resolve_root(self.root)
        if self.html is not None:
            from pathlib import Path

            from trm_data.describe.page import dataset_page

            Path(self.html).write_text(dataset_page(layout, self.name), "utf-8")
            print(json.dumps({"wrote": self.html}) if self.json else f"wrote {self.html}")
            return 0
        described = describe_dataset(layout, self.name)
        if self.json:
            print(json.dumps(described, indent=1))
            return 0
        spec = described.pop("spec")
        splits = described.pop("splits")
        libraries = described.pop("libraries")
        described["kind"] = described.pop("kind_label")
        described["size_bytes"] = f"{described['size_bytes']:,}"
        described["libraries"] = ", ".join(f"{name} {version}" for name, version in libraries.items())
        print_table(["", ""], list(described.items()))
        print_table(["specification", ""], list(_flat(spec)))
        columns = ["groups", "puzzles", "examples", "shards", "bytes", "digest"]
        keys = ["num_groups", "num_puzzles", "num_examples", "shards", "size_bytes"]
        print_table(
            ["split", *columns],
            [(name, *(f"{s[key]:,}" for key in keys), s["digest"][:12]) for name, s in splits.items()],
        )
        _print_example(read_example(layout, self.name, next(iter(splits)), 0))
        return 0


@dataclass(frozen=True, kw_only=True)
class Sql:
    """Ask the dataset catalog in SQL, read-only.

    Tables: datasets, sources, splits, shards, puzzles, augmentations, examples, identifiers, rejects. `trm-data tables`
    says what they are, with every column and its unit.

    For example:

      trm-data sql "SELECT * FROM splits"
      trm-data sql question.sql --json
      trm-data sql "SELECT split, round(rating) r, count(*) FROM puzzles GROUP BY ALL ORDER BY ALL" --format csv
    """

    query: Annotated[Positional[str | None], arg(metavar="QUERY", help_behavior_hint="")] = None
    """SQL, or a file FILE.sql that has it; from standard input for `-`, or where a pipe has it."""
    form: FormOption = None
    json: Json = False
    wide: Wide = False
    out: Out = None
    skip_damaged: SkipDamaged = False
    root: Root = None

    def run(self) -> int:
        """Run the query and print the result."""
        from trm_data.catalog.query import query_catalog

        if self.query is None and sys.stdin.isatty():
            raise UsageError('no query; such as: trm-data sql "SELECT * FROM datasets"')
        query = read_query(self.query or "-")
        if query.startswith("@"):
            raise UsageError(f"{query}: named queries are of results: trm-eval sql {query}")
        form = choose_form(self.form, self.out, as_json=self.json)
        try:
            found = query_catalog(resolve_root(self.root), query, as_table=form == "parquet")
        except QueryError as error:
            if "does not exist" not in str(error):
                raise
            way_on = "trm-data tables lists tables; those of runs and results are asked by trm-eval sql"
            raise QueryError(f"{error}\n({way_on})") from error
        give_answer(found, form, self.out, wide=self.wide)
        return say_what_is_left_out("trm-data", found.problems, skip=self.skip_damaged)


@dataclass(frozen=True, kw_only=True)
class Tables:
    """List what SQL can ask, or the columns of one table with their types and units. It needs no root.

    For example:

      trm-data tables
      trm-data tables puzzles
      trm-data tables splits --json
    """

    name: Annotated[Positional[str | None], arg(metavar="NAME", help_behavior_hint="")] = None
    """Print the columns of this one."""
    json: Json = False

    def run(self) -> int:
        """Print them."""
        from trm_data.catalog.schema import list_tables

        give_views("trm-data", list_tables(), self.name, as_json=self.json)
        return 0


@dataclass(frozen=True, kw_only=True)
class Show:
    """Draw examples of a dataset in the terminal, or as a picture.

    For example:

      trm-data show sudoku-generated-500-aug-1000 --split train --index 3
      trm-data show sudoku-generated-500-aug-1000 --rating 5.. --count 4
      trm-data show maze-30x30-generated-1000-aug-7 --out maze.png
      trm-data show arc1-aug-100 --split test --task 0934a4d8 --out task.svg
    """

    name: Name
    split: SplitName = "train"
    index: Annotated[int | None, arg(metavar="ROW", help_behavior_hint="")] = None
    """Row of the split that is shown first, from 0."""
    rating: Annotated[str | None, arg(metavar="LOW..HIGH", help_behavior_hint="")] = None
    """Originals of puzzles with such ratings instead; one of the bounds may be left out, as 5.. (5 and more)."""
    task: Annotated[str | None, arg(metavar="TASK", help_behavior_hint="")] = None
    """All pairs of a task of ARC instead, not augmented."""
    count: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Examples at most; without a word 1, and all of a task."""
    out: Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write a picture, .png or .svg, instead."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Draw them."""
        from trm_data.describe.examples import read_example

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
            print(json.dumps({"wrote": self.out}) if self.json else f"wrote {self.out}")
        elif self.json:
            values = [example.to_json() for example in examples]
            alone = self.count is None and self.task is None
            print(json.dumps(values[0] if alone else values, indent=1))
        else:
            for example in examples:
                _print_example(example)
        return 0

    def _rows(self, layout: Layout) -> list[int]:
        """Which rows to draw."""
        from trm_data.describe.examples import rated_rows, task_rows

        chosen = [word for word in ("index", "rating", "task") if getattr(self, word) is not None]
        if len(chosen) > 1:
            raise SpecError(f"--{chosen[0]} and --{chosen[1]}: one of them says which examples to show")
        if self.count is not None and self.count < 1:
            raise SpecError(f"--count {self.count}: at least 1")
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


def _print_example(example: Example) -> None:
    print(example.title)
    print_drawings([("given", example.puzzle), ("solution", example.solution)])


def _flat(value: dict[str, object], prefix: str = "") -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for key, item in value.items():
        if isinstance(item, dict):
            rows += _flat(item, f"{prefix}{key}.")
        else:
            rows.append((prefix + key, "" if item is None else item))
    return rows


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
