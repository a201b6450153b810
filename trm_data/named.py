"""The named datasets of the research, one file each in `catalogs/datasets`, and the alternative names of a dataset.

kind = "sudoku"
about = "what it is"
digest = "content digest, or empty if nobody has built it yet"
aliases = ["former names"]
[options]            # as `trm-data build KIND` takes them
size = 1000

A file has the default name that a build would give the dataset (docs/decisions/0016-names-of-datasets.md).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from trm_data.errors import BuildError, SpecError, no_such
from trm_data.kinds.registry import kind_names, make_fields
from trm_data.specs import DatasetSpec, check_name

if TYPE_CHECKING:
    from trm_data.specs import BuildRequest

_VIRTUAL = "-virtual"


@dataclass(frozen=True, kw_only=True)
class NamedDataset:
    """A dataset of the research."""

    name: str
    kind: str
    about: str
    digest: str
    """Required content digest of the rows; empty if none is recorded."""
    aliases: tuple[str, ...] = ()
    """Former names, and names in the study."""
    options: dict[str, object]

    def request(self) -> BuildRequest:
        """Return the request to build it."""
        return make_fields(self.kind, {**self.options, "name": self.name}).request()

    def check_digest(self, content_digest: str, *, other_source: bool = False) -> None:
        """Compare a built dataset's digest with the recorded one."""
        if self.digest and content_digest != self.digest:
            source = " (it was built from another source than the recorded one)" if other_source else ""
            raise BuildError(
                f"{self.name}: the content digest is {content_digest}, recorded is {self.digest}: these rows differ "
                f"from the recorded ones{source}. The dataset stays under this name until you remove it"
            )


@cache
def named_datasets() -> dict[str, NamedDataset]:
    """Return all named datasets, by name."""
    found: dict[str, NamedDataset] = {}
    for file in sorted(files("catalogs").joinpath("datasets").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            name = check_name(file.name.removesuffix(".toml"))
            found[name] = _read(name, file.read_text("utf-8"))
    return found


def _read(name: str, text: str) -> NamedDataset:
    try:
        value = tomllib.loads(text)
        value["aliases"] = tuple(map(check_name, value.get("aliases", ())))
        return NamedDataset(name=name, **value)
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise SpecError(f"catalogs/datasets/{name}.toml: {error}") from error


def named_dataset(name: str) -> NamedDataset:
    """Return the dataset with this name or alias.

    Raises:
        SpecError: There is no such dataset; the message names the closest dataset or kind.
    """
    known = named_datasets()
    for spelling in names_of(name):
        if spelling in known:
            return known[spelling]
    aliases = [alias for dataset in known.values() for alias in dataset.aliases]
    hint = "trm-data build --help lists kinds, trm-data build named datasets"
    raise SpecError(
        no_such(f"no kind or named dataset {name!r}", name, [*kind_names(), *known, *aliases], hint)
    )


def first_name(name: str) -> str:
    """Return the name of a named dataset in `catalogs/datasets`; other names are returned unchanged."""
    known = named_datasets()
    return next((spelling for spelling in names_of(name) if spelling in known), name)


@lru_cache(1_000)
def names_of(name: str) -> tuple[str, ...]:
    """Return every name of the same dataset: the given one, then the others of a named dataset, its file's first."""
    stem = name.removesuffix(_VIRTUAL)
    for dataset in named_datasets().values():
        if stem in (every := (dataset.name, *dataset.aliases)):
            others = (f"{other}{name[len(stem) :]}" for other in every if other != stem)
            return (name, *others)
    return (name,)


def is_meant(name: str, spec: DatasetSpec) -> bool:
    """Return whether a dataset that exists under another name is the one which this name means.

    Default names omit the sizes of validation and test; for the name of a named dataset, they must also match.
    """
    try:
        request = replace(named_dataset(name.removesuffix(_VIRTUAL)).request(), augment=spec.augment)
    except SpecError:
        return True
    return spec == request.spec(spec.source, spec.test_source)
