"""`trm-eval sql`: every form of an answer, and a query from a pipe."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import run_here
from tests.trm_eval.conftest import Evaluated
from trm_eval.cli import main

QUERY = "SELECT 1 AS a, 'x|y' AS b, NULL AS c, 0.5::DOUBLE AS d UNION ALL SELECT 2, 'two\nlines', 3, 1e-9 ORDER BY a"


def sql(evaluated: Evaluated, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_here(main, "sql", *arguments, "--root", evaluated.layout.place)


def test_a_root_that_is_not_there_is_no_empty_one(tmp_path: Path) -> None:
    gone = str(tmp_path / "typo")
    for command in (
        ["sql", "@evals", "--root", gone],
        ["duckdb", str(tmp_path / "x.duckdb"), "--root", gone],
        ["report", "quickstart", "--out", str(tmp_path / "r"), "--root", gone],
    ):
        done = run_here(main, *command)
        assert (done.returncode, done.stdout) == (2, ""), command
        assert f"no root at {gone}: nothing was built or trained there" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["table", "csv", "json", "markdown", "parquet"])
def test_every_form_goes_to_a_file_whole(evaluated: Evaluated, tmp_path: Path, form: str) -> None:
    path = tmp_path / "answer"
    path.write_text("old")
    arguments = ["--format", form, "--out", str(path), "--root", evaluated.layout.place]
    done = run_here(main, "sql", QUERY, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{path}: 2 rows, {form}\n", "")
    assert [left.name for left in tmp_path.iterdir()] == ["answer"]
    if form == "parquet":
        assert pl.read_parquet(path)["d"].to_list() == [0.5, 1e-9]
    else:
        assert path.read_text() == run_here(main, "sql", QUERY, *arguments[:2], *arguments[4:]).stdout
    bad = run_here(main, "sql", "SELECT nothing", *arguments)
    assert bad.returncode == 2
    assert path.exists()


def test_the_ending_of_a_file_says_what_it_holds(evaluated: Evaluated, tmp_path: Path) -> None:
    def write(name: str, *more: str) -> subprocess.CompletedProcess[str]:
        return run_here(
            main, "sql", QUERY, "--out", str(tmp_path / name), *more, "--root", evaluated.layout.place
        )

    for name, form in (("a.csv", "csv"), ("b.JSON", "json"), ("c.md", "markdown"), ("d.parquet", "parquet")):
        assert write(name).stdout == f"{tmp_path / name}: 2 rows, {form}\n"
    assert write("e.csv", "--format", "markdown").stdout.endswith("2 rows, markdown\n")
    assert len(json.loads((tmp_path / "b.JSON").read_text())) == 2
    for arguments, words in (
        (["x.xlsx"], "x.xlsx: unknown file name ending (expected .csv, .json, .md, .parquet, .txt)"),
        (["x.csv", "--json", "--format", "csv"], "--json and --format csv: one of them"),
    ):
        refused = write(*arguments)
        assert (refused.returncode, words in refused.stderr) == (2, True), refused.stderr


@pytest.mark.integration
def test_parquet_keeps_types_and_comes_through_a_pipe(evaluated: Evaluated) -> None:
    words = "SELECT run, created_at, exact_by_depth, exact_accuracy FROM evals", "--format", "parquet"
    command = [sys.executable, "-m", "trm_eval", "sql", *words, "--root", evaluated.layout.place]
    done = subprocess.run(command, capture_output=True, check=True)
    frame = pl.read_parquet(io.BytesIO(done.stdout))
    assert frame["run"].to_list() == [evaluated.record.run]
    assert frame.schema["created_at"] == pl.Datetime("us", "UTC")
    assert frame.schema["exact_by_depth"] == pl.List(pl.Int64)
    empty = sql(evaluated, "SELECT step FROM evals WHERE false", "--format", "csv")
    assert empty.stdout == "step\n"


def test_a_query_comes_from_a_pipe(evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT count(*) AS n\nFROM runs;\n"))
    assert sql(evaluated, "--format", "csv").stdout == "n\n1\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(" \n"))
    done = sql(evaluated)
    assert (done.returncode, "no query in standard input" in done.stderr) == (2, True)
