"""Generate mazes whose shortest path is long.

Input: seed, stream, a range of maze numbers, size, minimum path, range of wall shares. Output: inputs
uint8 [N, S] as tokens, without labels (`kinds.maze.solve` makes them).
Neighbours: `kinds.maze.generate_kernels` has the algorithm; the build divides a range among processes, which share no
state.

What is drawn: a number of walls, uniformly between two shares of the cells; that many walls, uniformly; a
start and a goal, uniformly among the ordered pairs of free cells; all of it again until the shortest path has
at least `min_path` steps. Maze i depends only on (seed, stream, i) and the options.

How: of 30x30 mazes one in 50,000 would pass, so the pair is not drawn blindly. A layout is accepted with
probability min(1, scale * share of its pairs that are long), then one of its long pairs is drawn uniformly.
The distribution is the same as long as scale * share stays below 1. Acceptance is drawn before the pairs are
counted. So an upper bound of the count (the distance of two cells is at most that through a central cell) rejects
nearly all layouts after one search; the remaining ones are counted exactly.

If scale * share exceeds 1, a layout occurs too rarely, by that factor. `choose_scale` therefore keeps a
margin. At 30x30 and 109 steps the limit is a share of 1/6: of 2,000 mazes half come from layouts with a share
above 0.011, 1 in 100 above 0.072, 1 in 1,000 above 0.105, none above 0.124. By extrapolation, 1 in 10,000 is
beyond the limit, mostly by little: about 1e-5 of the distribution is missing.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import SpecError
from trm_data.kinds.maze.options import longest_unique_path, usual_min_path
from trm_data.kinds.maze.source import check_maze_size
from trm_data.seeds.draws import check_word

MOST_LAYOUTS = 4_000_000
"""Maximum number of layouts tried for one maze before an error; published options need at most a few thousand."""

_PILOT_LAYOUTS = 100_000
_PILOT_STREAM = (1 << 64) - 1
_MARGIN = 2
_LARGEST_SCALE = 20


def wall_range(rows: int, columns: int, wall_low: float, wall_high: float) -> tuple[int, int]:
    """Return the minimum and maximum number of walls: 270 and 450 for 30x30 and shares 0.3 to 0.5."""
    if not 0 <= wall_low <= wall_high < 1:
        raise SpecError(f"wall shares: got {wall_low} to {wall_high}; expected 0 <= low <= high < 1")
    cells = rows * columns
    low, high = math.ceil(round(wall_low * cells, 6)), math.floor(round(wall_high * cells, 6))
    if low > high or cells - high < 2:
        raise SpecError(
            f"wall shares: got {wall_low} to {wall_high}, which for {rows}x{columns} cells is {low} to {high} "
            "walls; expected a range with a whole number in it that leaves two cells free"
        )
    return low, high


@functools.lru_cache(maxsize=64)
def choose_scale(rows: int, columns: int, min_path: int, low: int, high: int) -> int:
    """Return the scale of the generator: a layout is accepted with probability scale times its share of long pairs.

    A pilot run finds the largest share among 100,000 layouts, which depend on the options but not on the seed. Twice
    that share, at least 1/20 and at most 1, is assumed to exceed all shares that matter.
    """
    from trm_data.kinds.maze import generate_kernels as maze_kernels  # imports numba

    largest = _MARGIN * maze_kernels.find_largest_share(
        maze_kernels.empty_boards(rows, columns),
        np.uint64(0),
        np.uint64(_PILOT_STREAM),
        _PILOT_LAYOUTS,
        rows,
        columns,
        min_path,
        low,
        high,
        0.5 / _MARGIN,
    )
    return _LARGEST_SCALE if largest * _LARGEST_SCALE <= 1 else max(1, math.floor(1 / largest))


def generate_mazes(
    seed: int,
    stream: int,
    start: int,
    count: int,
    rows: int,
    columns: int,
    min_path: int,
    wall_low: float,
    wall_high: float,
) -> NDArray[np.uint8]:
    """Return the inputs with numbers `start` to `start + count - 1`, uint8 [count, S].

    Args:
        seed: Unsigned 64-bit.
        stream: Separates series with the same seed, such as training and test.
        start: First maze number.
        count: N.
        rows: 3 to 64.
        columns: 3 to 64.
        min_path: Minimum number of steps from S to G.
        wall_low: Minimum share of wall cells.
        wall_high: Maximum share of wall cells.
    """
    mazes, _ = _generate(seed, stream, start, count, rows, columns, min_path, wall_low, wall_high)
    return mazes


def generate_unique_mazes(
    seed: int,
    stream: int,
    start: int,
    count: int,
    rows: int,
    columns: int,
    min_path: int,
) -> NDArray[np.uint8]:
    """Return the perfect mazes with numbers `start` to `start + count - 1`, uint8 [count, S].

    Rooms are at every second row and column, from 0, or from a drawn 0 or 1 if the side is even. The passages between
    them are a uniformly drawn spanning tree, so exactly one path joins any two free cells. Trees are drawn until one
    has a path of at least `min_path` steps; S and G are drawn uniformly among its pairs that far apart.
    """
    from trm_data.kinds.maze import kernels

    check_maze_size(rows, columns)
    longest = longest_unique_path(rows, columns)
    if not 1 <= min_path <= longest:
        raise SpecError(
            f"least path: got {min_path} steps; expected 1 to {longest} in a perfect maze of {rows}x{columns} cells"
        )
    mazes = np.empty((count, rows * columns), np.uint8)
    written = kernels.generate_trees(
        np.uint64(check_word("seed", seed)),
        np.uint64(check_word("stream", stream)),
        start,
        rows,
        columns,
        min_path,
        MOST_LAYOUTS,
        mazes,
    )
    if written < count:
        raise SpecError(
            f"no perfect maze of {rows}x{columns} cells with a path of at least {min_path} steps among "
            f"{MOST_LAYOUTS:,} random trees: Choose a shorter path"
        )
    return mazes


def _generate(
    seed: int,
    stream: int,
    start: int,
    count: int,
    rows: int,
    columns: int,
    min_path: int,
    wall_low: float,
    wall_high: float,
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Return the result of `generate_mazes`, and for each layout the share of its pairs that are long."""
    from trm_data.kinds.maze import generate_kernels as maze_kernels  # imports numba

    check_maze_size(rows, columns)
    low, high = wall_range(rows, columns, wall_low, wall_high)
    if not 1 <= min_path < rows * columns - low:
        raise SpecError(
            f"least path: got {min_path} steps; expected 1 to {rows * columns - low - 1} in a maze of "
            f"{rows}x{columns} cells with at least {low} walls"
        )
    if count < 0 or start < 0 or start + count > 1 << 62:
        raise ValueError(f"start, count: got {start}, {count}; expected numbers from 0 to 2**62")
    mazes = np.empty((count, rows * columns), np.uint8)
    shares = np.empty(count, np.float64)
    if count == 0:
        return mazes, shares
    written = maze_kernels.generate_many(
        maze_kernels.empty_boards(rows, columns),
        np.uint64(check_word("seed", seed)),
        np.uint64(check_word("stream", stream)),
        start,
        rows,
        columns,
        min_path,
        low,
        high,
        choose_scale(rows, columns, min_path, low, high),
        MOST_LAYOUTS,
        mazes,
        shares,
    )
    if written < count:
        raise SpecError(
            f"no maze of {rows}x{columns} cells with {low} to {high} walls and a path of at least {min_path} "
            f"steps among {MOST_LAYOUTS:,} random layouts: Choose a shorter path (default at this size: "
            f"{usual_min_path(rows, columns, unique=False)}) or another range of walls"
        )
    return mazes, shares
