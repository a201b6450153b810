"""Roots on file systems without hard links."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.conftest import run_here
from trm_data.cli import main
from trm_data.storage.local import LocalStore


@pytest.fixture
def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("no_links")
def test_a_file_is_created_once_without_hard_links(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert store.create("a/manifest.json", b"first")
    assert not store.create("a/manifest.json", b"second")
    assert store.create("a/manifest.json", b"first")
    assert (tmp_path / "a" / "manifest.json").read_bytes() == b"first"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["manifest.json"]


def test_another_error_of_a_link_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(OSError, match="No space left"):
        LocalStore(tmp_path).create("a", b"first")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_links")
def test_a_root_without_hard_links_builds_queries_and_syncs(tmp_path: Path) -> None:
    root, copy = str(tmp_path / "root"), str(tmp_path / "copy")
    build = "build sudoku --box 2x2 --size 8 --val-size 0 --test-size 2 --workers 1 --name tiny --quiet"
    for command in (
        f"{build} --root {root}",
        f"sync {root} {copy} tiny",
        f"verify tiny --root {copy}",
    ):
        done = run_here(main, *command.split())
        assert done.returncode == 0, done.stderr
    asked = run_here(main, "sql", "SELECT count(*) AS n FROM puzzles", "--format", "csv", "--root", copy)
    assert asked.stdout.split() == ["n", "10"]
