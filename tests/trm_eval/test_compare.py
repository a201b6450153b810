"""Two runs on the same puzzles: counts match a plain recount, strata add up, differing settings are listed."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import run_here
from tests.recorded import recorded_root
from trm_data.storage.root import Layout, resolve_root
from trm_eval.cli import main
from trm_eval.compare import compare
from trm_eval.errors import EvalError
from trm_eval.tables.query import query_results
from trm_train.cli import main as train_main
from trm_train.experiments import registry
from trm_train.runs.record import list_runs, read_record


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, str, str]:
    """A root with two runs of different width, both tested."""
    layout = recorded_root(tmp_path_factory.mktemp("two") / "root", "evaluated", "compared")
    names = {read_record(run).config.model.hidden_size: run.name for run in list_runs(layout)}
    return layout, names[16], names[32]


def exact_of(layout: Layout, name: str) -> np.ndarray:
    query = "SELECT p.exact FROM predictions AS p JOIN evals AS e USING (evaluation) WHERE e.run = ? ORDER BY p.row"
    return np.array([row[0] for row in query_results(layout, query, [name]).rows])


@pytest.fixture
def uneven(two: tuple[Layout, str, str], monkeypatch: pytest.MonkeyPatch) -> tuple[Layout, str, str]:
    """The same root, with made-up correctness, because tiny networks are hardly ever right."""
    from trm_eval import compare as module

    asked = module.query_results

    def told(layout: Layout, sql: str, parameters: Any = ()) -> Any:
        found = asked(layout, sql, parameters)
        if "AS exact_a" not in sql:
            return found
        rows = [(row[0], row[0] % 3 == 0, row[0] % 2 == 0, *row[3:]) for row in found.rows]
        return dataclasses.replace(found, rows=rows)

    monkeypatch.setattr(module, "query_results", told)
    return two


def test_the_counts_are_those_of_the_predictions(two: tuple[Layout, str, str]) -> None:
    layout, a, b = two
    found = compare(layout, a, b)
    ours, theirs = exact_of(layout, a), exact_of(layout, b)
    assert (found.both.count, found.both.only_a, found.both.only_b) == (
        12,
        int((ours & ~theirs).sum()),
        int((theirs & ~ours).sum()),
    )
    assert (found.a.exact_accuracy, found.b.exact_accuracy) == (ours.mean(), theirs.mean())


def test_strata_are_parts_and_flips_are_all_of_them(uneven: tuple[Layout, str, str]) -> None:
    found = compare(*uneven)
    assert (found.both.only_a, found.both.only_b) == (2, 4)  # rows 3 and 9; 2, 4, 8 and 10
    assert sorted(found.flips["row"]) == [2, 3, 4, 8, 9, 10]
    assert found.flips["rating"].is_sorted(descending=True)
    for word in ("rating", "clues"):
        parts = [paired for name, paired in found.strata if word in name]
        assert sum(part.count for part in parts) == 12
        assert sum(part.only_a for part in parts) == 2
        assert sum(part.only_b for part in parts) == 4
    turned = compare(uneven[0], uneven[2], uneven[1])
    assert (turned.both.only_a, turned.both.only_b) == (
        sum(row % 3 == 0 and row % 2 for row in range(12)),
        sum(row % 2 == 0 and row % 3 != 0 for row in range(12)),
    )


@pytest.mark.integration
def test_two_ways_to_answer_of_one_run(two: tuple[Layout, str, str]) -> None:
    layout, a, _ = two
    done = run_here(main, "run", a, "--mode", "halting", "--root", layout.place, "--json")
    halting = json.loads(done.stdout)["evaluation"]
    plain = query_results(
        layout, "SELECT evaluation FROM evals WHERE run = ? AND how = 'max_steps'", [a]
    ).rows[0][0]
    found = compare(layout, plain, halting)
    assert found.settings == [("evaluation.how", "max_steps", "halting")]
    assert compare(layout, a, two[2]).a.evaluation == plain  # a run means its plain test


def test_the_command_prints_and_gives_json(two: tuple[Layout, str, str]) -> None:
    layout, a, b = two
    done = run_here(main, "compare", a, b, "--root", layout.place)
    assert done.returncode == 0, done.stderr
    assert "on 12 rows of the test split of small" in done.stdout
    assert "model.hidden_size" in done.stdout
    value = json.loads(run_here(main, "compare", a, b, "--root", layout.place, "--json").stdout)
    assert value["all"]["puzzles"] == 12
    assert value["all"]["low"] <= value["all"]["difference"] <= value["all"]["high"]
    assert {"name": "model.hidden_size", "a": 16, "b": 32} in value["settings"]


def test_what_cannot_be_compared(two: tuple[Layout, str, str], tmp_path: Path) -> None:
    layout, a, b = two
    with pytest.raises(EvalError, match="are one run"):
        compare(layout, a, a)
    with pytest.raises(
        EvalError, match="0123456789abcdef: was not evaluated yet: trm-eval sql @evals lists them"
    ):
        compare(layout, a, "0123456789abcdef")
    shutil.copytree(layout.place, tmp_path / "root", symlinks=True)
    for file in (tmp_path / "root" / "results" / "evals").rglob(f"run={b}/*.parquet"):
        file.unlink()
    with pytest.raises(EvalError, match=f"{b}: was not evaluated yet: trm-eval run {b}"):
        compare(resolve_root(tmp_path / "root"), a, b)
    done = run_here(main, "compare", a, b, "--flips", "-1")
    assert "--flips: got -1; expected at least 0" in done.stderr


STUDY = """
from dataclasses import replace
from trm_train.experiments.guide import Guide
from trm_train.experiments.quickstart import quickstart
from trm_train.experiments.registry import experiment

guide = Guide(question="?", varies="width", fixed="-", expected="-", judge_by="-")

def tiny(width):
    config = quickstart()
    return replace(
        config,
        data=replace(config.data, dataset="small", global_batch_size=8),
        model=replace(config.model, hidden_size=width, num_layers=1, h_cycles=1, l_cycles=1),
        optim=replace(config.optim, lr_warmup_steps=1),
        total_steps=3,
    )

@experiment(guide)
def narrow_net():
    return tiny(8)

@experiment(guide)
def wide_net():
    return tiny(16)
"""


@pytest.mark.integration
def test_two_experiments_are_compared_over_the_seeds_that_both_have(
    small_layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(small_layout.place, tmp_path / "root")
    monkeypatch.setenv("TRM_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("TRM_EXPERIMENTS", "")
    monkeypatch.setattr(registry, "_EXPERIMENTS", registry.load_experiments())
    study = tmp_path / "seeds_study.py"
    study.write_text(STUDY)
    try:
        runs = {}
        for name, seed in [*itertools.product(("narrow_net", "wide_net"), (0, 1)), ("narrow_net", 2)]:
            words = f"run {name} --experiments {study} --seed {seed} --tracking none --json"
            runs[name, seed] = json.loads(run_here(train_main, *words.split()).stdout)["run"]
            assert run_here(main, "run", runs[name, seed], "--json").returncode == 0
        done = run_here(main, "compare", "narrow_net", "wide_net", "--json")
        assert done.returncode == 0, done.stderr
        seeds = json.loads(done.stdout)["seeds"]
        assert [(one["seed"], one["run_a"], one["run_b"]) for one in seeds] == [
            (seed, runs["narrow_net", seed], runs["wide_net", seed]) for seed in (0, 1)
        ]
        one = run_here(main, "compare", runs["narrow_net", 0], runs["wide_net", 0], "--json")
        assert json.loads(one.stdout)["seeds"] == []
        assert "over the 2 common seeds" in run_here(main, "compare", "narrow_net", "wide_net").stdout
    finally:
        sys.modules.pop("seeds_study", None)


def test_the_difference_over_seeds_is_that_of_student(two: tuple[Layout, str, str]) -> None:
    found = compare(*two)
    assert found.seeds == []
    assert found.across_seeds is None
    pairs = [
        (
            dataclasses.replace(found.a, seed=seed, exact_accuracy=a),
            dataclasses.replace(found.b, seed=seed, exact_accuracy=b),
        )
        for seed, a, b in ((0, 0.5, 0.6), (1, 0.4, 0.6), (2, 0.5, 0.8))
    ]
    across = dataclasses.replace(found, seeds=pairs).across_seeds
    assert across is not None
    assert across.mean == pytest.approx(0.2)
    half = 4.302653 * 0.1 / 3**0.5  # Student's 97.5% quantile of 2 degrees of freedom
    assert (across.low, across.high) == (pytest.approx(0.2 - half), pytest.approx(0.2 + half))
