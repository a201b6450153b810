"""A file without a name holds what was written, and leaves nothing, however its process ends."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trm_data.errors import BuildError
from trm_data.storage import spill
from trm_data.storage.spill import SpillFile

HOLDS_ONE = """
import sys
from pathlib import Path
from trm_data.storage.spill import SpillFile
file = SpillFile(Path(sys.argv[1]))
file.append(bytes(1000))
print("written", flush=True)
sys.stdin.readline()
"""


def test_what_is_appended_is_read_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "MOST_AT_ONCE", 7)  # so that one call of the system is not enough
    file = SpillFile(tmp_path)
    numbers = np.arange(20, dtype=np.int64)
    places = [file.append(b"some bytes"), file.append(numbers), file.append(numbers[::3])]
    assert places == [0, 10, 170]
    assert file.read(0, 10).tobytes() == b"some bytes"
    assert file.read(10, 160).view(np.int64).tolist() == numbers.tolist()
    assert file.read(170, file.size - 170).view(np.int64).tolist() == numbers[::3].tolist()
    with pytest.raises(BuildError, match="cannot be read"):
        file.read(file.size - 1, 2)
    file.close()


def test_it_has_no_name_while_it_is_open_and_after_a_kill(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_ONE, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        held = [str(link.readlink()) for link in Path(f"/proc/{process.pid}/fd").iterdir()]
        assert any(path.startswith(str(tmp_path)) for path in held)
        assert list(tmp_path.iterdir()) == []
        process.kill()
    assert list(tmp_path.iterdir()) == []


def test_its_space_is_given_back(tmp_path: Path) -> None:
    def held() -> int:
        links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return sum(str(tmp_path) in str(link.readlink()) for link in links)

    files = [SpillFile(tmp_path), SpillFile(tmp_path)]
    assert held() == 2
    files.pop().close()
    assert held() == 1
    del files[0]
    assert held() == 0


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = SpillFile(tmp_path)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(BuildError, match=r"No space left on device.*free some space and build again"):
        file.append(b"more")
    file.close()
