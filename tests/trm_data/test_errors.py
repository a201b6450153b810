"""Messages about files that could not be written: the hint matches the error.

Messages about unknown names.
"""

from __future__ import annotations

import errno
import os
from importlib.resources import files

import pytest

from trm_data.errors import closest, no_such, not_written


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "free some space and build again"),
        (errno.EDQUOT, "free some space and build again"),
        (errno.EACCES, "choose a folder that you may write, or change its permissions, and build again"),
        (errno.EROFS, "choose a folder that you may write, or change its permissions, and build again"),
        (errno.EIO, "see what it says, and build again"),
    ],
)
def test_only_a_full_disk_is_told_to_free_space(number: int, advice: str) -> None:
    said = not_written("out", OSError(number, os.strerror(number)), "build again")
    assert said.startswith("out: could not be written (")
    assert said.endswith(f"); {advice}")


@pytest.mark.parametrize("package", ["trm_data", "trm_train", "trm_eval"])
def test_the_types_of_every_package_are_for_others_too(package: str) -> None:
    assert files(package).joinpath("py.typed").is_file()


RUNS = ["quickstart-2626ad84-s0", "quickstart_064-365f076b-s2", "exp01a-0123abcd-s0"]


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("sudoko", ["arc", "maze", "sudoku", "table"], "sudoku"),
        ("Sudoku", ["arc", "sudoku"], "sudoku"),
        ("quickstart-7b5f7e87-s0", RUNS, "quickstart-2626ad84-s0"),
        (
            "sudoku-2x3",
            ["sudoku-2x3-generated-500-aug-1000", "sudoku-2x2"],
            "sudoku-2x3-generated-500-aug-1000",
        ),
        ("zebra", ["arc", "maze"], None),
        ("", ["arc", "maze"], None),
    ],
)
def test_the_closest_name_is_what_was_meant(name: str, known: list[str], meant: str | None) -> None:
    assert closest(name, known) == meant


def test_a_refusal_has_the_closest_name_or_a_few_and_the_way_on() -> None:
    assert no_such("no kind 'maz'", "maz", ["arc", "maze"], "trm-data build --help") == (
        "no kind 'maz'; did you mean 'maze'? (trm-data build --help)"
    )
    assert no_such("no kind 'x'", "x", ["arc", "maze"], "W") == "no kind 'x'; there are: arc, maze (W)"
    assert no_such("no kind 'x'", "x", [f"kind{n}" for n in range(50)], "W") == "no kind 'x' (W)"
    assert no_such("no run 'x'", "x", [], "W") == "no run 'x'; there are none yet (W)"
