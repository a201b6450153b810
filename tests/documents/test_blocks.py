"""Parsing of documents: which lines are commands, how they run, and that wrong commands are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.blocks import MarkerError, read_blocks
from tests.documents.reading import statements, why_unreadable


def document(folder: Path, *rows: str) -> Path:
    path = folder / "page.md"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_prompts_comments_and_continued_lines_are_understood(tmp_path: Path) -> None:
    rows = [
        "```sh",
        "# all of it",
        "$ trm-data list   # what is there",
        "",
        "trm-data build sudoku \\",
        "  --size 5",
    ]
    rows += [
        "trm-eval sql \"SELECT '#' AS a, \\",
        '  1 AS b"  # a query',
        "```",
        "```",
        "$ trm-train list",
        "exp01",
        "```",
    ]
    blocks = read_blocks(document(tmp_path, *rows))
    assert [line.text for line in blocks[0].lines] == [
        "trm-data list",
        "trm-data build sudoku   --size 5",
        "trm-eval sql \"SELECT '#' AS a,   1 AS b\"",
    ]
    assert [line.number for line in blocks[0].lines] == [3, 5, 7]
    assert [line.text for line in blocks[1].lines] == ["trm-train list"]


def test_the_commands_of_a_line_are_told_apart() -> None:
    line = "export A=gs://b; trm-data list --root gs://b && trm-eval sql 'SELECT 1; ' | head"
    assert statements(line) == [
        ["export", "A=gs://b"],
        ["trm-data", "list", "--root", "gs://b"],
        ["trm-eval", "sql", "SELECT 1; "],
        ["head"],
    ]


def test_the_first_comment_whose_words_a_line_has_counts(tmp_path: Path) -> None:
    rows = ["<!-- not run: needs a TPU (--tpu) -->", "<!-- run: slow dry-run NAME=a -->", "```sh"]
    (block,) = read_blocks(document(tmp_path, *rows, "trm-train run x --tpu", "trm-data verify NAME", "```"))
    first, second = (line.marker for line in block.lines)
    assert first.reason == "needs a TPU"
    assert (second.hows, second.instead, second.reason) == ({"slow", "dry-run"}, (("NAME", "a"),), "")


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("<!-- run: slowly -->", "unknown word 'slowly'; expected slow, dry-run"),
        ("<!-- run: slow (maze) -->", "no line needs the comment"),
        ("<!-- run slow -->", "expected <!-- run: HOW"),
    ],
)
def test_a_comment_that_says_nothing_is_an_error(tmp_path: Path, comment: str, said: str) -> None:
    with pytest.raises(MarkerError, match=r"page\.md:[12]: ") as refused:
        read_blocks(document(tmp_path, comment, "```sh", "trm-data list", "```"))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("trm-data build sudoku --sise 5", "--sise"),
        ("trm-data bild sudoku", "bild"),
        ("trm-train run quickstart --model.hiden-size 5", "--model.hiden-size"),
        ("trm-train run quikstart", "no experiment 'quikstart'"),
        ("trm-train batch exp04a --model.hiden-size 5", "--model.hiden-size"),
        ("trm-train batch exp99", "no experiment 'exp99'"),
        ("trm-train launch run exp04a_100 --accelerator v4-8 --model.hiden-size 5", "--model.hiden-size"),
        ("trm-train launch run quickstart --hots a", "--hots"),
        ("trm-eval run x --stepps 5", "--stepps"),
    ],
)
def test_a_wrong_command_is_found(line: str, said: str) -> None:
    assert said in why_unreadable(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "trm-data --version",
        "trm-train run quickstart --optim.name adamw --seed 1",
        "trm-train batch exp04a --jobs 2",
        "trm-train launch run exp01c --accelerator v4-8 --seed 1 --spot",
    ],
)
def test_a_right_command_is_read_and_not_carried_out(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert why_unreadable(line.split()) == ""
    assert capsys.readouterr().out == ""
