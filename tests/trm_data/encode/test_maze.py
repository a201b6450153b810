"""Mazes as text and tokens: inverses of each other, and errors that name problem and place."""

import numpy as np
import pytest

from trm_data.kinds.maze.source import check_inputs, decode_maze, encode_maze

TEXT = "S o# oG## #o"


def test_tokens_are_the_published_ones() -> None:
    tokens = decode_maze("# SGo####", 3, 3)
    assert tokens.dtype == np.uint8
    assert tokens.tolist() == [1, 2, 3, 4, 5, 1, 1, 1, 1]


def test_encode_is_the_inverse() -> None:
    assert encode_maze(decode_maze(TEXT, 3, 4)) == TEXT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT[:-1], "expected 12 characters, got 11"),
        (TEXT + " ", "expected 12 characters, got 13"),
        ("", "expected 12 characters, got 0"),
        ("S o# xG## #o", "character 'x' at position 6: expected '#'"),
        ("S o# oG## #\u20ac", "character '\u20ac' at position 12"),
        ("S o# oG## #\xff", "character '\xff' at position 12"),
        ("S O# oG## #o", "character 'O' at position 3"),
    ],
)
def test_bad_text_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_maze(text, 3, 4)


def test_inputs_are_checked() -> None:
    good = decode_maze("S  #  G## # ", 3, 4)[None]
    assert check_inputs(good, 3, 4).tolist() == good.tolist()
    for cell, token, message in [
        (0, 2, "row 0 has 0 cells 'S'"),
        (1, 4, "2 cells 'G'"),
        (1, 5, "1 cells 'o'"),
    ]:
        bad = good.copy()
        bad[0, cell] = token
        with pytest.raises(ValueError, match=message):
            check_inputs(bad, 3, 4)
    for bad, message in [
        (good * 0, "got tokens 0 to 0"),
        (good.astype(np.int64), "int64"),
        (good[:, 1:], r"expected uint8 \[N, 12\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            check_inputs(bad, 3, 4)
    with pytest.raises(ValueError, match="maze of 2x6 cells"):
        check_inputs(good, 2, 6)
