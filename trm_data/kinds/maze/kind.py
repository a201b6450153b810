"""The Maze kind: limits of its specification, choice of mazes, and the check of base mazes.

Mazes are compared by layout, ignoring S and G: no two layouts of a dataset are equal under the grid's symmetries.

A symmetry moves the maze; the path is then searched again by the published rule, which always looks in the order
down, left, right, up. Moving the label instead gives the rule's label of the moved maze for only 13% of the images
(docs/decisions/0045-labels-of-moved-mazes.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from trm_data.encode import MAZE_FREE, MAZE_GOAL, MAZE_PATH, MAZE_START, MAZE_VOCABULARY_SIZE, MAZE_WALL
from trm_data.engine import Engine
from trm_data.errors import SpecError
from trm_data.kinds.base import (
    Answer,
    BasePuzzles,
    CheckedPuzzles,
    Geometry,
    Scores,
    check_sizes,
    named_problems,
)
from trm_data.kinds.candidates import Candidates, cache_folder
from trm_data.kinds.choosing import (
    Checked,
    Chooser,
    GeneratedStream,
    Stream,
)
from trm_data.kinds.grids import GridKind
from trm_data.kinds.maze.generate import (
    generate_mazes,
    generate_unique_mazes,
    wall_range,
)
from trm_data.kinds.maze.options import MazeOptions, longest_unique_path
from trm_data.kinds.maze.solve import count_shortest_paths, label_mazes, marked_steps, path_problems
from trm_data.kinds.maze.source import check_inputs, check_maze_size, check_tokens, decode_maze, read_mazes
from trm_data.records import Groups, Reject
from trm_data.show.drawing import Drawing
from trm_data.sources.base import LocalSource
from trm_data.sources.rows import StatedRows
from trm_data.specs import DatasetSpec, Split
from trm_data.symmetry.base import Augmenter, Indices, Made, Tokens
from trm_data.symmetry.dihedral import grid_dihedrals, source_cells


class Relabelled:
    """The rows of another augmenter, each labelled by the published rule.

    Args:
        moved: Augmenter that makes the rows.
        rows: Rows of the grid.
        columns: Columns of the grid.
    """

    def __init__(self, moved: Augmenter, rows: int, columns: int) -> None:
        self._moved, self._shape = moved, (rows, columns)

    def fill(self, groups: Indices, ks: Indices, examples: Indices, inputs: Tokens, labels: Tokens) -> Made:
        """Write one row for each slot."""
        made = self._moved.fill(groups, ks, examples, inputs, labels)
        labels[:] = label_mazes(inputs, *self._shape).labels
        return made


PALETTE = ("#ffffff", "#1f2937", "#16a34a", "#dc2626", "#60a5fa")
"""Colours of free cells, walls, start, goal and path."""
ANOTHER_PATH = (
    "the label is another shortest path than the published rule gives (down, left, right, up; expected with --labels "
    "rule). --labels moved keeps it and moves it with its maze"
)
_SYMBOLS = "?# SGo"
_COLOURS = np.array([0, 1, 0, 2, 3, 4], np.uint8)


def _options(spec: DatasetSpec) -> MazeOptions:
    assert isinstance(spec.options, MazeOptions)
    return spec.options


class MazeKind(GridKind):
    """The Maze kind."""

    name = "maze"
    about = "Mazes with a long shortest path from S to G, which the label marks."
    citation = "Maze-Hard: Wang et al., Hierarchical Reasoning Model, arXiv 2506.21734"
    stored_share = 0.25

    @override
    def check_spec(self, spec: DatasetSpec) -> None:
        options = _options(spec)
        try:
            check_maze_size(options.rows, options.columns)
        except ValueError as error:
            raise SpecError(f"--grid {options.rows}x{options.columns}: {error}") from error
        most = len(grid_dihedrals(options.rows, options.columns)) - 1
        check_sizes(spec, most, f"a {options.rows}x{options.columns} maze")
        if spec.source.kind == "generated" and options.unique:
            longest = longest_unique_path(options.rows, options.columns)
            if not 1 <= options.min_path <= longest:
                raise SpecError(
                    f"--min-path {options.min_path}: expected 1 to {longest} steps in a perfect maze of {options.rows}x"
                    f"{options.columns} cells"
                )
        elif spec.source.kind == "generated":
            low, _ = wall_range(options.rows, options.columns, options.wall_low, options.wall_high)
            longest = options.rows * options.columns - low - 1
            if not 1 <= options.min_path <= longest:
                raise SpecError(
                    f"--min-path {options.min_path}: expected 1 to {longest} steps in {options.rows}x{options.columns} "
                    f"cells with at least {low} walls"
                )

    @override
    def geometry(self, spec: DatasetSpec) -> Geometry:
        options = _options(spec)
        return Geometry(
            grid_rows=options.rows, grid_columns=options.columns, vocabulary_size=MAZE_VOCABULARY_SIZE
        )

    @override
    def grid(self, spec: DatasetSpec) -> tuple[int, int]:
        return _options(spec).rows, _options(spec).columns

    @override
    def augmenter(self, spec: DatasetSpec, split: Split, groups: Groups) -> Augmenter:
        moved = super().augmenter(spec, split, groups)
        return Relabelled(moved, *self.grid(spec)) if _options(spec).labels == "rule" else moved

    @override
    def open_stream(
        self, spec: DatasetSpec, source: LocalSource, *, chooser: Chooser, engine: Engine, cache: Path
    ) -> Stream:
        options = _options(spec)
        if source.spec.kind == "generated":
            # Candidates do not depend on how their images are labelled.
            folder = cache_folder(cache, "maze", spec.seed, asdict(replace(options, labels="rule")))
            return GeneratedStream(partial(_generated, spec.seed, options), engine, cache=folder)
        read = read_mazes(source, options.rows, options.columns, progress=chooser.progress)
        return chooser.file_stream(source, read, partial(_checked, options, source.shown), engine)

    @override
    def facts(
        self, spec: DatasetSpec, inputs: NDArray[np.uint8], labels: NDArray[np.uint8]
    ) -> Mapping[str, Sequence[Any] | NDArray[Any]]:
        return _facts(_options(spec), inputs, labels)

    @override
    def check_puzzles(self, spec: DatasetSpec, split: Split, puzzles: BasePuzzles) -> CheckedPuzzles:
        options, first = _options(spec), puzzles.first_group
        shape = options.rows, options.columns
        inputs = puzzles.inputs
        cells = (inputs >= MAZE_WALL) & (inputs <= MAZE_GOAL)
        ends = [(inputs == token).sum(axis=1) == 1 for token in (MAZE_START, MAZE_GOAL)]
        wrong = first + np.flatnonzero(~(cells.all(axis=1) & ends[0] & ends[1]))
        problems = named_problems(split, "group", wrong, "is no maze with one S and one G")
        if problems:
            return CheckedPuzzles(problems)
        found = path_problems(inputs, puzzles.labels, *shape, shortest=options.shortest)
        problems = [f"{split} group {first + i}: {problem}" for i, problem in enumerate(found) if problem]
        ruled = label_mazes(inputs, *shape)
        other = (ruled.labels != puzzles.labels).any(axis=1)
        # A file may give another shortest path than the rule's; labels made here follow the rule.
        if spec.source.kind == "generated" or options.labels == "rule":
            wrong = first + np.flatnonzero(other)
            problems += named_problems(split, "group", wrong, "its label does not follow the published rule")
        lengths = np.array(puzzles.facts["path_length"])
        marked = np.count_nonzero(puzzles.labels == MAZE_PATH, axis=1) + 1
        wrong = first + np.flatnonzero(lengths != (ruled.path_steps if options.shortest else marked))
        problems += named_problems(split, "group", wrong, "has another path length than its catalog row")
        problems += _other_counts(split, puzzles, options)
        hashes = layout_hashes(inputs, *shape)
        classes = [(f"{split} group {first + group}", hash_) for group, hash_ in enumerate(hashes)]
        return CheckedPuzzles(
            problems, hashes, classes, {"originals labelled by the published rule": int((~other).sum())}
        )

    @override
    def parse(self, text: str, spec: DatasetSpec) -> NDArray[np.uint8]:
        options = _options(spec)
        lines = text.splitlines()
        while len(lines) > options.rows and not lines[-1]:
            lines.pop()
        if len(lines) > 1:  # rows of free cells may be trimmed
            lines = [line.ljust(options.columns) for line in [*lines, *[""] * (options.rows - len(lines))]]
        cells = "".join(lines)
        tokens = decode_maze(cells, options.rows, options.columns, spec.source.symbols)
        return check_inputs(tokens[None], options.rows, options.columns)[0]

    @override
    def read_file(self, source: LocalSource, spec: DatasetSpec) -> tuple[NDArray[np.uint8], list[Reject]]:
        rows, rejects = read_mazes(source, *self.grid(spec), distinct=False)
        return rows.questions, rejects

    @override
    def answer(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> Answer:
        found = label_mazes(tokens[None], *self.grid(spec))
        reachable = bool(found.path_steps[0] >= 0)
        return Answer(int(reachable), found.labels[0] if reachable else None)

    @override
    def score(
        self,
        spec: DatasetSpec,
        inputs: NDArray[np.uint8],
        labels: NDArray[np.uint8],
        predictions: NDArray[np.uint8],
    ) -> Scores:
        """Score whether walls and ends are kept, whether the marks are one path from S to G, and whether it is optimal.

        A path needs all its marked cells: if it touches itself, or has a stray mark, the marks allow a shorter path.
        """
        options = _options(spec)
        kept = ((predictions == inputs) | (inputs == MAZE_FREE)).all(axis=1)
        steps = marked_steps(inputs, predictions, options.rows, options.columns)
        valid = steps == (predictions == MAZE_PATH).sum(axis=1) + 1
        return Scores(
            given_kept=kept, valid=valid, optimal=valid & (steps <= (labels == MAZE_PATH).sum(axis=1) + 1)
        )

    @override
    def has_several_answers(self, spec: DatasetSpec) -> bool:
        return True

    @override
    def satisfies(
        self, spec: DatasetSpec, inputs: NDArray[np.uint8], predictions: NDArray[np.uint8]
    ) -> NDArray[np.bool_]:
        """Return whether each prediction marks a shortest path."""
        found = self.score(spec, inputs, label_mazes(inputs, *self.grid(spec)).labels, predictions).optimal
        assert found is not None
        return found

    @override
    def draw(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> Drawing:
        options = _options(spec)
        grid = np.minimum(tokens, MAZE_PATH).reshape(options.rows, options.columns)
        symbols = tuple("".join(_SYMBOLS[token] for token in row) for row in grid.tolist())
        return Drawing(symbols, _COLOURS[grid], PALETTE, spaced=False, silent=" #")


def _other_counts(split: Split, puzzles: BasePuzzles, options: MazeOptions) -> list[str]:
    """Return problems of groups whose shortest-path counts differ from the catalog; older catalogs have no counts."""
    problems: list[str] = []
    found = _facts(options, puzzles.inputs, puzzles.labels)
    for name, what in (("log10_shortest_paths", "number of"), ("forced_share", "forced share of")):
        stated = puzzles.facts.get(name)
        if stated is None:
            continue
        wrong = ~np.isclose(np.array(stated, np.float32), found[name], atol=1e-4, equal_nan=True)
        wrong_groups = puzzles.first_group + np.flatnonzero(wrong)
        problems += named_problems(
            split, "group", wrong_groups, f"has another {what} shortest paths than its catalog row"
        )
    return problems


def _generated(seed: int, options: MazeOptions, stream: int, bounds: tuple[int, int]) -> Candidates:
    start, stop = bounds
    numbers, size = (seed, stream, start, stop - start), (options.rows, options.columns, options.min_path)
    if options.unique:
        inputs = generate_unique_mazes(*numbers, *size)
    else:
        inputs = generate_mazes(*numbers, *size, options.wall_low, options.wall_high)
    labelled = label_mazes(inputs, options.rows, options.columns)
    return _candidates(options, inputs, labelled.labels, np.arange(start, stop))


def _checked(options: MazeOptions, shown: str, rows: StatedRows) -> Checked:
    """Return the rows with a path that their label shows, and the rejected rows with the reason."""
    inputs, stated, lines = rows.questions, rows.answers, rows.lines
    ruled = label_mazes(inputs, options.rows, options.columns)
    labels = np.where(stated.any(axis=1, keepdims=True), stated, ruled.labels)
    problems: list[str | None] = ["there is no path from S to G"] * len(inputs)
    solvable = ruled.path_steps >= 0
    found = path_problems(
        inputs[solvable], labels[solvable], options.rows, options.columns, shortest=options.shortest
    )
    for position, problem in zip(np.flatnonzero(solvable).tolist(), found, strict=True):
        problems[position] = problem
        if options.labels == "rule" and not problem and (labels[position] != ruled.labels[position]).any():
            problems[position] = ANOTHER_PATH
    good = np.array([problem is None for problem in problems], np.bool_)
    rejects = [
        Reject(shown, int(line), problem)
        for line, problem in zip(lines.tolist(), problems, strict=True)
        if problem is not None
    ]
    candidates = _candidates(options, inputs[good], labels[good], lines[good])
    candidates.facts["rating"] = rows.ratings[good]
    candidates.facts["rating_source"] = np.full(int(good.sum()), "file")
    return candidates, rejects


def _candidates(
    options: MazeOptions, inputs: NDArray[np.uint8], labels: NDArray[np.uint8], rows: NDArray[np.int64]
) -> Candidates:
    hashes = np.array(layout_hashes(inputs, options.rows, options.columns), np.str_)
    facts = _facts(options, inputs, labels)
    return Candidates(inputs, labels, rows, hashes, np.ones(len(inputs), np.int64), facts)


def _facts(
    options: MazeOptions, inputs: NDArray[np.uint8], labels: NDArray[np.uint8]
) -> dict[str, NDArray[Any]]:
    paths, forced = np.full((2, len(inputs)), np.nan)
    whole = [(inputs == token).sum(axis=1) == 1 for token in (MAZE_START, MAZE_GOAL)]
    mazes = whole[0] & whole[1] & ((inputs >= MAZE_WALL) & (inputs <= MAZE_GOAL)).all(axis=1)
    paths[mazes], forced[mazes] = count_shortest_paths(inputs[mazes], options.rows, options.columns)
    return {
        "log10_shortest_paths": np.log10(np.where(paths > 0, paths, np.nan)).astype(np.float32),
        "forced_share": forced.astype(np.float32),
        "path_length": ((labels == MAZE_PATH).sum(axis=1) + 1).astype(np.int32),
        "walls": (inputs == MAZE_WALL).sum(axis=1).astype(np.int32),
    }


def maze_hashes(inputs: NDArray[np.uint8], rows: int, columns: int) -> list[str]:
    """Return a name for each maze's class: blake2b of 16 bytes over R, C and the smallest image, hexadecimal."""
    start = hashlib.blake2b(bytes((rows, columns)), digest_size=16)
    names: list[str] = []
    inputs = check_tokens("inputs", inputs, rows, columns)
    packed = [
        inputs.take(source_cells(d, rows, columns), axis=1).tobytes() for d in grid_dihedrals(rows, columns)
    ]
    cells = rows * columns
    for at in range(0, len(inputs) * cells, cells):
        state = start.copy()
        state.update(min(image[at : at + cells] for image in packed))
        names.append(state.hexdigest())
    return names


def layout_hashes(inputs: NDArray[np.uint8], rows: int, columns: int) -> list[str]:
    """Return `maze_hashes` of the walls alone: equal for mazes that differ only in S and G."""
    walls = np.where(inputs == MAZE_WALL, np.uint8(MAZE_WALL), np.uint8(MAZE_FREE))
    return maze_hashes(walls, rows, columns)
