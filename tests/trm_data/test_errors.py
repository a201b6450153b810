"""Messages about files that could not be written: the hint matches the error."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

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


@pytest.mark.parametrize("program", ["trm-data", "trm-eval"])
def test_letters_that_the_locale_has_not_are_a_line(program: str, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name(program)), "sql", "SELECT 1", "--root", str(tmp_path / "é")]
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(command, env={**os.environ, **locale}, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"set PYTHONUTF8=1, or LC_ALL=C.UTF-8" in done.stderr
    assert len(done.stderr.splitlines()) == 1
