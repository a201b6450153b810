"""Registry of the kinds of puzzles: the folders of this package, entry points of others, and those of the user's file.

A kind of this package is a folder here whose module `options` has a `KindParts` as `PARTS`. An entry point names such
parts, or a class with the methods of `kinds.base.Kind`; then the class attributes `options_type`, `fields` and `warm`
are the other parts, if present. Only light modules are imported until a kind itself is needed.
"""

from __future__ import annotations

import dataclasses
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

import trm_data.kinds
from trm_data.errors import SpecError, no_such
from trm_data.extensions import add_extension, code_digest, extensions_of
from trm_data.kernel import kernel_folder
from trm_data.specs import DatasetSpec, Options, OwnOptions, SourceSpec

if TYPE_CHECKING:
    from trm_data.kinds.base import Kind
    from trm_data.kinds.fields import BuildFields
    from trm_data.sources.published import ImportedRows


ENTRY_POINTS = "trm_data.kinds"
"""Entry-point group in which other packages name their kinds."""
AKind = TypeVar("AKind")


@cache
def built_in() -> dict[str, KindParts]:
    """Return the kinds of this package by name."""
    folders = [module.name for module in pkgutil.iter_modules(trm_data.kinds.__path__) if module.ispkg]
    found = [import_module(f"trm_data.kinds.{folder}.options").PARTS for folder in folders]
    return {parts.name: parts for parts in cast(list[KindParts], found)}


def own_kind(name: str) -> KindParts | None:
    """Return the kind of another package or of the user's file; None if there is none."""
    entry = extensions_of(ENTRY_POINTS).get(name)
    if entry is None:
        return None
    try:
        given = entry.load()
    except (ImportError, AttributeError) as error:
        raise SpecError(f"kind {name!r}: {entry.value} cannot be imported ({error})") from error
    if isinstance(given, KindParts):
        return given
    return KindParts(
        name=name,
        implementation=given,
        options=getattr(given, "options_type", OwnOptions),
        fields=getattr(given, "fields", None),
        warm=getattr(given, "warm", ""),
    )


def add_kind(kind: type[AKind]) -> type[AKind]:
    """Add a kind of puzzle under its `name`; a decorator for a script, or for the file of `--experiments FILE.py`.

    Raises:
        SpecError: It has no name of its own.
    """
    name = getattr(kind, "name", "")
    if not name or name in built_in():
        raise SpecError(f"{kind.__qualname__}.name: expected a name of its own, got {name!r}")
    add_extension(ENTRY_POINTS, name, kind)
    return kind


def code_of(kind: str) -> str:
    """Return the sha256 of the source files of another package's kind; empty for kinds of this package."""
    parts = None if kind in built_in() else own_kind(kind)
    if parts is None:
        return ""
    given = parts.implementation
    return code_digest(given.partition(":")[0] if isinstance(given, str) else given.__module__)


def find_kind(name: str) -> KindParts | None:
    """Return the kind with this name; None if there is none."""
    return built_in().get(name) or own_kind(name)


def load_kind(name: str) -> Kind:
    """Return the implementation of a kind, which can choose, check and draw puzzles.

    Raises:
        SpecError: There is no such kind.
    """
    parts = find_kind(name)
    if parts is None:
        raise SpecError(_no_kind(name))
    if not isinstance(parts.implementation, str):
        return parts.implementation()
    module, _, name = parts.implementation.partition(":")
    return cast("Kind", getattr(import_module(module), name)())


def _no_kind(name: str) -> str:
    return no_such(
        f"no kind {name!r}",
        name,
        kind_names(),
        "an own one needs its package installed, or --experiments FILE.py",
    )


def warm_module(name: str) -> str:
    """Return the module that workers import to load a kind's kernels; empty if there is none."""
    parts = find_kind(name)
    return "" if parts is None else parts.warm


def is_compiled(kind: str) -> bool:
    """Return whether this machine has compiled a kind's kernels before; True for a kind without kernels."""
    parts = built_in().get(kind)
    return parts is None or not parts.warm or any(kernel_folder().glob(f"{kind}_*/*.nbi"))


def kind_names() -> list[str]:
    """Return every kind that can be built here; the kind of imported rows cannot be built."""
    others = sorted(extensions_of(ENTRY_POINTS))
    return [*(name for name, parts in built_in().items() if parts.fields is not None), *others]


def make_fields(kind: str, values: dict[str, object]) -> BuildFields:
    """Return the build fields of a kind from names and values, as in the file of a named dataset."""
    from trm_data.kinds.fields import BuildOwn

    parts = find_kind(kind)
    own = None if parts is None else parts.fields
    if own is None and (parts is None or kind in built_in()):
        raise SpecError(_no_kind(kind))
    fields = BuildOwn if own is None else own
    known = {field.name for field in dataclasses.fields(fields)} - {"kind"}
    for name in values:
        if name not in known:
            hint = f"trm-data build {kind} --help lists them"
            raise SpecError(no_such(f"a {kind} dataset has no option {name!r}", name, sorted(known), hint))
    given: dict[str, Any] = values if own is not None else {"kind": kind, **values}
    return fields(**given)


def options_of_shape(kind: str, rows: int, columns: int, vocabulary_size: int) -> Options:
    """Return options of a kind for imported rows of this grid and vocabulary."""
    parts = find_kind(kind)
    if parts is None:
        raise SpecError(_no_kind(kind))
    if parts.shape_options is None:
        shaped = ", ".join(name for name, parts in built_in().items() if parts.shape_options is not None)
        raise SpecError(f"--kind {kind}: its options do not follow from the rows' shape; expected {shaped}")
    return parts.shape_options(rows, columns, vocabulary_size)


def options_from_json(kind: str, value: dict[str, Any]) -> Options:
    """Return options of a kind from the JSON of a specification."""
    try:
        return _options_type(kind).from_json(value)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise SpecError(f"not options of the kind {kind}: {error}") from error


def spec_from_json(value: dict[str, Any]) -> DatasetSpec:
    """Return a specification from JSON, the inverse of `DatasetSpec.to_json`."""
    try:
        fields = dict(value)
        fields["source"] = SourceSpec(**fields["source"])
        test_source = fields.get("test_source")
        fields["test_source"] = None if test_source is None else SourceSpec(**test_source)
        fields["options"] = _options_type(fields["kind"]).from_json(fields["options"])
        return DatasetSpec(**fields)
    except (TypeError, KeyError, ValueError) as error:
        raise SpecError(f"not a dataset specification that this version knows: {error}") from error


def _options_type(kind: str) -> type[Options]:
    """Return the options class of a kind; for a kind that is not installed, options as text."""
    parts = find_kind(kind)
    return OwnOptions if parts is None else parts.options


@dataclass(frozen=True, kw_only=True)
class KindParts:
    """The parts of a kind of puzzle.

    Attributes:
        name: Name in specifications and manifests; never changes.
        implementation: The class with the methods of `kinds.base.Kind`, or `module:class` if it is in this package.
        options: Class of the options specific to this kind in a specification.
        fields: Its build fields; None if `--option` takes them as text.
        warm: Module whose function `warm` runs the kernels of every build once, before workers are forked. In
            this package its `PARTS` are compiled in parallel at the first build.
        shape_options: Returns options for imported rows with a grid of R x C cells and a number of tokens; None if the
            shape does not determine them. The rows are checked against them afterwards.
        form_of_rows: Completes these options from the rows themselves; None if the rows show nothing more.
    """

    name: str
    implementation: str | Callable[[], Kind]
    options: type[Options] = OwnOptions
    fields: type[BuildFields] | None = None
    warm: str = ""
    shape_options: Callable[[int, int, int], Options] | None = None
    form_of_rows: Callable[[Any, ImportedRows], Options] | None = None
