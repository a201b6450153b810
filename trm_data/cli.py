"""`trm-data`: build, list, describe, verify, query and show puzzle datasets.

Heavy imports happen inside the commands, so that `--help` stays fast.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import Positional, arg, subcommand

from trm_data.command import PARSING, Root, errors_end
from trm_data.errors import DataError
from trm_data.layout import resolve_root
from trm_data.render import print_drawings, print_result, print_table

if TYPE_CHECKING:
    from trm_data.build import BuildResult
    from trm_data.describe import Example
    from trm_data.request import BuildRequest

Json = Annotated[bool, arg(help="Print JSON for machines.")]
SplitName = Literal["train", "validation", "test"]


@dataclass(frozen=True, kw_only=True)
class BuildSudoku:
    """Build a Sudoku dataset.

    Every puzzle has one solution; validation and test puzzles are equivalent to no training puzzle under the
    Sudoku symmetries. A killed build goes on where it stopped by the same command.

    For example:

      trm-data build sudoku --size 500 --aug 1000
      trm-data build sudoku --box 2x3 --size 500 --aug 200 --val-size 200 --test-size 1000
      trm-data build sudoku --source csv:train.csv --test-source csv:test.csv --size 1000 --aug 1000
      trm-data build sudoku --source txt:puzzles.txt.gz --size 300 --on-bad-row skip
    """

    size: Annotated[int, arg(metavar="N")] = 1000
    """Training puzzles, before augmentation."""
    aug: Annotated[int, arg(metavar="N")] = 0
    """Augmentations of each training puzzle besides the original."""
    val_size: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Validation puzzles (default: 200 generated ones; 0 for files)."""
    test_size: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Test puzzles (default: 1000 generated ones; 0 for files)."""
    source: Annotated[str, arg(metavar="SOURCE")] = "generated"
    """generated, csv:PATH (columns question[,answer,rating,source]), txt:PATH (a puzzle a line, # comments),
    hf or hf:REPOSITORY@REVISION. PATH is local or a URL; .gz is decompressed."""
    test_source: Annotated[str | None, arg(metavar="SOURCE", help_behavior_hint="")] = None
    """Source of the test puzzles, where the published set has a file of its own (default: as --source)."""
    seed: int = 0
    """Everything random depends on it."""
    box: Annotated[str, arg(metavar="RxC")] = "3x3"
    """Rows x columns of a box: 2x2, 2x3, 3x3, 3x4, 4x4 make grids of side 4, 6, 9, 12, 16."""
    min_rating: Annotated[float | None, arg(metavar="R", help_behavior_hint="")] = None
    """Only puzzles of at least this rating (guesses of a solver; docs/rating.md)."""
    max_rating: Annotated[float | None, arg(metavar="R", help_behavior_hint="")] = None
    """Only puzzles of at most this rating."""
    on_bad_row: Literal["stop", "skip"] = "stop"
    """stop at a row that is no valid puzzle, or skip it and note it in the table `rejects`."""
    name: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Name of the dataset (default: says source, size and augmentation)."""
    root: Root = None
    workers: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Threads (default: one for each core). The content does not depend on it."""
    shard_examples: Annotated[int, arg(metavar="N")] = 131_072
    """Examples in a shard, about."""
    json: Json = False
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        """Build it and say what was built."""
        from trm_data.build import build_dataset
        from trm_data.engine.local import LocalEngine
        from trm_data.progress import terminal_progress

        with terminal_progress(quiet=self.quiet or self.json) as progress:
            result = build_dataset(
                self._request(),
                resolve_root(self.root),
                engine=LocalEngine(self.workers),
                shard_examples=self.shard_examples,
                progress=progress,
            )
        _print_built(result, as_json=self.json)
        return 0

    def _request(self) -> BuildRequest:
        from trm_data.request import BuildRequest
        from trm_data.sources.base import parse_source
        from trm_data.specs import SudokuOptions

        box_rows, box_columns = _parse_box(self.box)
        source = parse_source(self.source)
        test_source = None
        if self.test_source is not None:
            test_source = parse_source(self.test_source, "--test-source")
        elif source.kind == "hf":
            test_source = source
        generated = source.kind == "generated"
        tested = generated or test_source is not None
        return BuildRequest(
            source=source,
            test_source=test_source,
            size=self.size,
            aug=self.aug,
            val_size=(200 if generated else 0) if self.val_size is None else self.val_size,
            test_size=(1000 if tested else 0) if self.test_size is None else self.test_size,
            seed=self.seed,
            on_bad_row=self.on_bad_row,
            options=SudokuOptions(
                box_rows=box_rows,
                box_columns=box_columns,
                min_rating=self.min_rating,
                max_rating=self.max_rating,
            ),
            name=self.name,
        )


@dataclass(frozen=True, kw_only=True)
class Build:
    """Build a dataset: `trm-data build sudoku --size 500 --aug 1000`."""

    kind: (
        Annotated[BuildSudoku, subcommand("sudoku")]
        | Annotated[None, subcommand("kinds", description="List the kinds that can be built.")]
    )

    def run(self) -> int:
        """Build it, or say which kinds there are."""
        if self.kind is None:
            print("sudoku")
            return 0
        return self.kind.run()


@dataclass(frozen=True, kw_only=True)
class List:
    """List the datasets under the root."""

    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Print a table."""
        from trm_data.describe import list_datasets

        layout = resolve_root(self.root)
        summaries = list_datasets(layout)
        if self.json:
            print(json.dumps([asdict(summary) for summary in summaries], indent=1))
            return 0
        if not summaries:
            print(
                f"no datasets under {layout.root} yet; build one: trm-data build sudoku --size 500 --aug 1000"
            )
            return 0
        rows = [
            (
                s.name,
                s.problem or s.kind,
                *(_count(s.splits.get(split)) for split in ("train", "validation", "test")),
                _megabytes(s.size_bytes),
                s.digest[:12],
            )
            for s in summaries
        ]
        print_table(["dataset", "kind", "train", "validation", "test", "size", "digest"], rows)
        return 0


@dataclass(frozen=True, kw_only=True)
class Describe:
    """Say what a dataset is: specification, splits, counts, sizes, digest, one example."""

    name: Annotated[Positional[str], arg(metavar="NAME")]
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Print the description."""
        from trm_data.describe import describe_dataset, read_example

        layout = resolve_root(self.root)
        described = describe_dataset(layout, self.name)
        if self.json:
            print(json.dumps(described, indent=1))
            return 0
        spec = described.pop("spec")
        splits = described.pop("splits")
        libraries = described.pop("libraries")
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
class Verify:
    """Check a dataset: files, rows, counts, digests, every puzzle, and that the splits share none.

    Exits with 1 and a list of what is wrong if anything is.
    """

    name: Annotated[Positional[str], arg(metavar="NAME")]
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Verify and print the verdict."""
        from trm_data.progress import terminal_progress
        from trm_data.verify import verify_dataset

        with terminal_progress(quiet=self.json) as progress:
            found = verify_dataset(resolve_root(self.root), self.name, progress)
        if self.json:
            print(json.dumps({**asdict(found), "whole": found.whole}, indent=1))
        elif found.whole:
            checked = ", ".join(f"{count:,} {what}" for what, count in found.counts.items())
            print(f"{self.name}: whole ({checked}; {found.seconds:.1f} s)")
        else:
            print(f"{self.name}: {len(found.problems)} wrong", file=sys.stderr)
            for problem in found.problems:
                print(f"  {problem}", file=sys.stderr)
        return 0 if found.whole else 1


@dataclass(frozen=True, kw_only=True)
class Sql:
    """Ask the dataset catalog in SQL, read-only.

    Tables: datasets, sources, splits, shards, puzzles, augmentations, rejects. duckdb_columns()
    gives every column with its unit.

    For example:

      trm-data sql "SELECT * FROM splits"
      trm-data sql "SELECT split, round(rating) r, count(*) FROM puzzles GROUP BY ALL ORDER BY ALL" --format csv
    """

    query: Annotated[Positional[str], arg(metavar="QUERY")]
    format: Literal["table", "csv", "json"] = "table"
    root: Root = None

    def run(self) -> int:
        """Run the query and print the result."""
        from trm_data.catalog.query import query_catalog

        print_result(query_catalog(resolve_root(self.root), self.query), self.format)
        return 0


@dataclass(frozen=True, kw_only=True)
class Show:
    """Draw one example of a dataset in the terminal.

    For example:

      trm-data show sudoku-generated-500-aug-1000 --split train --index 3
    """

    name: Annotated[Positional[str], arg(metavar="NAME")]
    split: SplitName = "train"
    index: int = 0
    """Row of the split, from 0."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Draw it."""
        from trm_data.describe import read_example

        example = read_example(resolve_root(self.root), self.name, self.split, self.index)
        if self.json:
            print(json.dumps(example.to_json(), indent=1))
        else:
            _print_example(example)
        return 0


Command = (
    Annotated[Build, subcommand("build")]
    | Annotated[List, subcommand("list")]
    | Annotated[Describe, subcommand("describe")]
    | Annotated[Verify, subcommand("verify")]
    | Annotated[Sql, subcommand("sql")]
    | Annotated[Show, subcommand("show")]
)


def main(arguments: list[str] | None = None) -> None:
    """Run `trm-data`. Exit code 0: done; 1: `verify` found something wrong; 2: an error, on standard error."""
    with errors_end("trm-data", DataError):
        command = tyro.cli(
            Command,
            prog="trm-data",
            description="Build and read puzzle datasets.",
            args=arguments,
            config=PARSING,
        )
        sys.exit(command.run())


def _print_built(result: BuildResult, *, as_json: bool) -> None:
    manifest = result.manifest
    if as_json:
        facts = {
            "name": manifest.name,
            "folder": str(result.folder),
            "content_digest": manifest.content_digest,
            "unchanged": result.unchanged,
            "shards_written": result.shards_written,
            "shards_kept": result.shards_kept,
            "rejects": result.rejects,
            "examples": {split: entry.num_examples for split, entry in manifest.splits.items()},
            "size_bytes": manifest.size_bytes,
            "seconds": round(result.seconds, 3),
        }
        print(json.dumps(facts, indent=1))
        return
    counts = ", ".join(f"{entry.num_examples:,} {split}" for split, entry in manifest.splits.items())
    if result.unchanged:
        print(f"{manifest.name}: already built, nothing to do ({counts} examples)")
    else:
        kept = f", {result.shards_kept} shards were already there" if result.shards_kept else ""
        size = _megabytes(manifest.size_bytes)
        print(f"{manifest.name}: {counts} examples, {size}, {result.seconds:.1f} s{kept}")
    if result.rejects:
        print(f'  {result.rejects:,} bad rows left out: trm-data sql "SELECT * FROM rejects"')
    for warning in result.warnings:
        print(f"  warning: {warning}", file=sys.stderr)
    print(f"  digest {manifest.content_digest[:12]}, in {result.folder}")


def _print_example(example: Example) -> None:
    what = f"augmentation {example.augmentation}" if example.augmentation else "the original"
    print(f"{example.split} {example.index}: {what} of group {example.group}")
    print_drawings([example.puzzle, example.solution])


def _flat(value: dict[str, object], prefix: str = "") -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for key, item in value.items():
        if isinstance(item, dict):
            rows += _flat(item, f"{prefix}{key}.")
        else:
            rows.append((prefix + key, "" if item is None else item))
    return rows


def _parse_box(text: str) -> tuple[int, int]:
    from trm_data.errors import SpecError

    rows, separator, columns = text.partition("x")
    if not (separator and text.isascii() and rows.isdecimal() and columns.isdecimal()):
        raise SpecError(f"--box {text}: rows x columns of a box, like 3x3")
    return int(rows), int(columns)


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"
