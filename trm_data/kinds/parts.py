"""The parts of a kind, as the registry knows them: light ones at hand, heavy ones by name until they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trm_data.specs import Options, OwnOptions

if TYPE_CHECKING:
    from trm_data.kinds.base import Kind
    from trm_data.kinds.fields import BuildFields
    from trm_data.request import BuildRequest


def one_spelling(name: str) -> Sequence[str]:
    """No other spelling."""
    return ()


def no_more(options: Options) -> Mapping[str, float]:
    """No other kernels."""
    return {}


@dataclass(frozen=True, kw_only=True)
class KindParts:
    """A kind of puzzle.

    Attributes:
        name: As specifications and manifests say it; it never changes.
        implementation: The class with the methods of `kinds.base.Kind`, or `module:class` where it is in this package.
        options: What only this kind has in a specification.
        fields: Its command line, or `module:class` where it is in this package, so that workers do not import it; None
            where `trm-data build own` takes options as text.
        warm: Module that runs the kernels of every build once; workers are forked from a process that imported it.
        kernels: Modules of compiled functions that builds need, from `trm_data/`, as `solve/maze_kernels`, and about
            how many seconds each takes to compile; the module
            `warm`, and its function `compile_rest` if it has one, run them all; that is told which are missing.
        more_kernels: Gives those that are needed with some options alone.
        spellings: Gives the ways in which a name of its datasets is written, that of default names first; empty if
            there is one only, or the name is none of its own.
        shape_options: Gives the options of rows with a grid of R x C cells and so many tokens, for rows made
            elsewhere; None where the shape does not say them. Whether they fit is checked afterwards.
        import_request: Where its rows are imported: the request for a folder, under a name or its own, by the rules of
            a kind; None for kinds that are built.
    """

    name: str
    implementation: str | Callable[[], Kind]
    options: type[Options] = OwnOptions
    fields: type[BuildFields] | str | None = None
    warm: str = ""
    kernels: Mapping[str, float] = field(default_factory=dict[str, float])
    more_kernels: Callable[[Any], Mapping[str, float]] = no_more
    spellings: Callable[[str], Sequence[str]] = one_spelling
    shape_options: Callable[[int, int, int], Options] | None = None
    import_request: Callable[[str, str | None, str | None], BuildRequest] | None = None
