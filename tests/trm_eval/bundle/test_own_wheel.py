"""This package as a wheel, held against what the build tool makes of the checkout."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from trm_eval.bundle import own_wheel
from trm_eval.bundle.own_wheel import PACKAGES, write_own_wheel
from trm_eval.errors import BundleError


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_it_has_what_the_build_tool_packs(tmp_path: Path) -> None:
    (tmp_path / "built").mkdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "built")]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, timeout=600)
    (built,) = (tmp_path / "built").glob("*.whl")
    own = write_own_wheel(tmp_path)
    assert own.name == built.name
    ours, theirs = contents(own), contents(built)
    assert ours.keys() == theirs.keys()
    packed = [name for name in ours if name.partition("/")[0] in PACKAGES or "/licenses/" in name]
    assert len(packed) > 300
    assert [name for name in packed if ours[name] != theirs[name]] == []


def test_its_record_has_every_file_with_its_digest(tmp_path: Path) -> None:
    files = contents(write_own_wheel(tmp_path))
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    rows = list(csv.reader(io.StringIO(files[record].decode())))
    assert [row[0] for row in rows] == list(files)
    assert rows[-1] == [record, "", ""]
    for name, digest, size in rows[:-1]:
        sha256 = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).decode().rstrip("=")
        assert (digest, int(size)) == (f"sha256={sha256}", len(files[name]))


def test_an_installed_wheel_makes_the_same_wheel_again(tmp_path: Path) -> None:
    first = write_own_wheel(tmp_path)
    with zipfile.ZipFile(first) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "again").mkdir()
    program = (
        "from pathlib import Path; from trm_eval.bundle.own_wheel import write_own_wheel; "
        "import trm_eval; print(trm_eval.__file__); write_own_wheel(Path('again'))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "site"))
    assert (tmp_path / "again" / first.name).read_bytes() == first.read_bytes()


def test_without_an_installation_the_way_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_wheel, "PROJECT", "trm-lab-that-is-not-there")
    with pytest.raises(BundleError, match=r"is not installed here \(pip install \.\)"):
        write_own_wheel(tmp_path)
    assert list(tmp_path.iterdir()) == []
