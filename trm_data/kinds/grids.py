"""Shared by kinds of single grids: choosing from streams, and augmentation by the symmetries of the rectangle."""

from __future__ import annotations

from functools import partial
from pathlib import Path

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


class GridKind(Kind):
    """A kind whose puzzles are single grids; base class of mazes and users' tables."""

    def grid(self, spec: DatasetSpec) -> tuple[int, int]:
        """Return rows and columns."""
        raise NotImplementedError

    def open_stream(
        self, spec: DatasetSpec, source: LocalSource, *, chooser: Chooser, engine: Engine, cache: Path
    ) -> Stream:
        """Open the candidates of a source; a file is read whole."""
        raise NotImplementedError

    @override
    def select(
        self, spec: DatasetSpec, sources: Sources, *, engine: Engine, progress: Progress, cache: Path
    ) -> Selection:
        chooser = Chooser(spec, progress)
        open_stream = partial(self.open_stream, spec, chooser=chooser, engine=engine, cache=cache)
        main = open_stream(sources.main)
        test = main if sources.test is None else open_stream(sources.test)

        def make_groups(split: Split, chosen: Candidates) -> Groups:
            aug = spec.aug if split == "train" else 0
            augmentations = Augmentations.regular(len(chosen), 0)
            if aug:
                keys = np.arange(len(chosen), dtype=np.int64)
                lists = distinct_dihedral_ks(chosen.inputs, keys, spec.seed, *self.grid(spec), aug)
                augmentations = Augmentations.of_lists(lists)
            stream = test if split == "test" else main
            return chosen_groups(chosen, stream, augmentations, chosen.facts)

        return chooser.choose(main, test, make_groups)

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
