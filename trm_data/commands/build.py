"""`trm-data build`: a subcommand for each kind of puzzle, and one for the named datasets of the research."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass, field, make_dataclass
from functools import partial
from typing import Annotated, Any, Literal, Union

import tyro
from tyro.conf import Positional, arg, subcommand

from trm_data.building.fields import build_fields, build_named, named_fields
from trm_data.command import Json, Root, emit
from trm_data.commands.common import facts_of, print_built, print_estimate
from trm_data.errors import UsageError
from trm_data.kinds.fields import NO_DEFAULT_SHOWN, BuildFields, BuildOwn
from trm_data.kinds.registry import KindParts, built_in, own_kind
from trm_data.storage.root import Layout, resolve_root


@dataclass(frozen=True, kw_only=True)
class BuildNamed:
    """Build a named dataset.

    Without a name, the named datasets are listed. If the digest of the built rows differs from the recorded one, the
    build fails.

    For example:

      trm-data build sudoku-extreme-1000-aug-1000
      trm-data build maze-30x30-hard-1000-aug-0 --source csv:train.csv --test-source csv:test.csv
    """

    dataset: Annotated[Positional[str | None], arg(metavar="NAME", **NO_DEFAULT_SHOWN)] = None
    source: Annotated[str | None, arg(metavar="SOURCE", **NO_DEFAULT_SHOWN)] = None
    """Another source of the same puzzles, such as a local copy of the published files."""
    test_source: Annotated[str | None, arg(metavar="SOURCE", **NO_DEFAULT_SHOWN)] = None
    """Another source of the test puzzles."""
    augment: Literal["recorded", "stored", "virtual"] = "recorded"
    """virtual stores base puzzles only; the dataset is then named ...-virtual."""
    root: Root = None
    engine: Literal["local", "ray"] = "local"
    """local: all cores of this machine; ray: a Ray cluster (the extra `ray`)."""
    workers: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Parallel tasks (default: number of cores)."""
    dry_run: bool = False
    """Estimate the size; build nothing."""
    json: Json = False
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        """Build the dataset."""
        from trm_data.named import named_dataset

        if self.dataset is None:
            _print_named(as_json=self.json)
            return 0
        named, layout = named_dataset(self.dataset), resolve_root(self.root)
        if self.dry_run:
            return _estimate(named_fields(named, self._changes()), layout)
        built = build_named(named, self._changes(), layout)
        emit(facts_of(built), partial(print_built, built), as_json=self.json)
        return 0

    def _changes(self) -> dict[str, object]:
        """Return the options to change in the request of a named dataset."""
        changes: dict[str, object] = {"engine": self.engine, "workers": self.workers}
        changes |= {"json": self.json, "quiet": self.quiet}
        if self.source is not None:
            changes["source"] = self.source
        if self.test_source is not None:
            changes["test_source"] = self.test_source
        if self.augment != "recorded":
            changes["augment"] = self.augment
        return changes


@dataclass(frozen=True)
class Build:
    """Build a dataset: `trm-data build sudoku --size 500 --aug 1000`, or a named one: `trm-data build NAME`.

    Kinds of installed packages and of `--experiments FILE.py` have their own names: `trm-data build nqueens --help`.
    """

    def run(self) -> int:
        """Build the dataset."""
        kind: BuildFields | BuildNamed = self.kind  # pyright: ignore[reportAttributeAccessIssue]
        return kind.run() if isinstance(kind, BuildNamed) else run_fields(kind)


def own_fields(parts: KindParts) -> type[BuildOwn]:
    """Return the fields of an own kind as a subcommand with its name and its docstring."""
    kind = Annotated[str, tyro.conf.Fixed, tyro.conf.Suppress]
    about = (inspect.getdoc(parts.implementation) or "").partition("\n")[0]
    options = ", ".join(getattr(parts.implementation, "option_names", ())) or "none"
    text = f"Build a dataset of the kind {parts.name}. {about}\n\nOptions (--option NAME=VALUE): {options}."
    fields_of = [("kind", kind, field(default=parts.name))]
    namespace = {"__doc__": text}
    return make_dataclass(
        "BuildOwn", fields_of, bases=(BuildOwn,), frozen=True, kw_only=True, namespace=namespace
    )


def build_command(arguments: list[str]) -> type[Build]:
    """Return the command `build` with a subcommand for each kind of this package, and for the requested kind.

    Args:
        arguments: Command-line arguments. Subcommands are made only if the command is `build`, and a kind of another
            package is imported only if it is named.
    """
    if arguments[:1] != ["build"]:
        return Build
    by_kind = {name: parts.fields for name, parts in built_in().items() if parts.fields is not None}
    named = arguments[1] if len(arguments) > 1 else ""
    if named not in by_kind and (parts := own_kind(named)):
        by_kind[named] = parts.fields or own_fields(parts)
    commands = {**by_kind, NAMED: BuildNamed}
    kinds: Any = Union[tuple(Annotated[made, subcommand(name)] for name, made in commands.items())]  # noqa: UP007
    return make_dataclass(
        "Build",
        [("kind", kinds)],
        bases=(Build,),
        frozen=True,
        kw_only=True,
        namespace={"__doc__": Build.__doc__},
    )


NAMED = "named"


def name_subcommand(arguments: list[str]) -> list[str]:
    """Insert the subcommand `named` for `build NAME`."""
    if arguments[:1] != ["build"]:
        return arguments
    words = arguments[1:]
    kinds = [name for name, parts in built_in().items() if parts.fields is not None]
    if words and (words[0] in (*kinds, NAMED, "-h", "--help") or own_kind(words[0]) is not None):
        return arguments
    if not words or words[0].startswith("-"):
        command = " ".join(["trm-data build KIND", *words])
        raise UsageError(
            f"name first what to build: {command}; a kind ({', '.join(kinds)}) or a named dataset "
            "(trm-data build --help)"
        )
    from trm_data.named import named_dataset

    named_dataset(words[0])
    return ["build", NAMED, *words]


def run_fields(fields: BuildFields) -> int:
    """Build the requested dataset and print a summary."""
    layout = resolve_root(fields.root)
    if fields.dry_run:
        return _estimate(fields, layout)
    built = build_fields(fields, layout)
    emit(facts_of(built), partial(print_built, built), as_json=fields.json)
    return 0


def _estimate(fields: BuildFields, layout: Layout) -> int:
    from trm_data.building.estimate import estimate_build
    from trm_data.building.flow import check_shard_examples

    check_shard_examples(fields.shard_examples)
    estimate = estimate_build(fields.request(), layout)
    emit(asdict(estimate), partial(print_estimate, estimate), as_json=fields.json)
    return 0


def _print_named(*, as_json: bool) -> None:
    from trm_data.named import named_datasets
    from trm_data.show.render import print_table

    named = list(named_datasets().values())
    rows = [(dataset.name, dataset.digest[:12] or "-", dataset.about) for dataset in named]
    said = partial(print_table, ["named dataset", "digest", "what"], rows)
    emit(named, said, as_json=as_json)
