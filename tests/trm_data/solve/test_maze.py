"""Labels by the published rule, and messages about wrong labels."""

from pathlib import Path

import numpy as np
import pytest

from trm_data.kinds.maze.solve import label_mazes, path_problems
from trm_data.kinds.maze.source import decode_maze, encode_maze, read_mazes
from trm_data.sources.base import fetch_source, parse_source

OPEN = "S  " "   " "  G"  # fmt: skip


def tokens(*texts: str, rows: int = 3, columns: int = 3) -> np.ndarray:
    return np.stack([decode_maze(text, rows, columns) for text in texts])


def test_published_labels_follow_the_rule(shared_data: Path) -> None:
    """Checks all 1,000 rows; their rating is the number of path cells including S and G."""
    path = shared_data / "maze" / "maze_30x30_hard_1k_train.csv"
    with fetch_source(parse_source(f"csv:{path}")) as source:
        rows, rejects = read_mazes(source, 30, 30)
    assert len(rows) == 1000
    assert not rejects
    found = label_mazes(rows.questions, 30, 30)
    np.testing.assert_array_equal(found.labels, rows.answers)
    np.testing.assert_array_equal(found.path_steps + 1, rows.ratings)
    assert path_problems(rows.questions, rows.answers, 30, 30) == [None] * 1000


@pytest.mark.parametrize(
    ("text", "label", "steps"),
    [
        (OPEN, "S  o  ooG", 4),  # down is tried before right
        ("G  " "   " "  S", "G  o  ooS", 4),  # left before up
        ("  G" "   " "S  ", "  G  oSoo", 4),  # right before up
        ("SG " "###" "   ", "SG ###   ", 1),
        ("S##" "###" "##G", "S#####" "##G", -1),
        ("   #S" "   ##" "G    ", "   #S" "   ##" "G    ", -1),
    ],
)  # fmt: skip
def test_ties_and_edges(text: str, label: str, steps: int) -> None:
    columns = len(text) // 3
    found = label_mazes(tokens(text, columns=columns), 3, columns)
    assert encode_maze(found.labels[0]) == label
    assert found.path_steps.tolist() == [steps]
    assert found.path_steps.dtype == np.int32


def test_another_shortest_path_is_right_too() -> None:
    assert path_problems(tokens(OPEN, OPEN), tokens("Soo  o  G", "So  oo  G"), 3, 3) == [None, None]


@pytest.mark.parametrize(
    ("maze", "label", "problem"),
    [
        (OPEN, OPEN, "the marked cells are no path from S to G"),
        (OPEN, "Soo     G", "no path from S to G"),
        (OPEN, "Soo  oo G", "4 cells are marked, 1 more than a shortest path of 4 steps has"),
        (OPEN, "S#o  o  G", "'#' at position 2 where the maze has ' '"),
        ("S# " "   " "  G", "So ooo  G", "'o' at position 2 where the maze has '#'"),
        (OPEN, "GooooooS ", "'G' at position 1 where the maze has 'S'"),
        ("S G" " # " "   ", "S Go#oooo", "the marked path has 6 steps, a shortest one has 2"),
        ("S##" "###" "##G", "S#####" "##G", "the maze has no path"),
    ],
)  # fmt: skip
def test_wrong_labels_are_named(maze: str, label: str, problem: str) -> None:
    (found,) = path_problems(tokens(maze), tokens(label), 3, 3)
    assert found is not None
    assert problem in found


def test_a_longer_path_is_right_where_it_was_given_and_stray_marks_are_not() -> None:
    maze, detour, stray = "S G #    ", "S Go#oooo", "SoG # o  "
    inputs, labels = tokens(maze, maze, OPEN), tokens(detour, stray, "Soo  oo G")
    problems = path_problems(inputs, labels, 3, 3, shortest=False)
    assert problems[0] is None
    assert problems[1] is not None
    assert "2 cells are marked, but the way through them has 2 steps" in problems[1]
    assert problems[2] is not None
    (said,) = path_problems(inputs[:1], labels[:1], 3, 3)
    assert said is not None
    assert "--labels given keeps it" in said


def test_none_and_wrong_inputs() -> None:
    assert label_mazes(np.empty((0, 9), np.uint8), 3, 3).labels.shape == (0, 9)
    assert path_problems(np.empty((0, 9), np.uint8), np.empty((0, 9), np.uint8), 3, 3) == []
    with pytest.raises(ValueError, match="row 1 has 2 cells 'S'"):
        label_mazes(tokens(OPEN, "SS      G"), 3, 3)
    with pytest.raises(ValueError, match="1 inputs and 2 labels"):
        path_problems(tokens(OPEN), tokens(OPEN, OPEN), 3, 3)
