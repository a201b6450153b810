"""What every `trm-data build` has: options, and how a request becomes a dataset or an estimate."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from tyro.conf import arg

from trm_data.command import Root
from trm_data.commands.built import print_built, print_estimate
from trm_data.commands.common import Json
from trm_data.errors import SpecError
from trm_data.storage.root import Layout, resolve_root

if TYPE_CHECKING:
    from trm_data.build.flow import BuildResult
    from trm_data.engine.base import Engine
    from trm_data.request import BuildRequest
    from trm_data.sources.base import SourceRef

NO_DEFAULT_SHOWN: dict[str, Any] = {"help_behavior_hint": ""}
"""For options whose default needs words: tyro adds none."""


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """What every kind of build has."""

    kind_name: ClassVar[str] = ""
    """The kind that is built, where the class says it."""

    seed: int = 0
    """Everything random depends on it."""
    augment: Literal["stored", "virtual"] = "stored"
    """stored writes every augmented row; virtual stores base puzzles only, and the loader computes the same rows."""
    name: Annotated[str | None, arg(metavar="NAME", **NO_DEFAULT_SHOWN)] = None
    """Name of the dataset (default: says kind, source, size and augmentation)."""
    root: Root = None
    engine: Literal["local", "ray"] = "local"
    """local: all cores of this machine; ray: a Ray cluster (the extra `ray`). The content is the same."""
    workers: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
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
            print_estimate(self.request(), layout, as_json=self.json)
            return 0
        print_built(self.build(layout), as_json=self.json)
        return 0

    def build(self, layout: Layout) -> BuildResult:
        """Build it."""
        with closing(self._engine()) as engine:
            from trm_data.build.flow import build_dataset
            from trm_data.show.progress import terminal_progress

            request = self.request()
            with terminal_progress(quiet=self.quiet or self.json) as progress:
                return build_dataset(
                    request, layout, engine=engine, shard_examples=self.shard_examples, progress=progress
                )

    def _engine(self) -> Engine:
        """What runs the tasks; local workers get ready while this process reads its sources."""
        if self.engine == "ray":
            from trm_data.engine.ray import RayEngine

            return RayEngine(self.workers)
        from trm_data.engine.local import LocalEngine

        engine = LocalEngine(self.workers)
        if self.kind_name:
            engine.prepare(self.kind_name)
        return engine


@dataclass(frozen=True, kw_only=True)
class PuzzleOptions(BuildOptions):
    """What builds of single puzzles have, whose splits are chosen by number."""

    generated_test_size: ClassVar[int] = 1000
    generated_val_size: ClassVar[int] = 200

    size: Annotated[int, arg(metavar="N")] = 1000
    """Training puzzles, before augmentation."""
    aug: Annotated[int, arg(metavar="N")] = 0
    """Augmentations of each training puzzle besides the original."""
    val_size: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Validation puzzles (default: 200 generated ones; 0 for files)."""
    test_size: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Test puzzles (default: 1000 generated ones; 0 for files)."""
    source: Annotated[str, arg(metavar="SOURCE")] = "generated"
    """Where puzzles come from."""
    test_source: Annotated[str | None, arg(metavar="SOURCE", **NO_DEFAULT_SHOWN)] = None
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


def parse_shape(option: str, text: str, what: str) -> tuple[int, int]:
    """Two numbers from `RxC`.

    Raises:
        SpecError: Another form.
    """
    rows, separator, columns = text.partition("x")
    numbers = text.isascii() and rows.isdecimal() and columns.isdecimal() and len(text) < 10
    if not (separator and numbers):
        raise SpecError(f"{option} {text}: {what}")
    return int(rows), int(columns)


def parse_range(option: str, text: str) -> tuple[float, float]:
    """Two shares from `LOW-HIGH`.

    Raises:
        SpecError: Another form.
    """
    low, _, high = text.partition("-")
    try:
        return float(low), float(high)
    except ValueError:
        raise SpecError(f"{option} {text}: two shares, like 0.3-0.5") from None


def parse_bins(text: str | None) -> tuple[float, ...]:
    """Numbers from `R,R,...`; none from None.

    Raises:
        SpecError: Another form.
    """
    if text is None:
        return ()
    try:
        return tuple(float(low) for low in text.split(","))
    except ValueError:
        raise SpecError(f"--rating-bins {text}: numbers with commas, like 0,1,10,50") from None
