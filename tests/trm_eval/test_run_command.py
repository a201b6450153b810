"""`trm-eval run` on one or several runs, on all checkpoints, and with several depths."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import error_of, run_here
from tests.recorded import recorded_root
from tests.trm_eval.conftest import Evaluated
from tests.trm_eval.test_foreign_runs import beside
from tests.trm_train.test_loop import EXPERIMENT, TINY
from trm_data.building.flow import build_dataset
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_eval.cli import main
from trm_eval.tables.query import query_results
from trm_train.config.run import identity_hash
from trm_train.errors import ConfigError
from trm_train.experiments.registry import Experiment
from trm_train.experiments.setting import OWN
from trm_train.runs import record
from trm_train.runs import status as find
from trm_train.runs.record import CONFIG_FILE, list_runs, read_record, run_folder, write_record
from trm_train.runs.status import find_runs


@pytest.fixture
def layout(evaluated: Evaluated, tmp_path: Path) -> Layout:
    shutil.copytree(evaluated.layout.place, tmp_path / "root", symlinks=True)
    return resolve_root(tmp_path / "root")


@pytest.mark.integration
def test_all_checkpoints_of_several_runs(trained: Evaluated, tmp_path: Path) -> None:
    layout = resolve_root(shutil.copytree(trained.layout.place, tmp_path / "root", symlinks=True))
    done = run_here(
        main, "run", "tin*", "--checkpoint", "all", "--split", "validation", "--root", layout.place, "--json"
    )
    assert done.returncode == 0, done.stderr
    assert [(row["step"], row["split"]) for row in json.loads(done.stdout)] == [
        (4, "validation"),
        (8, "validation"),
        (12, "validation"),
    ]
    said = run_here(main, "run", "tiny", "--checkpoint", "all", "--root", layout.place)
    assert said.stdout.count("exact accuracy") == 3
    assert "by number of wrong cells" not in said.stdout


def test_a_glob_finds_aliases_too(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, `exp01*` finds the baseline's run, which belongs to exp01c."""
    (run,) = list_runs(layout)
    setting = OWN
    items = {
        "tiny": Experiment("tiny", "testing", lambda _: TINY, settings=(setting,)),
        "other_a": Experiment("other_a", "testing", lambda _: TINY, None, {setting: "tiny"}, (setting,)),
    }
    monkeypatch.setattr(find, "load_experiments", lambda: items)
    monkeypatch.setattr(record, "load_experiments", lambda: items)
    assert [found.name for found in find_runs(layout, ["other*"], setting)] == [run.name]


def test_runs_are_found_once_by_names_and_globs(layout: Layout) -> None:
    (run,) = list_runs(layout)
    assert [found.name for found in find_runs(layout, ["tiny", run.name, "t*", "*-s0"])] == [run.name]
    with pytest.raises(ConfigError, match=r"no run fits 'x\*' under .*trm-train status"):
        find_runs(layout, ["tiny", "x*"])


def test_what_is_no_number_of_steps() -> None:
    done = run_here(main, "run", "tiny", "--steps", "2,-1")
    assert done.returncode == 2
    assert "--steps: got '2,-1'; expected whole numbers of at least 1, separated by commas" in done.stderr


def test_no_run_and_no_rows() -> None:
    assert "no run named (expected trm-eval run RUN" in run_here(main, "run").stderr
    assert "--limit: got -1; expected at least 0" in run_here(main, "run", "tiny", "--limit", "-1").stderr


OTHER_SAMPLES = ["--samples", "2", "--noise", "0.5", "--select", "first_halt", "--sample-seed", "4"]


@pytest.mark.integration
def test_every_way_to_answer_is_an_evaluation_of_its_own(layout: Layout) -> None:
    """None replaces another, each records its mode, and the study uses only the published one."""
    ways = [
        ("max_steps", []),
        ("halting", ["--mode", "halting"]),
        ("3 samples, noise 0.3, halt_logit", ["--samples", "3"]),
        ("3 samples, noise 0.3, mode", ["--samples", "3", "--select", "mode"]),
        ("2 samples, noise 0.5, first_halt, seed 4", OTHER_SAMPLES),
        ("max_steps, blank identifiers", ["--identifiers", "blank"]),
        ("max_steps, rows drawn by seed 9", ["--limit", "5", "--subset-seed", "9"]),
    ]  # fmt: skip
    for how, options in [*ways, ways[0], ways[4]]:  # two again: each replaces itself
        done = run_here(main, "run", "tiny", *options, "--root", layout.place)
        assert done.returncode == 0, done.stderr
        assert (f"split of small, {how}\n" in done.stdout) is (how != "max_steps")
    found = query_results(
        layout, "SELECT how, count, spent_steps, compile_seconds > 0, samples FROM evals"
    ).rows
    assert sorted(row[0] for row in found) == sorted(how for how, _ in ways)
    by_how = {row[0]: row[1:] for row in found}
    assert by_how["max_steps, rows drawn by seed 9"] == (5, 15, True, None)
    assert by_how["3 samples, noise 0.3, mode"] == (12, 12 * 3 * 3, True, 3)
    assert by_how["halting"][1] <= 36
    counted = (
        "SELECT e.how, count(*), count(p.sample), count(p.oracle_exact) "
        "FROM predictions AS p JOIN evals AS e USING (evaluation) GROUP BY 1"
    )
    for how, rows, chosen, oracle in query_results(layout, counted).rows:
        assert rows == by_how[how][0]
        assert chosen == oracle == (rows if "samples" in how else 0)
    curve = query_results(
        layout,
        "SELECT samples, exact_count <= oracle_exact_count FROM samples WHERE selection = 'mode' ORDER BY 1",
    )
    assert curve.rows == [(1, True), (2, True), (3, True)]
    assert "any_of_percent" in run_here(main, "run", "tiny", "--samples", "3", "--root", layout.place).stdout


def test_what_was_evaluated_is_said_where_other_results_are_damaged(layout: Layout) -> None:
    (folder,) = list_runs(layout)
    name = folder.name
    (victim,) = Path(layout.place).glob(f"results/evals/**/run={name}/*.parquet")
    victim.write_bytes(victim.read_bytes()[:-1])
    done = run_here(main, "run", name, "--limit", "4", "--root", layout.place)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith(f"{name}: exact accuracy ")
    assert f"written, but the tables cannot be read: {victim}: its bytes are not those" in done.stderr


def test_a_dataset_of_another_encoding_is_refused(layout: Layout, request_small: Any) -> None:
    build_dataset(
        request_small(options=SudokuOptions(box_rows=2, box_columns=2), size=4, name="narrow"),
        layout,
        shard_examples=200,
    )
    done = run_here(main, "run", "tiny", "--dataset", "narrow", "--root", layout.place)
    assert done.returncode == 2
    assert "--dataset narrow: has 16 cells a row, the run's network takes 36" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--noise", "0.3"], "--noise, --select and --sample-seed: require --samples K"),
        (["--samples", "2", "--mode", "halting"], "not with --samples"),
        (["--subset-seed", "1"], "a number from 0 on that draws --limit N rows; give both"),
    ],
)
def test_wishes_that_exclude_each_other(options: list[str], message: str) -> None:
    done = run_here(main, "run", "tiny", *options)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.fixture
def several(tmp_path: Path) -> tuple[Layout, Folder, Folder]:
    """A root with the recorded run, that run, and a run next to it that has taken no step."""
    layout = recorded_root(tmp_path, "evaluated")
    (run,) = list_runs(layout)
    config = dataclasses.replace(TINY, seed=1)
    new = run_folder(layout, EXPERIMENT, config)
    changed = {"config": config, "run": new.name, "identity": identity_hash(config)}
    write_record(new, dataclasses.replace(read_record(run), **changed))
    return layout, run, new


def test_of_a_glob_the_runs_that_can_be_are_evaluated_and_the_others_named(
    several: tuple[Layout, Folder, Folder],
) -> None:
    layout, run, new = several
    foreign = [beside(layout, run, model={"mixer": "gru"}), beside(layout, run, format_version=99)]
    for checkpoint in ("last", "all"):
        done = run_here(
            main, "run", "tiny*", "--limit", "2", "--checkpoint", checkpoint, "--root", layout.place, "--json"
        )
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)
        assert (rows["step"], rows["count"]) == (12, 2)
        for skipped in (new, *foreign):
            assert f"skipped {skipped.name}: " in done.stderr


@pytest.mark.integration
def test_of_a_glob_a_damaged_run_is_skipped_with_exit_code_1(several: tuple[Layout, Folder, Folder]) -> None:
    layout, _, new = several
    new.write(CONFIG_FILE, b"{")
    for words in (["tiny*"], ["*", "--scale", "own"]):
        done = run_here(main, "run", *words, "--limit", "2", "--root", layout.place)
        assert (done.returncode, f"skipped {new.name}: " in done.stderr) == (1, True), done.stderr
        assert "exact accuracy" in done.stdout


def test_runs_that_are_named_themselves_must_be_evaluated(several: tuple[Layout, Folder, Folder]) -> None:
    layout, _, new = several
    code, line = error_of(main, "run", new.name, "--root", layout.place)
    assert (code, f"{new.name}: has no checkpoint yet" in line) == (2, True)
