"""A dataset as a user asks for it: where its puzzles come from, how many, and what it is called."""

from __future__ import annotations

from dataclasses import dataclass

from trm_data.sources.base import SourceRef
from trm_data.specs import (
    ArcOptions,
    Augment,
    DatasetSpec,
    MazeOptions,
    OnBadRow,
    Options,
    SourceSpec,
    SudokuOptions,
)


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """What to build; the digests of its sources are not known yet."""

    kind: str = "sudoku"
    source: SourceRef
    test_source: SourceRef | None = None
    size: int | None = None
    aug: int = 0
    val_size: int = 0
    test_size: int | None = 0
    seed: int = 0
    on_bad_row: OnBadRow = "stop"
    augment: Augment = "stored"
    options: Options
    name: str | None = None

    def dataset_name(self) -> str:
        """The name given, or one that says kind, source, size and augmentation."""
        if self.name is not None:
            return self.name
        parts = [*_stem(self)]
        if self.size is not None:
            parts.append(str(self.size))
        parts += ["aug", str(self.aug)]
        if self.augment == "virtual":
            parts.append("virtual")
        return "-".join(parts)

    def spec(self, source: SourceSpec, test_source: SourceSpec | None) -> DatasetSpec:
        """The specification, now that the digests of the sources are known."""
        return DatasetSpec(
            kind=self.kind,
            source=source,
            test_source=test_source,
            size=self.size,
            aug=self.aug,
            val_size=self.val_size,
            test_size=self.test_size,
            seed=self.seed,
            on_bad_row=self.on_bad_row,
            augment=self.augment,
            options=self.options,
        )


def _stem(request: BuildRequest) -> list[str]:
    """Kind, shape and source."""
    options, source = request.options, request.source
    if isinstance(options, ArcOptions):
        concept = "concept" if "concept" in options.subsets else ""
        dropped = ["distinct"] if options.drop_duplicates else []
        return [f"arc{options.version}{concept}", *dropped]
    parts = [request.kind]
    if isinstance(options, SudokuOptions) and options.box != (3, 3):
        parts.append(f"{options.box_rows}x{options.box_columns}")
    if isinstance(options, MazeOptions):
        parts.append(f"{options.rows}x{options.columns}")
    if isinstance(options, SudokuOptions) and options.difficulty == "extreme":
        return [*parts, "generated", "extreme"]
    if source.kind == "generated":
        return [*parts, "generated"]
    if source.kind == "hf":
        return [*parts, "extreme" if request.kind == "sudoku" else "hard"]
    stem = source.stem.removeprefix(f"{request.kind}-")
    return [*parts, stem.removeprefix(f"{parts[-1]}-")]
