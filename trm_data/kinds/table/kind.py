"""The kind of users' own tables: grids of one size and any vocabulary, optionally with the grid's symmetries."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from trm_data.engine import Engine
from trm_data.errors import SpecError
from trm_data.kinds.base import BasePuzzles, CheckedPuzzles, Geometry, check_sizes, named_problems
from trm_data.kinds.choosing import (
    Candidates,
    Checked,
    Chooser,
    Stream,
)
from trm_data.kinds.grids import GridKind
from trm_data.kinds.table.options import TableOptions
from trm_data.kinds.table.source import TableRows, read_table
from trm_data.show.drawing import Drawing
from trm_data.sources.base import LocalSource
from trm_data.specs import DatasetSpec, Split
from trm_data.symmetry.dihedral import grid_dihedrals, source_cells

SYMBOLS = ".123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Symbols of PAD and of the tokens from 1, with letters from 10 on; later tokens are shown as `?`."""


def _options(spec: DatasetSpec) -> TableOptions:
    assert isinstance(spec.options, TableOptions)
    return spec.options


class TableKind(GridKind):
    """A user's own tables."""

    name = "table"
    about = "Puzzles from a table of grids."

    @override
    def check_spec(self, spec: DatasetSpec) -> None:
        options = _options(spec)
        if options.rows < 1 or options.columns < 1:
            raise SpecError(f"--grid {options.rows}x{options.columns}: at least 1x1")
        if not 2 <= options.vocabulary_size <= 256:
            raise SpecError(
                f"--vocabulary {options.vocabulary_size}: expected 2 to 256 tokens, PAD (0) included"
            )
        most = len(grid_dihedrals(options.rows, options.columns)) - 1 if options.dihedral else 0
        check_sizes(spec, most, "such a table" if options.dihedral else "a table without --dihedral")

    @override
    def geometry(self, spec: DatasetSpec) -> Geometry:
        options = _options(spec)
        return Geometry(
            grid_rows=options.rows, grid_columns=options.columns, vocabulary_size=options.vocabulary_size
        )

    @override
    def grid(self, spec: DatasetSpec) -> tuple[int, int]:
        return _options(spec).rows, _options(spec).columns

    @override
    def open_stream(
        self, spec: DatasetSpec, source: LocalSource, *, chooser: Chooser, engine: Engine, cache: Path
    ) -> Stream:
        options = _options(spec)
        read = read_table(source)
        rows = read[0]
        if rows.inputs.shape[1] != options.rows * options.columns:
            raise SpecError(
                f"{source.shown}: rows have {rows.inputs.shape[1]} cells, the grid is {options.rows}x{options.columns}"
            )
        largest = max(int(rows.inputs.max(initial=0)), int(rows.labels.max(initial=0)))
        if largest >= options.vocabulary_size:
            raise SpecError(
                f"{source.shown}: has token {largest}; the vocabulary has {options.vocabulary_size} (0 to "
                f"{options.vocabulary_size - 1})"
            )
        return chooser.file_stream(source, read, partial(_checked, options), engine)

    @override
    def check_puzzles(self, spec: DatasetSpec, split: Split, puzzles: BasePuzzles) -> CheckedPuzzles:
        options, first = _options(spec), puzzles.first_group
        beyond = (puzzles.inputs >= options.vocabulary_size).any(axis=1)
        beyond |= (puzzles.labels >= options.vocabulary_size).any(axis=1)
        wrong = first + np.flatnonzero(beyond)
        problems = named_problems(split, "group", wrong, "has a token beyond the vocabulary")
        wrong = first + np.flatnonzero(~puzzles.labels.any(axis=1))
        problems += named_problems(split, "group", wrong, "has no labels")
        hashes = grid_hashes(options, puzzles.inputs)
        classes = [(f"{split} group {first + group}", hash_) for group, hash_ in enumerate(hashes)]
        return CheckedPuzzles(problems, hashes, classes)

    @override
    def draw(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> Drawing:
        options = _options(spec)
        return draw_tokens(tokens.reshape(options.rows, options.columns))


PALETTE = (
    "#ffffff",
    "#dbeafe",
    "#fde68a",
    "#bbf7d0",
    "#fecaca",
    "#ddd6fe",
    "#fbcfe8",
    "#cffafe",
    "#e5e7eb",
)


def draw_tokens(grid: NDArray[np.uint8]) -> Drawing:
    """Return tokens [R, C] as a drawing with a symbol and a colour for each."""
    symbols = tuple(
        "".join(SYMBOLS[token] if token < len(SYMBOLS) else "?" for token in row) for row in grid.tolist()
    )
    return Drawing(symbols, (grid % len(PALETTE)).astype(np.uint8), PALETTE)


def grid_hashes(options: TableOptions, inputs: NDArray[np.uint8]) -> list[str]:
    """Return a hash of each input; images under the grid's symmetries have the same hash if they are augmentations."""
    ids = grid_dihedrals(options.rows, options.columns) if options.dihedral else (0,)
    images = [inputs[:, source_cells(d, options.rows, options.columns)] for d in ids]
    return [
        hashlib.blake2b(min(image[row].tobytes() for image in images), digest_size=16).hexdigest()
        for row in range(len(inputs))
    ]


def _checked(options: TableOptions, rows: TableRows) -> Checked:
    hashes = np.array(grid_hashes(options, rows.inputs), np.str_)
    ones = np.ones(len(rows), np.int64)
    return Candidates(rows.inputs, rows.labels, rows.lines, hashes, ones), []
