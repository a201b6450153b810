"""docs/buckets-and-hosts.md: its launches, executed in order on stand-in machines, with a small run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.documents.blocks import Line, Marker, read_blocks
from tests.documents.test_commands import reader_in
from tests.trm_train.launch.conftest import Cloud
from tests.trm_train.launch.test_flow import STEPS, verbs

SMALL = "quickstart --data.dataset small"


def lines_with(word: str) -> list[Line]:
    """Return the launch commands of the page that start runs and have this option."""
    blocks = [
        block for block in read_blocks(PROJECT / "docs" / "buckets-and-hosts.md") if block.language == "sh"
    ]
    lines = [line for block in blocks for line in block.lines if "trm-train launch" in line.text]
    return [line for line in lines if word in line.text and "--dry-run" not in line.text]


def type_all(cloud: Cloud, lines: list[Line], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Execute lines with the run, root and commit of the machines; return their output."""
    reader = reader_in(folder, monkeypatch)
    monkeypatch.setenv("PATH", str(cloud.folder / "bin"), prepend=":")
    where = f"--repository {cloud.repository} --commit {cloud.commit(STEPS)} --look-s 0.2"
    printed: list[str] = []
    for line in lines:
        text = line.text.replace("exp01c", SMALL)
        text = text.replace("gs://my-bucket/trm", str(cloud.root))
        printed.append(reader.type(Line(f"{text} {where}", line.number, Marker())).stdout)
    return printed


def test_its_tpus_are_created_used_and_deleted(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _, queued = type_all(cloud, lines_with("--accelerator"), tmp_path, monkeypatch)
    assert f"trained with run {SMALL}" in run
    assert f"trained with run {SMALL}" in queued
    assert verbs(cloud) == [
        "tpu-vm create",
        "tpu-vm delete",
        "queued-resources create",
        "queued-resources delete",
    ]
