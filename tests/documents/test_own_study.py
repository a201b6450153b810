"""docs/own-study.md, with two datasets of each kind, two seeds and few steps: its runs, queries, report and study."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import trm_eval
from tests.conftest import PROJECT, run_here
from tests.documents.blocks import read_blocks
from tests.documents.reading import MAINS, statements
from trm_train.experiments import registry

BLOCKS = read_blocks(PROJECT / "docs" / "own-study.md")
PYTHON = [block.text for block in BLOCKS if block.language == "python"]
SHELL = [line.text for block in BLOCKS if block.language == "sh" for line in block.lines]
STUDY = next(block.text for block in BLOCKS if block.language == "bash").splitlines()
"""Lines that need the file of the study."""
SMALLER = {
    "(100, 300, 1000)": "(20, 40)",
    "(10, 100)": "(1, 3)",
    "range(1500)": "range(200)",
    "val_size=50": "val_size=0",
    "test_size=200": "test_size=20",
    "[0, 1, 2]": "[0, 1]",
    "150": "4",
    '"lr_warmup_steps": 10': '"lr_warmup_steps": 1',
    '{"hidden_size": 32}': '{"hidden_size": 32, "l_cycles": 1}',
    "mine-100-10,mine-300-10,mine-1000-10,mine-100-100,mine-300-100,mine-1000-100": (
        "mine-20-1,mine-40-1,mine-20-3,mine-40-3"
    ),
    "--seeds 0,1,2": "--seeds 0,1",
    "--model.hidden-size 32": "--model.hidden-size 32 --model.l-cycles 1",
    "lr-warmup-steps 10": "lr-warmup-steps 1",
    '"data.dataset": "mine-300-10"': '"data.dataset": "mine-40-3", "total_steps": 3, "optim.lr_warmup_steps": 1',
}


def smaller(text: str) -> str:
    """Return a block or line with fewer puzzles, seeds and steps."""
    for written, ours in SMALLER.items():
        text = text.replace(written, ours)
    return text


def answer(line: str, *more: str) -> str:
    """Run a line of the page; return what it prints."""
    (words,) = statements(smaller(line))
    done = run_here(MAINS[words[0]], *words[1:], *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.integration
def test_the_page_goes_from_a_frame_to_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRM_ROOT", raising=False)
    names: dict[str, Any] = {}
    build, sweep, study = PYTHON
    exec(compile(smaller(build), "own-study.md", "exec"), names)
    exec(compile(smaller(sweep), "own-study.md", "exec"), names)

    batch, *others = SHELL
    planned = json.loads(answer(batch, "--dry-run", "--json"))
    assert [row["run"] for row in planned] == [run.name for run in names["runs"]]
    assert {row["state"] for row in planned} == {"trained"}
    for line in others:
        answer(line)
    frame = trm_eval.sql("@seeds", "trm")
    columns = re.split(r" {2,}", next(b for b in BLOCKS if b.language == "").text.splitlines()[0].strip())
    assert set(columns) <= set(frame.columns)
    assert frame["varies"].to_list() == [
        f"{size} puzzles x {aug} augmentations" for aug in (1, 3) for size in (20, 40)
    ]
    assert {"scaling.svg", "report.md"} <= {path.name for path in Path("scaling").iterdir()}

    monkeypatch.setattr(registry, "_EXPERIMENTS", registry.load_experiments())
    monkeypatch.setenv("TRM_EXPERIMENTS", "")
    Path("my_study.py").write_text(smaller(study))
    assert len(study.splitlines()) <= 35
    describe, batch, *others = STUDY
    assert "D 16" in answer(describe)
    planned = json.loads(answer(batch, "--dry-run", "--json"))
    assert [row["varies"] for row in planned[:3]] == ["D 16", "D 32", "D 64"]
    for name in ("my_width_16", "my_width_64"):
        answer(f"trm-train run {name} --experiments my_study.py --tracking none")
        answer(f"trm-eval run {name} --experiments my_study.py")
    for line in others:
        answer(line)
    said = Path("widths/report.md").read_text("utf-8")
    assert "Claimed: " in said
    assert "D 64" in said
