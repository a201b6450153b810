"""Messages about files that could not be written: the hint matches the error."""

from __future__ import annotations

import errno
import os
from importlib.resources import files

import pytest

from trm_data.errors import not_written


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
