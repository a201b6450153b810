"""Builds a dataset from command-line fields, or from the same options in Python."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from trm_data.errors import LabError, SpecError, arguments_named
from trm_data.kinds.registry import find_kind, make_fields
from trm_data.named import NamedDataset
from trm_data.storage.root import Layout, Root, resolve_root

if TYPE_CHECKING:
    from trm_data.building.flow import BuildResult
    from trm_data.engine import Engine
    from trm_data.kinds.fields import BuildFields
    from trm_data.loader.dataset import Dataset

OF_NAMED = ("source", "test_source", "augment", "engine", "workers", "quiet")
"""Options that a user may set for a named dataset."""
ONLY_TYPED = ("dry_run", "json")
"""Options of the command only, which print something instead of or besides the build."""


@arguments_named()
def build_dataset(kind: str, /, *, root: Root | None = None, **options: object) -> Dataset:
    """Build a dataset, unless it is already built, and open its training split.

        train = trm_data.build_dataset("sudoku", size=500, aug=1000)
        test = trm_data.open_dataset(train.name, split="test")

    Args:
        kind: A kind (`sudoku`, `maze`, `arc`, `table`, or of another package), or a named dataset (`trm-data build
            named` lists them).
        root: Root folder, `gs://bucket/prefix`, a layout or a store; default: `$TRM_ROOT`, else `./trm`.
        **options: Options of `trm-data build KIND --help`, with `_` for `-`: `size=500, aug=1000, name="mine"`. The
            defaults are the same; those of a named dataset are in its file. `source` and `test_source` may also be
            puzzles in memory (`sources.memory`): a frame, an Arrow table, a dict of columns, a list of texts or
            objects, an array [N, S] or [N, R, C], which gives mazes their `grid`; for `arc` a dict of tasks. They give
            the content digest of a file with the same rows.

    Raises:
        SpecError: Unknown kind, dataset or option; invalid options; or another dataset has the name.
        SourceError: A source cannot be read.
        BadRowError: A row of a source is not a valid puzzle.
        BuildError: Writing failed, another build of the same name is running, or the rows do not match the digest that
            is recorded for the name.
    """
    from trm_data.loader.dataset import open_dataset

    if not isinstance(cast(object, kind), str):
        raise SpecError(f"build_dataset({kind!r}): unknown name (expected a kind or a named dataset)")
    with TemporaryDirectory() as folder:
        options = {name: _plain(value) for name, value in _from_memory(kind, options, Path(folder)).items()}
        try:
            result = _build(kind, options, resolve_root(root))
        except LabError as error:
            error.args = tuple(str(part).replace(f"{folder}/", "") for part in error.args)
            raise
    return open_dataset(result.manifest.name, resolve_root(root))


def _from_memory(kind: str, options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the options with puzzles in memory replaced by files of them."""
    found = dict(options)
    for name in ("source", "test_source"):
        if name not in options or isinstance(options[name], str | os.PathLike | None):
            continue
        from trm_data.sources.memory import NAME, grid_of, write_source

        (folder / name).mkdir()
        found[name] = write_source(options[name], folder / name, kind, options.get("columns") or "")
        if kind == "maze" and (grid := grid_of(options[name], options.get("columns") or "")):
            found.setdefault("grid", grid)
        found.pop("columns", None)
        if kind == "arc":
            found = {"subsets": NAME, "evaluation": NAME, **found}
    return found


def _build(kind: str, options: dict[str, Any], layout: Layout) -> BuildResult:
    from trm_data.named import named_dataset

    if typed := [option for option in options if option in ONLY_TYPED]:
        raise SpecError(f"build_dataset: {typed[0]} is an option of the command only")
    if find_kind(kind) is not None:
        return build_fields(_checked(make_fields(kind, options), options), layout)
    named = named_dataset(kind)
    if fixed := sorted(set(options) - set(OF_NAMED)):
        raise SpecError(
            f"{named.name}: {fixed[0]} is as its file says; there may be: {', '.join(OF_NAMED)} "
            f"(or build another dataset: build_dataset({named.kind!r}, ...))"
        )
    _checked(named_fields(named, options), options)
    return build_named(named, options, layout)


def _plain(value: object) -> object:
    """Convert a path to text and a NumPy number to a Python number, as a command line gives them."""
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    return (
        cast(Any, value).item() if hasattr(value, "dtype") and getattr(value, "shape", None) == () else value
    )


def _checked(fields: BuildFields, options: Mapping[str, object]) -> BuildFields:
    """Return the fields if each option has the right type; on a command line the parser checks that."""
    try:
        hints = get_type_hints(type(fields))
    except NameError:  # a kind of another package, with annotations for type checkers only
        return fields
    for name, value in options.items():
        if not _fits(value, hints[name]):
            raise SpecError(f"{name} = {reprlib.repr(value)}: expected {_said(hints[name])}")
    return fields


def _said(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_said, get_args(hint)))
    return "None" if hint is type(None) else getattr(hint, "__name__", str(hint))


def _fits(value: object, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)


def build_named(dataset: NamedDataset, changes: dict[str, object], layout: Layout) -> BuildResult:
    """Build a named dataset, and compare its rows with the recorded digest.

    Raises:
        BuildError: They differ from the rows of the research.
    """
    result = build_fields(named_fields(dataset, changes), layout)
    if changes.get("augment") != "virtual":  # the digest of a virtual dataset covers base puzzles only
        other = not {"source", "test_source"}.isdisjoint(changes)
        dataset.check_digest(result.manifest.content_digest, other_source=other)
    return result


def named_fields(dataset: NamedDataset, changes: dict[str, object]) -> BuildFields:
    """Return the build options of a named dataset, with the user's changes."""
    name = f"{dataset.name}-virtual" if changes.get("augment") == "virtual" else dataset.name
    return make_fields(dataset.kind, {**dataset.options, "name": name, **changes})


def build_fields(fields: BuildFields, layout: Layout) -> BuildResult:
    """Build the dataset that build options describe."""
    with closing(_engine(fields)) as engine:
        from trm_data.building.flow import build_dataset as build
        from trm_data.show.progress import terminal_progress

        request = fields.request()
        with terminal_progress(quiet=fields.quiet or fields.json) as progress:
            return build(
                request, layout, engine=engine, shard_examples=fields.shard_examples, progress=progress
            )


def _engine(fields: BuildFields) -> Engine:
    if fields.engine == "ray":
        from trm_data.engine.ray import RayEngine

        return RayEngine(fields.workers)
    from trm_data.engine.local import LocalEngine

    return LocalEngine(fields.workers)
