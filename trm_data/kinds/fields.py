"""Command-line fields of every `trm-data build`; kinds derive their own (`kinds/<kind>/options.py`).

This module is imported for `--help`, so it and the modules that derive from it have no heavy imports.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import override
from tyro.conf import Positional, arg

from trm_data.command import Json, Root
from trm_data.errors import SpecError
from trm_data.specs import Options, OwnOptions

if TYPE_CHECKING:
    from trm_data.sources.base import SourceRef
    from trm_data.specs import BuildRequest

LOG = logging.getLogger(__name__)
DEFAULT_SIZE = 1000
"""Training puzzles of a build that names no number, except from a file."""
NO_DEFAULT_SHOWN: dict[str, Any] = {"help_behavior_hint": ""}
"""Arguments of options whose help describes the default; tyro then shows no default."""


@dataclass(frozen=True, kw_only=True)
class BuildFields:
    """Fields of every kind of build."""

    seed: int = 0
    """Seed of all random choices."""
    augment: Literal["stored", "virtual"] = "stored"
    """stored writes every augmented row; virtual stores base puzzles only, and the loader computes the same rows."""
    name: Annotated[str | None, arg(metavar="NAME", **NO_DEFAULT_SHOWN)] = None
    """Name of the dataset (default: made from kind, source, size and augmentation)."""
    root: Root = None
    engine: Literal["local", "ray"] = "local"
    """local: all cores of this machine; ray: a Ray cluster (the extra `ray`). The content is the same."""
    workers: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Parallel tasks (default: number of cores). The content does not depend on it."""
    shard_examples: Annotated[int, arg(metavar="N")] = 131_072
    """Approximate number of examples in a shard."""
    dry_run: bool = False
    """Estimate the size; build nothing."""
    json: Json = False
    quiet: bool = False
    """No progress."""

    def request(self) -> BuildRequest:
        """Return the build request."""
        raise NotImplementedError

    def ask(self, **others: Any) -> BuildRequest:
        """Return the request for these fields, with `others` replacing some values."""
        from trm_data.specs import BuildRequest

        names = {field.name for field in fields(self)}.intersection(
            field.name for field in fields(BuildRequest)
        )
        return BuildRequest(**{name: getattr(self, name) for name in names} | others)


@dataclass(frozen=True, kw_only=True)
class PuzzleFields(BuildFields):
    """Fields of builds from single puzzles, whose splits are chosen by number."""

    size: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Training puzzles, before augmentation (default: 1000; all of a file that are not held out)."""
    aug: Annotated[int, arg(metavar="N")] = 0
    """Augmentations of each training puzzle besides the original."""
    val_size: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Validation puzzles (default: 200 generated ones; 0 for files)."""
    test_size: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Test puzzles (default: 1000 generated ones; 0 for files)."""
    source: Annotated[str, arg(metavar="SOURCE")] = "generated"
    """Source of the puzzles."""
    test_source: Annotated[str | None, arg(metavar="SOURCE", **NO_DEFAULT_SHOWN)] = None
    """Source of the test puzzles (default: --source)."""
    columns: Annotated[
        str | None, arg(metavar="question=NAME,answer=NAME,rating=NAME", **NO_DEFAULT_SHOWN)
    ] = None
    """Names of the columns in a file (default: question, puzzle, quizzes, quiz or maze; answer, solution or solutions;
    rating)."""
    symbols: Annotated[str | None, arg(metavar="CHARACTERS", **NO_DEFAULT_SHOWN)] = None
    """Characters of the cells in the source. Sudoku: the digits 1, 2, 3, ..., such as 0123456789ABCDEF. Maze: wall,
    free, start, goal and path, such as '#.SGo'."""
    on_bad_row: Literal["stop", "skip"] = "stop"
    """stop at an invalid row, or skip it and record it in the table `rejects`."""

    def make_request(
        self, kind: str, options: Options, allowed: tuple[str, ...], *, aug: int | None = None, hub: str = ""
    ) -> BuildRequest:
        """Return the request for these fields.

        Args:
            kind: Kind of the dataset.
            options: Options specific to this kind.
            allowed: Kinds of source allowed for it.
            aug: Number of augmentations, if it differs from the field.
            hub: Repository for the source `hf`; the hub's default if empty.
        """
        from trm_data.sources.base import FILES

        source, test_source = self.sources(allowed, hub)
        generated = source.kind == "generated"
        size, val_size, test_size = self.size, self.val_size, self.test_size
        if size is None and source.kind not in FILES:
            size = DEFAULT_SIZE
        if val_size is None:
            val_size = 200 if generated else 0
        if test_size is None:
            test_size = 1000 if generated or test_source is not None else 0
        if not generated and self.val_size is None and self.test_size is None and not test_size:
            from trm_data.errors import without_credentials

            LOG.warning(
                "--source %s: nothing is held out; --val-size N and --test-size N keep puzzles of it for validation "
                "and test",
                without_credentials(self.source),
            )
        return self.ask(
            kind=kind,
            source=source,
            test_source=test_source,
            size=size,
            aug=self.aug if aug is None else aug,
            val_size=val_size,
            test_size=test_size,
            options=options,
        )

    def sources(self, allowed: tuple[str, ...], hub: str = "") -> tuple[SourceRef, SourceRef | None]:
        """Return the source of the puzzles, and of the test puzzles if it differs."""
        from trm_data.errors import without_credentials
        from trm_data.sources.base import FILES, SourceRef, parse_source

        def parsed(text: str, option: str) -> SourceRef:
            source = parse_source(text, option, allowed, columns=self.columns or "")
            if source.kind in FILES:
                return replace(source, columns=self.columns or "", symbols=self.symbols or "")
            return SourceRef("hf", hub) if source.kind == "hf" and not source.path else source

        if self.columns is not None:
            from trm_data.sources.columns import parse_columns

            parse_columns(self.columns)
        source = parsed(self.source, "--source")
        for option, value in (("columns", self.columns), ("symbols", self.symbols)):
            if value is not None and source.kind not in FILES:
                raise SpecError(
                    f"--{option} {value}: only for files (got {without_credentials(self.source)})"
                )
        if self.test_source is not None:
            return source, parsed(self.test_source, "--test-source")
        return source, source if source.kind == "hf" else None


@dataclass(frozen=True, kw_only=True)
class BuildOwn(PuzzleFields):
    """Build a dataset of a kind that another package provides (docs/own-puzzles.md).

    For example:

      trm-data build nqueens --size 100 --aug 7 --val-size 20 --test-size 50 --option side=8
    """

    kind: Annotated[Positional[str], arg(metavar="KIND")]
    """Name of the kind: an entry point of the group trm_data.kinds."""
    option: Annotated[tuple[str, ...], arg(metavar="NAME=VALUE ...")] = ()
    """Options of the kind."""

    @override
    def request(self) -> BuildRequest:
        from trm_data.sources.base import FORMS

        values: list[tuple[str, str]] = []
        for text in self.option:
            name, separator, value = text.partition("=")
            if not (name and separator):
                raise SpecError(f"--option {text}: expected NAME=VALUE, such as side=8")
            values.append((name, value))
        return self.make_request(self.kind, OwnOptions(values=tuple(sorted(values))), tuple(FORMS))


def parse_shape(option: str, text: str, what: str) -> tuple[int, int]:
    """Parse two numbers from `RxC`."""
    rows, separator, columns = text.partition("x")
    numbers = text.isascii() and rows.isdecimal() and columns.isdecimal() and len(text) < 10
    if not (separator and numbers):
        raise SpecError(f"{option} {text}: {what}")
    return int(rows), int(columns)


def parse_range(option: str, text: str) -> tuple[float, float]:
    """Parse two shares from `LOW-HIGH`."""
    low, _, high = text.partition("-")
    try:
        return float(low), float(high)
    except ValueError:
        raise SpecError(f"{option} {text}: expected two shares, such as 0.3-0.5") from None
