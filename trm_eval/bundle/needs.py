"""Which distributions predicting needs on another machine: those that run here, in their versions.

pip evaluates the markers of requirements for the Python that runs it, not for the one it fetches wheels for
(`--python-version` chooses wheels only). So requirements are followed here, and pip is asked for named versions
without theirs. What only the other machine needs, as the libraries of an accelerator, has no version yet: pip chooses
one within the bounds that are known, and says what it requires in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from trm_eval.bundle.target import Target
from trm_eval.errors import BundleError

PROJECT = "trm-lab"
LEFT_OUT = ("matplotlib", "wandb")
"""Required by this package and not by predicting: pictures, and the mirror of training."""


@dataclass(frozen=True)
class Wheel:
    """A wheel that an index has.

    Attributes:
        name: Of the distribution, normalized.
        version: Its version.
        url: Where it is.
        sha256: Of the file.
        requires: What it requires, with markers.
    """

    name: str
    version: str
    url: str
    sha256: str
    requires: tuple[str, ...]


def requirements(target: Target, extras: Sequence[str], known: Mapping[str, Wheel]) -> dict[str, str]:
    """A line for pip of every distribution that is needed, this package aside, by name.

    Args:
        target: The machine.
        extras: Extras of this package.
        known: Wheels that were found so far, by name.
    """
    bounds: dict[str, list[tuple[str, SpecifierSet]]] = {}
    waiting = [(PROJECT, extra) for extra in ("", *extras)]
    seen = set(waiting)
    while waiting:
        name, extra = waiting.pop()
        for text in _requires(name, known):
            requirement = Requirement(text)
            needed = canonicalize_name(requirement.name)
            if needed in LEFT_OUT or not _applies(requirement, target, extra):
                continue
            if needed != PROJECT:
                bounds.setdefault(needed, []).append((name, requirement.specifier))
            new = {(needed, more) for more in ("", *requirement.extras)} - seen
            seen |= new
            waiting += sorted(new)
    return {name: _line(name, bounds[name], known) for name in sorted(bounds)}


def _requires(name: str, known: Mapping[str, Wheel]) -> Sequence[str]:
    """What a distribution requires: as its wheel says, else as installed here; nothing where neither is there."""
    if name in known:
        return known[name].requires
    try:
        return distribution(name).requires or ()
    except PackageNotFoundError:
        return ()


def _applies(requirement: Requirement, target: Target, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({**target.markers, "extra": extra})


def _line(name: str, bounds: Sequence[tuple[str, SpecifierSet]], known: Mapping[str, Wheel]) -> str:
    """The version that was found, else the one that runs here, else the bounds."""
    try:
        version = known[name].version if name in known else distribution(name).version
    except PackageNotFoundError:
        return f"{name}{','.join(sorted({str(bound) for _, specifier in bounds for bound in specifier}))}"
    for who, specifier in bounds:
        if not specifier.contains(version, prereleases=True):
            raise BundleError(
                f"{name} {version} does not suit {who}, which requires {name}{specifier}: install versions that fit "
                "each other here, and bundle again"
            )
    return f"{name}=={version}"
