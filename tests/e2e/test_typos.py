"""A word that is none of what a command knows: one line, the closest name, the way on, exit code 2."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.conftest import run_here
from trm_data.cli import main as data
from trm_data.storage.root import Layout
from trm_eval.cli import main as evaluate
from trm_train.cli import main as train


@pytest.mark.parametrize(
    ("program", "typed", "said"),
    [
        (data, "bild", "no command 'bild'; did you mean 'build'? (trm-data --help)"),
        (data, "build sudoko --size 5", "no kind or named dataset 'sudoko'; did you mean 'sudoku'?"),
        (data, "build sudoku --sise 5", "no option --sise of trm-data build sudoku; did you mean '--size'?"),
        (data, "build --size 5 sudoku", "name the kind first: trm-data build sudoku [options]"),
        (data, "build --all-for quikstart", "no experiment 'quikstart'; did you mean 'quickstart'?"),
        (data, "describe smal", "; did you mean 'small'? (trm-data list)"),
        (data, "describe --roof x", "no option --roof of trm-data describe; did you mean '--root'?"),
        (data, "list small", "small: nothing that trm-data list takes (trm-data list --help)"),
        (data, "--json list", "name the command first: trm-data COMMAND --json list"),
        (data, "sql @study", "@study: named queries are of results: trm-eval sql @study"),
        (data, "build sudoku --source cvs:x", "--source cvs:x: did you mean csv:x? allowed are 'generated', 'csv:"),
        (data, "build sudoku --source not/here.csv", "--source not/here.csv: no such file; allowed are"),
        (data, "", "name a command: build, list, describe"),
        (data, "build", "name first what to build: trm-data build KIND; a kind (arc, maze, sudoku, table) or a named"),
        (data, "build --size 5", "name first what to build: trm-data build KIND --size 5; a kind (arc, maze,"),
        (data, "build sudoku --size five", "--size: a whole number, got 'five' (trm-data build sudoku --help)"),
        (data, "build sudoku --workers x", "--workers: a whole number, got 'x' (trm-data build sudoku --help)"),
        (data, "build --all-fr quickstart", "no option --all-fr of trm-data build named; did you mean '--all-for'?"),
        (data, "build sudoku --size", "--size needs a value (trm-data build sudoku --help)"),
        (data, "build sudoku --difficulty exteme", "--difficulty: no choice 'exteme'; did you mean 'extreme'?"),
        (data, "build sudoku --engine spark", "--engine: no choice 'spark'; there are: local, ray (trm-data build"),
        (data, "sql --format jsn q", "--format: no choice 'jsn'; did you mean 'json'? (trm-data sql --help)"),
        (data, "show", "NAME missing from trm-data show (trm-data show --help)"),
        (data, "sync", "SRC and DST missing from trm-data sync (trm-data sync --help)"),
        (train, "run quickstart --optim.lr x", "--optim.lr: a number, got 'x' (trm-train run quickstart --help)"),
        (train, "run quickstart --model.mixer atention", "one of mlp_t, attention, got 'atention'; did you mean"),
        (evaluate, "run x --limit all", "--limit: a whole number, got 'all' (trm-eval run --help)"),
        (train, "run quickstart --lr 1", "no option --lr of trm-train run quickstart; did you mean '--optim.lr'?"),
        (train, "run quickstart --steps 9", "did you mean '--total-steps'?"),
        (train, "run quickstart --dataset x", "did you mean '--data.dataset'?"),
        (train, "run quickstart --optim lion", "did you mean '--optim.name'?"),
        (train, "run quickstart --epochs 9", "no option --epochs of trm-train run quickstart (trm-train run"),
        (train, "run quickstart --tracking on", "--tracking: no choice 'on'; there are: wandb, none (trm-train run"),
        (train, "run exp01*", "no experiment 'exp01*': a pattern is for batch, list, status and evaluations"),
        (train, "run quickstart --total-steps 20 --dry-run", "--optim.lr-warmup-steps N makes the warm-up shorter"),
        (train, "batch exp1[1-9]* --dry-run", "no experiment matches 'exp1[1-9]*' (trm-train list)"),
        (train, "list nope*", "no experiment matches 'nope*' (trm-train list)"),
        (train, "batch quikstart", "no experiment 'quikstart'; did you mean 'quickstart'? (trm-train list)"),
        (train, "rum quickstart", "no command 'rum'; did you mean 'run'? (trm-train --help)"),
        (train, "run quikstart", "no experiment 'quikstart'; did you mean 'quickstart'? (trm-train list)"),
        (train, "run quickstart --model.hiden-size 5", "did you mean '--model.hidden-size'?"),
        (train, "batch quickstart --model.hiden-size 5 --dry-run", "did you mean '--model.hidden-size'?"),
        (train, "batch quickstart --dryrun", "no option --dryrun of trm-train batch; did you mean '--dry-run'?"),
        (train, "list --jsn", "no option --jsn of trm-train list; did you mean '--json'?"),
        (evaluate, "sqll", "no command 'sqll'; did you mean 'sql'? (trm-eval --help)"),
        (evaluate, "sql @evls", "no query @evls; did you mean '@evals'? (trm-eval queries)"),
        (evaluate, "sql @evals --formt=csv", "no option --formt of trm-eval sql; did you mean '--format'?"),
        (evaluate, "tables stdy", "no table 'stdy'; did you mean 'study'? (trm-eval tables)"),
        (evaluate, "report quikstart", "no experiment 'quikstart'; did you mean 'quickstart'?"),
    ],
)  # fmt: skip
def test_a_typo_is_answered_in_one_line(
    small_layout: Layout,
    monkeypatch: pytest.MonkeyPatch,
    program: Callable[[list[str]], None],
    typed: str,
    said: str,
) -> None:
    monkeypatch.setenv("TRM_ROOT", small_layout.place)
    done = run_here(program, *typed.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_box_with_and_without_borders_is_one_line(encoding: str) -> None:
    typed = ["build", "sudoku", "--difficulty", "exteme"]
    done = subprocess.run(
        [sys.executable, "-m", "trm_data", *typed],
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        text=True,
        check=False,
    )
    said = "--difficulty: no choice 'exteme'; did you mean 'extreme'? (trm-data build sudoku --help)"
    assert (done.returncode, done.stderr) == (2, f"trm-data: {said}\n")


def test_on_a_terminal_with_colours_it_is_one_line() -> None:
    master, slave = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "40"}
    command = [sys.executable, "-m", "trm_data", "build", "sudoku", "--size", "a,b,c," + "long, " * 12]
    with subprocess.Popen(command, env=environment, stdout=slave, stderr=slave, stdin=slave) as process:
        os.close(slave)
        said = b""
        with contextlib.suppress(OSError):  # a terminal whose other end is closed
            while read := os.read(master, 4096):
                said += read
    os.close(master)
    assert process.returncode == 2
    assert said.decode().startswith("trm-data: --size: a whole number, got 'a,b,c,long, long, ")
    assert said.count(b"\n") == 1


def test_a_query_that_begins_with_a_comment_is_no_option(
    small_layout: Layout,
) -> None:
    query = "-- how many\nSELECT count(*) AS n FROM datasets"
    done = run_here(data, "sql", query, "--format", "csv", "--root", small_layout.place)
    assert (done.returncode, done.stdout) == (0, "n\n1\n")
