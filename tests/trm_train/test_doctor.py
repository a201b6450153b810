"""Findings of the doctor: an intact root, a read-only root, damaged data, accelerators that jax does not use."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from trm_data.errors import needs_extra
from trm_data.storage.root import Layout
from trm_train.batch import devices
from trm_train.cli import main


def look(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json", *arguments])
    found = json.loads(capsys.readouterr().out)
    return int(ended.value.code or 0), {one["check"]: (one["verdict"], one["text"]) for one in found}


def test_a_sound_root(small_layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(small_layout.place, tmp_path / "root")
    code, found = look(capsys, "--root", str(tmp_path / "root"), "--verify")
    assert code == 0
    assert found["dataset small"] == ("ok", "whole")
    assert found["root"][0] == found["devices"][0] == found["versions"][0] == "ok"
    assert "backend cpu" in found["devices"][1]
    assert found["wandb"] == ("note", "no login: runs are kept offline (wandb login; or --tracking none)")
    assert not (tmp_path / "root" / "runs" / ".doctor").exists()


def test_what_is_wrong_is_named(
    small_layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    shutil.copytree(small_layout.place, root)
    shard = next((root / "datasets" / "small").glob("train-*.array_record"))
    shard.write_bytes(shard.read_bytes()[:-1])
    monkeypatch.setattr(devices, "_gpus", lambda: ["0", "1"])
    code, found = look(capsys, "--root", str(root), "--verify")
    assert code == 1
    assert found["dataset small"][0] == "missing"
    assert shard.name in found["dataset small"][1]
    assert found["accelerators"] == (
        "missing",
        needs_extra("2 GPUs that jax does not see: it", "cuda"),
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_root_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o500)
    code, found = look(capsys, "--root", str(tmp_path))
    assert (code, found["root"][0]) == (1, "missing")


def test_a_root_that_is_not_there_yet_is_said_and_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = look(capsys, "--root", str(tmp_path / "new" / "root"))
    said = "is not there yet, the first build or run makes it; can be written and read"
    assert found["root"] == ("note", f"{tmp_path / 'new' / 'root'} {said}")
    assert not list(tmp_path.iterdir())


def test_a_root_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    code, found = look(capsys, "--root", str(tmp_path / "file"))
    assert (code, found["root"][0]) == (1, "missing")
