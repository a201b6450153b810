"""The named datasets of the research: a file each in `catalogs/datasets`, with specification and expected digest.

kind = "sudoku"
about = "what it is"
used_by = ["exp04a"]
digest = "content digest, or empty where it was not built by anyone yet"
[options]            # as `trm-data build KIND` takes them
size = 1000
"""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from trm_data.errors import BuildError, SpecError
from trm_data.kinds.registry import kind_names
from trm_data.specs import check_name

if TYPE_CHECKING:
    from trm_data.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class NamedDataset:
    """A dataset of the research."""

    name: str
    kind: str
    about: str
    used_by: tuple[str, ...]
    """Studies that use it."""
    digest: str
    """Content digest that its rows must have; empty if it is not recorded."""
    options: dict[str, object]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    def check_digest(self, manifest: Manifest, *, other_source: bool = False) -> None:
        """Compare what was built with what is recorded.

        Raises:
            BuildError: The rows are not those of the research.
        """
        if self.digest and manifest.content_digest != self.digest:
            source = " (it was built from another source than the recorded one)" if other_source else ""
            raise BuildError(
                f"{self.name}: the content digest is {manifest.content_digest}, recorded is {self.digest}: these are "
                f"not the rows of the research{source}; it stays under this name until you remove it"
            )


@cache
def named_datasets() -> dict[str, NamedDataset]:
    """All of them, by name."""
    found: dict[str, NamedDataset] = {}
    for file in sorted(files("catalogs").joinpath("datasets").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            name = check_name(file.name.removesuffix(".toml"))
            found[name] = _read(name, file.read_text("utf-8"))
    return found


def _read(name: str, text: str) -> NamedDataset:
    try:
        value = tomllib.loads(text)
        value["used_by"] = tuple(value["used_by"])
        return NamedDataset(name=name, **value)
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise SpecError(f"catalogs/datasets/{name}.toml: {error}") from error


def named_dataset(name: str) -> NamedDataset:
    """The dataset of that name.

    Raises:
        SpecError: There is none; the message names similar ones.
    """
    known = named_datasets()
    if name not in known:
        close = difflib.get_close_matches(name, [*known, *kind_names()], n=3)
        hint = f"; similar: {', '.join(close)}" if close else ""
        raise SpecError(
            f"no named dataset {name!r}{hint} (trm-data build named lists them; trm-data build --help the kinds)"
        )
    return known[name]


def datasets_of_study(study: str) -> list[NamedDataset]:
    """The datasets that a study uses, or all studies whose names begin so.

    Raises:
        SpecError: None does.
    """
    found = [
        dataset
        for dataset in named_datasets().values()
        if any(used_by.startswith(study) for used_by in dataset.used_by)
    ]
    if not study or not found:
        studies = sorted({used_by for dataset in named_datasets().values() for used_by in dataset.used_by})
        raise SpecError(f"--all-for {study}: no named dataset is for it; studies are {', '.join(studies)}")
    return found
