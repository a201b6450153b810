"""Shared by kinds of single grids: choosing from streams, and augmentation by the symmetries of the rectangle."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from trm_data.engine import Engine
from trm_data.kinds.base import Kind
from trm_data.kinds.candidates import Candidates
from trm_data.kinds.choosing import Chooser, Stream, chosen_groups
from trm_data.records import Augmentations, Groups, Selection
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource, Sources
from trm_data.specs import DatasetSpec, Split
from trm_data.symmetry.base import Augmenter
from trm_data.symmetry.dihedral import GridAugmenter, distinct_dihedral_ks, grid_elements


class StreamKind(Kind):
    """A kind of single grids whose puzzles are chosen from streams of candidates."""

    def open_stream(
        self, spec: DatasetSpec, source: LocalSource, *, chooser: Chooser, engine: Engine, cache: Path
    ) -> Stream:
        """Open the candidates of a source; a file is read whole."""
        raise NotImplementedError

    def augmentations(self, spec: DatasetSpec, chosen: Candidates, aug: int) -> Augmentations:
        """Return up to `aug` distinct augmentations of each puzzle besides the original."""
        raise NotImplementedError

    def chooser(self, spec: DatasetSpec, progress: Progress) -> Chooser:
        """Return the chooser. Default: all candidates fit."""
        return Chooser(spec, progress)

    def chosen_facts(self, chosen: Candidates) -> Mapping[str, Any]:
        """Return the catalog's columns for chosen puzzles. Default: those of the candidates."""
        return chosen.facts

    @override
    def select(
        self, spec: DatasetSpec, sources: Sources, *, engine: Engine, progress: Progress, cache: Path
    ) -> Selection:
        chooser = self.chooser(spec, progress)
        open_stream = partial(self.open_stream, spec, chooser=chooser, engine=engine, cache=cache)
        main = open_stream(sources.main)
        test = main if sources.test is None else open_stream(sources.test)

        def make_groups(split: Split, chosen: Candidates) -> Groups:
            stream, aug = (test, 0) if split == "test" else (main, spec.aug if split == "train" else 0)
            augmentations = self.augmentations(spec, chosen, aug)
            return chosen_groups(chosen, stream, augmentations, self.chosen_facts(chosen))

        return chooser.choose(main, test, make_groups)


class GridKind(StreamKind):
    """A kind with the symmetries of the rectangle; base class of mazes and users' tables."""

    def grid(self, spec: DatasetSpec) -> tuple[int, int]:
        """Return rows and columns."""
        raise NotImplementedError

    @override
    def augmentations(self, spec: DatasetSpec, chosen: Candidates, aug: int) -> Augmentations:
        if not aug:
            return Augmentations.regular(len(chosen), 0)
        keys = np.arange(len(chosen), dtype=np.int64)
        return Augmentations.of_lists(
            distinct_dihedral_ks(chosen.inputs, keys, spec.seed, *self.grid(spec), aug)
        )

    @override
    def augmenter(self, spec: DatasetSpec, split: Split, groups: Groups) -> Augmenter:
        return GridAugmenter(groups.inputs, groups.labels, groups.keys, spec.seed, *self.grid(spec))

    @override
    def elements(
        self, spec: DatasetSpec, groups: Groups, rows: NDArray[np.int64], ks: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return grid_elements(spec.seed, groups.keys, rows, ks, *self.grid(spec))

    @override
    def element_columns(self, elements: NDArray[np.int64]) -> dict[str, NDArray[np.int8]]:
        return {"dihedral": elements.astype(np.int8)}
