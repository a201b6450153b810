"""`trm-data build`: one subcommand for each kind of puzzle, and one for the named datasets of the research."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg, subcommand

from trm_data.command import Root
from trm_data.commands.built import print_built, print_estimate
from trm_data.commands.common import Json
from trm_data.commands.kinds import (
    BuildArc,
    BuildMaze,
    BuildOther,
    BuildSudoku,
    BuildTable,
    make_options,
)
from trm_data.commands.options import NO_DEFAULT_SHOWN
from trm_data.errors import SpecError
from trm_data.storage.root import resolve_root


@dataclass(frozen=True, kw_only=True)
class BuildNamed:
    """Build a named dataset of the research, or all that a study uses.

    Without a name, lists them. A recorded digest that the built rows do not have is an error.

    For example:

      trm-data build sudoku-extreme-1k-aug-1000
      trm-data build --all-for exp04a
      trm-data build maze-30x30-hard-1k --source csv:train.csv --test-source csv:test.csv
    """

    dataset: Annotated[Positional[str | None], arg(metavar="NAME", **NO_DEFAULT_SHOWN)] = None
    all_for: Annotated[str | None, arg(metavar="STUDY", **NO_DEFAULT_SHOWN)] = None
    """Build every dataset that this study uses, or all studies whose names begin so."""
    source: Annotated[str | None, arg(metavar="SOURCE", **NO_DEFAULT_SHOWN)] = None
    """The same puzzles from elsewhere, as a local copy of the published files."""
    test_source: Annotated[str | None, arg(metavar="SOURCE", **NO_DEFAULT_SHOWN)] = None
    """Likewise for the test puzzles."""
    augment: Literal["recorded", "stored", "virtual"] = "recorded"
    """virtual stores base puzzles only; the dataset is then named ...-virtual."""
    root: Root = None
    engine: Literal["local", "ray"] = "local"
    """local: all cores of this machine; ray: a Ray cluster (the extra `ray`)."""
    workers: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Tasks at a time (default: one for each core)."""
    dry_run: bool = False
    """Say what would be built, how big, and how long it would take; build nothing."""
    json: Json = False
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        """Build them one after the other."""
        from trm_data.named import datasets_of_study, named_dataset

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
        layout = resolve_root(self.root)
        facts: list[dict[str, Any]] = []
        for number, named in enumerate(wanted, start=1):
            if len(wanted) > 1 and not self.json:
                print(f"[{number}/{len(wanted)}] {named.name}: {named.about}")
            options = make_options(named.kind, {**named.options, **self._changes(named.name)})
            if self.dry_run:
                facts.append(print_estimate(options.request(), layout, silent=self.json))
                continue
            result = options.build(layout)
            if self.augment != "virtual":
                named.check_digest(result.manifest, other_source=self.source is not None)
            facts.append(print_built(result, silent=self.json))
        if self.json:
            print(json.dumps(facts if self.all_for is not None else facts[0], indent=1))
        return 0

    def _changes(self, name: str) -> dict[str, object]:
        """Options that the user gives for the named dataset."""
        changes: dict[str, object] = {"name": name, "root": self.root, "engine": self.engine}
        changes |= {"workers": self.workers, "json": self.json, "quiet": self.quiet}
        if self.source is not None:
            changes["source"] = self.source
        if self.test_source is not None:
            changes["test_source"] = self.test_source
        if self.augment != "recorded":
            changes["augment"] = self.augment
            changes["name"] = f"{name}-virtual" if self.augment == "virtual" else name
        return changes


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


def _print_named(*, as_json: bool) -> None:
    from trm_data.named import named_datasets
    from trm_data.show.render import print_table

    named = named_datasets()
    if as_json:
        print(json.dumps([dataset.to_json() for dataset in named.values()], indent=1))
        return
    rows = [
        (name, ", ".join(dataset.used_by), dataset.digest[:12] or "-", dataset.about)
        for name, dataset in named.items()
    ]
    print_table(["named dataset", "used by", "digest", "what"], rows)
