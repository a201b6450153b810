"""N-queens as a kind of puzzle: some queens are given, the others have one place left each."""

import numpy as np

from trm_data.errors import SpecError
from trm_data.kinds.own import OwnKind
from trm_data.symmetry.dihedral import Dihedral

EMPTY, QUEEN = 1, 2


class NQueens(OwnKind):
    """Place the missing queens so that none attacks another."""

    name = "nqueens"
    symmetries = 8
    option_names = ("side",)

    def shape(self, options):
        side = int(options.get("side", "8"))
        if not 4 <= side <= 12:
            raise SpecError(f"--option side={side}: 4 to 12")
        return side, side, 3

    def generate(self, options, draws):
        side = self.shape(options)[0]
        columns = complete([None] * side, 1, draws)[0]  # a random one
        given = list(columns)
        for row in shuffled(range(side), draws):
            kept, given[row] = given[row], None
            if len(complete(given, 2)) > 1:
                given[row] = kept
        return board(given, side), board(columns, side)

    def right(self, options, puzzle, label):
        side = self.shape(options)[0]
        given = [int(row.argmax()) if QUEEN in row else None for row in puzzle.reshape(side, side)]
        found = complete(given, 2)
        return len(found) == 1 and bool((board(found[0], side) == label).all())

    def image(self, options, grid, element):
        side = self.shape(options)[0]
        return Dihedral(element).apply(grid.reshape(side, side)).reshape(-1)

    def symbols(self, options):
        return " .Q"


def complete(given, limit, draws=None):
    """Up to `limit` ways to give every row a column, no two queens attacking each other."""
    found = []

    def place(row, columns):
        if row == len(given):
            return found.append(columns)
        order = range(len(given)) if draws is None else shuffled(range(len(given)), draws)
        for column in order if given[row] is None else [given[row]]:
            safe = all(column != c and abs(column - c) != row - r for r, c in enumerate(columns))
            if safe and len(found) < limit:
                place(row + 1, [*columns, column])

    place(0, [])
    return found


def shuffled(values, draws):
    order = list(values)
    for last in range(len(order) - 1, 0, -1):
        other = draws.bounded(last + 1)
        order[last], order[other] = order[other], order[last]
    return order


def board(columns, side):
    grid = np.full((side, side), EMPTY, np.uint8)
    for row, column in enumerate(columns):
        if column is not None:
            grid[row, column] = QUEEN
    return grid.reshape(-1)
