"""`trm-eval predict`: puzzles from the command line and from files, drawn, with a verdict on each answer."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import trm_eval
from tests.conftest import run_here
from tests.trm_eval.conftest import Evaluated
from trm_data.kinds.registry import load_kind
from trm_eval.cli import main

PUZZLE = "..2....3.45..4........6...51.......3"


def predict(evaluated: Evaluated, *options: str) -> subprocess.CompletedProcess[str]:
    return run_here(main, "predict", "tiny", *options, "--root", evaluated.layout.place)


def test_one_puzzle_is_answered_beside_its_solution(evaluated: Evaluated) -> None:
    done = predict(evaluated, "--puzzle", PUZZLE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split() == ["given", "answer", "solution"]
    assert done.stdout.splitlines()[1].startswith("   . . 2 | . . .  ")
    assert "wrong in " in done.stdout
    assert "halting probability 0." in done.stdout


@pytest.mark.parametrize(
    ("puzzle", "said"),
    [("." * 36, "the puzzle has several solutions"), ("11" + "." * 34, "the puzzle has no solution")],
)
def test_puzzles_that_are_not_right_are_said_to_be(evaluated: Evaluated, puzzle: str, said: str) -> None:
    done = predict(evaluated, "--puzzle", puzzle)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_a_row_of_the_dataset_step_by_step(evaluated: Evaluated) -> None:
    done = predict(evaluated, "--row", "4", "--trace", "--json")
    (found,) = json.loads(done.stdout)
    inputs = evaluated.test.read(np.array([4]))["inputs"][0]
    assert found["puzzle"] == inputs.tolist()
    assert [(step["step"], step["cycle"]) for step in found["steps"]] == [
        (1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2),
    ]  # fmt: skip
    assert found["steps"][-1]["answer"] == found["answer"]
    assert (found["solutions"], found["exact"]) == (1, False)
    assert predict(evaluated, "--row", "4", "--trace").stdout.count("\n  step ") == 3
    fewer = json.loads(predict(evaluated, "--row", "4", "--trace", "--json", "--steps", "1").stdout)
    assert len(fewer[0]["steps"]) == 2


@pytest.mark.parametrize("form", ["lines.txt", "blocks.txt", "puzzles.json"])
def test_files_of_puzzles(evaluated: Evaluated, tmp_path: Path, form: str) -> None:
    spec = evaluated.test.manifest.spec
    drawn = load_kind("sudoku").draw(evaluated.test.read(np.array([0]))["inputs"][0].astype(np.uint8), spec)
    texts = {
        "lines.txt": f"# two puzzles\n{PUZZLE}\n\n#and another\n{'.' * 36}\n",
        "blocks.txt": f"{drawn.text()}\n\n{drawn.text()}\n",
        "puzzles.json": json.dumps([PUZZLE, "." * 36]),
    }
    (tmp_path / form).write_text(texts[form], "utf-8")
    done = predict(evaluated, "--file", str(tmp_path / form), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 2
    if form != "blocks.txt":
        assert [one["solutions"] for one in found] == [1, 2]
    assert "of 2 answers are legal" in predict(evaluated, "--file", str(tmp_path / form)).stdout


@pytest.mark.integration
def test_pictures_open(evaluated: Evaluated, tmp_path: Path) -> None:
    for name in ("a.gif", "a.png", "a.svg"):
        done = predict(evaluated, "--puzzle", PUZZLE, "--trace", "--out", str(tmp_path / "new" / name))
        assert done.returncode == 0, done.stderr
        assert f"drawn: {tmp_path / 'new' / name}" in done.stdout
    with Image.open(tmp_path / "new" / "a.gif") as image:
        assert getattr(image, "n_frames", 1) >= 4  # equal consecutive frames are merged
        assert image.width >= 480
    with Image.open(tmp_path / "new" / "a.png") as image:
        assert image.size[0] > image.size[1]
    drawn = (tmp_path / "new" / "a.svg").read_text()
    assert drawn.count("<text") > 80
    for heading in (">given<", ">answer: wrong in ", ">solution<", ">step 1: "):
        assert drawn.count(heading) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no puzzle (expected one of --puzzle TEXT, --file FILE and --row N)"),
        (["--row", "12"], "--row 12: small has 12 rows in its test split, from 0"),
        (["--puzzle", PUZZLE, "--out", "x.pdf"], "--out x.pdf: expected .png, .svg, .gif"),
        (["--file", "/nowhere.txt"], "/nowhere.txt: cannot be read (no such file)"),
    ],
)
def test_what_cannot_be_answered(evaluated: Evaluated, options: list[str], message: str) -> None:
    done = predict(evaluated, *options)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", f"{PUZZLE}\nabc\n", "a.txt:2: expected 36 characters, got 3"),
        ("a.txt", f"{PUZZLE}\n" * 1001, "1,001 puzzles, at most 1,000 are answered so"),
    ],
)
def test_files_that_are_wrong(
    evaluated: Evaluated, tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    done = predict(evaluated, "--file", str(tmp_path / name))
    assert done.returncode == 2
    assert message in done.stderr


def test_files_have_the_forms_that_a_build_reads(
    evaluated: Evaluated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file and from standard input; a puzzle may occur twice."""
    data = f"mine\n{PUZZLE}\n{PUZZLE}\n".encode()
    (tmp_path / "a.csv").write_bytes(data)
    columns = ["--columns", "question=mine"]
    done = predict(evaluated, "--file", str(tmp_path / "a.csv"), "--json", *columns)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 2
    assert found[0]["puzzle"] == found[1]["puzzle"]
    assert "".join("." if token == 1 else str(token - 1) for token in found[0]["puzzle"]) == PUZZLE
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert json.loads(predict(evaluated, "--file", "-", "--json", *columns).stdout) == found


def test_one_zero_decides_for_the_whole_file(evaluated: Evaluated, tmp_path: Path) -> None:
    """Either line alone could have digits from 1."""
    (tmp_path / "a.txt").write_text("12345" + "." * 31 + "\n" + "01234" + "." * 31 + "\n")
    solver = trm_eval.load(evaluated.record.run, evaluated.layout)
    assert [tokens[:2].tolist() for tokens in solver.read(tmp_path / "a.txt")] == [[3, 4], [2, 3]]
