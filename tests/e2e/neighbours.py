"""A kind of puzzle written like those of the package: some cells are marked; the label counts marked neighbours."""

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from tyro.conf import arg

from trm_data.errors import SpecError
from trm_data.kinds.base import CheckedPuzzles, Geometry, Scores, check_sizes, named_problems
from trm_data.kinds.candidates import Candidates
from trm_data.kinds.choosing import GeneratedStream
from trm_data.kinds.fields import PuzzleFields
from trm_data.kinds.grids import GridKind
from trm_data.seeds.draws import WordStream
from trm_data.show.drawing import Drawing
from trm_data.specs import Options
from trm_data.symmetry.dihedral import Dihedral


@dataclass(frozen=True, kw_only=True)
class NeighboursOptions(Options):
    """Side of the grid."""

    side: int = 5

    def shape_words(self):
        return [f"side{self.side}"]

    def choice_words(self):
        return [] if self.side < 8 else ["large"]

    def arguments(self, spec):
        return [f"--side {self.side}"]


@dataclass(frozen=True, kw_only=True)
class BuildNeighbours(PuzzleFields):
    """Build grids whose marked neighbours are counted."""

    side: Annotated[int, arg(metavar="N")] = 5
    """Rows and columns."""

    def request(self):
        return self.make_request("neighbours", NeighboursOptions(side=self.side), ("generated",))


class Neighbours(GridKind):
    """All parts of a kind in one class."""

    name = "neighbours"
    about = "Grids with marked cells; the label counts the marked neighbours."
    citation = "Nobody"
    options_type = NeighboursOptions
    fields = BuildNeighbours
    warm = "neighbours_warm"

    def check_spec(self, spec):
        if not 2 <= spec.options.side <= 9:
            raise SpecError(f"--side {spec.options.side}: 2 to 9")
        check_sizes(spec, 7, "a grid")

    def geometry(self, spec):
        return Geometry(grid_rows=spec.options.side, grid_columns=spec.options.side, vocabulary_size=6)

    def grid(self, spec):
        return spec.options.side, spec.options.side

    def open_stream(self, spec, source, *, chooser, engine, cache):
        return GeneratedStream(partial(generated, spec), engine)

    def check_puzzles(self, spec, split, puzzles):
        wrong = np.flatnonzero((counted(puzzles.inputs, spec.options.side) != puzzles.labels).any(axis=1))
        problems = named_problems(split, "group", puzzles.first_group + wrong, "its label counts wrongly")
        return CheckedPuzzles(problems, hashes(puzzles.inputs, spec.options.side).tolist())

    def draw(self, tokens, spec):
        side = spec.options.side
        lines = tuple("".join("?.#234"[token] for token in row) for row in tokens.reshape(side, side))
        return Drawing(lines, np.zeros((side, side), np.uint8), ("#ffffff",))

    def score(self, spec, inputs, labels, predictions):
        counts = (predictions >= 1) & (predictions <= 5)
        right = (counted(inputs, spec.options.side) == predictions).all(axis=1)
        return Scores(valid=counts.all(axis=1), optimal=right)

    def expected_rows(self, spec):
        return {**super().expected_rows(spec), "train": 1e6}

    def test_puzzles(self, facts, originals):
        return {f"grid {i}": inputs.tolist() for i, (inputs, _) in enumerate(originals)}


def generated(spec, stream, bounds):
    side = spec.options.side
    draws = [WordStream(spec.seed, 1 << 40, number, stream) for number in range(*bounds)]
    inputs = np.array([[1 + words.bounded(2) for _ in range(side * side)] for words in draws], np.uint8)
    ones = np.ones(len(inputs), np.int64)
    return Candidates(
        inputs, counted(inputs, side), np.arange(*bounds), hashes(inputs, side), ones, {"clues": ones}
    )


def counted(inputs, side):
    marked = np.pad(inputs.reshape(-1, side, side) == 2, ((0, 0), (1, 1), (1, 1))).astype(np.uint8)
    around = marked[:, :-2, 1:-1] + marked[:, 2:, 1:-1] + marked[:, 1:-1, :-2] + marked[:, 1:-1, 2:]
    return (1 + around).reshape(len(inputs), -1).astype(np.uint8)


def hashes(inputs, side):
    grids = inputs.reshape(-1, side, side)
    forms = [min(Dihedral(d).apply(grid).tobytes() for d in range(8)) for grid in grids]
    return np.array([hashlib.sha256(form).hexdigest()[:32] for form in forms], np.str_)
