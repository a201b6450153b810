"""Results of the named queries, compared with the same numbers computed in Python from the written rows.

The writers of the tables write the root, with random numbers: three widths with two seeds each, an alias, a run still
in training, another scale, and a run on mazes.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import trm_eval
from tests.conftest import run_here
from tests.support.roots import root_with
from tests.trm_data.kinds.test_maze import request as maze_request
from tests.trm_train.test_loop import TINY
from trm_data.building.flow import build_dataset
from trm_data.encode import MAZE_WALL
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import read_manifest
from trm_data.storage.atomic import digest_of
from trm_data.storage.root import Layout, resolve_root
from trm_eval.cli import main
from trm_eval.statistics import Paired, across_seeds
from trm_eval.tables.live import run_row
from trm_eval.tables.named import load_query, named_queries, why_empty
from trm_eval.tables.query import query_results
from trm_eval.tables.writer import write_table
from trm_train.config.run import RunConfig
from trm_train.cost import parameters_of
from trm_train.experiments import registry
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.registry import Experiment
from trm_train.experiments.setting import Setting
from trm_train.runs.record import make_record

HERE, ELSEWHERE = Setting("tiny", "generated"), Setting("laptop", "generated")
GUIDE = Guide(question="?", varies="width", fixed="rest", expected="more", judge_by="tests")
QUANTITY = Quantity("width", "features", lambda config: config.model.hidden_size)


def width(features: int, dataset: str = "small") -> RunConfig:
    config = dataclasses.replace(TINY, model=dataclasses.replace(TINY.model, hidden_size=features))
    return dataclasses.replace(config, data=dataclasses.replace(config.data, dataset=dataset))


def made(name: str, group: str, features: int, **more: Any) -> Experiment:
    more = {"settings": (HERE,), "dataset": "small", **more}
    dataset = more.pop("dataset")
    return Experiment(
        name, group, lambda _: width(features, dataset), GUIDE, quantity=QUANTITY,
        own=lambda config: f"D {config.model.hidden_size}", **more,
    )  # fmt: skip


EXPERIMENTS = [
    made("q16", "data_widths", 16),
    made("q24", "data_widths", 24),
    made("q32", "data_widths", 32),
    made("q24_again", "other_widths", 24, aliases={"tiny": "q24"}),
    made("q16_large", "data_widths", 48, settings=(ELSEWHERE,)),
    made("q16_mazes", "data_widths", 16, dataset="mazes"),
]


@dataclass
class Wrote:
    """Values written for a run."""

    name: str
    experiment: str
    features: int
    seed: int
    scale: str
    dataset: str
    finished: bool
    train: list[dict[str, Any]] = field(default_factory=list)
    validations: list[dict[str, Any]] = field(default_factory=list)
    exact: np.ndarray = field(default_factory=lambda: np.zeros(0, np.bool_))
    halt: list[int | None] = field(default_factory=list)
    parameters: int = 0
    training_flops: float = 0.0


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    registry.load_experiments()
    before = dict(registry._EXPERIMENTS)
    for item in EXPERIMENTS:
        registry.add_experiment(item)
    yield
    registry._EXPERIMENTS.clear()
    registry._EXPERIMENTS.update(before)


@pytest.fixture(scope="module")
def layout(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    layout = root_with("small", tmp_path_factory.mktemp("queries"), small_layout)
    build_dataset(maze_request(test_size=10), layout)
    return layout


@pytest.fixture(scope="module")
def wrote(registered: None, layout: Layout) -> dict[str, Wrote]:
    draws = np.random.default_rng(11)
    chosen = [(EXPERIMENTS[i], seed, True) for i in (0, 1, 2) for seed in (0, 1)]
    chosen += [(EXPERIMENTS[0], 2, False), (EXPERIMENTS[4], 0, True), (EXPERIMENTS[5], 0, True)]
    runs = [write_run(layout, item, seed, draws, finished=finished) for item, seed, finished in chosen]
    return {run.name: run for run in runs}


def write_run(
    layout: Layout, item: Experiment, seed: int, draws: np.random.Generator, *, finished: bool
) -> Wrote:
    config = dataclasses.replace(item.make(), seed=seed)
    dataset = config.data.only_dataset()
    record = make_record(item, config, read_manifest(layout, dataset))
    where = (record.experiment, record.run)
    run = Wrote(
        record.run, record.experiment, config.model.hidden_size, seed, record.scale, dataset, finished
    )
    row = run_row(record)
    run.parameters, run.training_flops = row["parameters"], row["training_flops"]
    write_table(layout, "runs", *where, "run", [row])

    exact, seconds = np.sort(draws.integers(0, 101, 6)), np.cumsum(draws.uniform(1, 9, 12))
    for step in range(1, (12 if finished else 8) + 1):
        count = int(draws.integers(0, 9))
        steps = draws.integers(1, 4, count)
        run.train.append(
            metric_row(
                step, "train", count, int(draws.integers(0, count + 1)), seconds[step - 1],
                rows_loaded=8 * step, steps_sum=int(steps.sum()), steps_squared_sum=int((steps**2).sum()),
                step_s=float(draws.uniform(0.1, 0.9)), data_wait_s=0.01, model_flops=1e9, peak_flops_per_s=1e11,
                device_memory_bytes=1000 + step,
            )
        )  # fmt: skip
        if step % 2 == 0:
            run.validations.append(
                metric_row(step, "validation", 100, int(exact[step // 2 - 1]), seconds[step - 1] + 0.5)
            )
    write_table(layout, "train_metrics", *where, "train_metrics", [*run.train, *run.validations])
    if not finished:
        return run

    test = open_dataset(dataset, layout, "test")
    run.exact = draws.random(len(test)) < 0.5
    run.halt = [None if step == 0 else int(step) for step in draws.integers(0, 4, len(test))]
    write_test(layout, run, where, "test", test.split_digest, run.exact, 12, 2.0)
    train = open_dataset(dataset, layout, "train")
    write_test(layout, run, where, "train", train.split_digest, np.arange(10) < 9, 12, 1.0, limit=10)
    write_test(
        layout, run, where, "test", test.split_digest, ~run.exact, 6, 1.0
    )  # at an earlier step, so not a test of the run
    return run


def metric_row(step: int, split: str, count: int, exact: int, seconds: float, **more: Any) -> dict[str, Any]:
    row = {
        "step": step, "split": split, "rows_loaded": 0, "global_batch_size": 8, "count": count,
        "accuracy_sum": count * 0.5, "exact_count": exact, "q_halt_right_count": 0, "steps_sum": 0,
        "lm_loss_sum": 1.0, "q_halt_loss_sum": 1.0, "lr": 1e-3, "seconds": float(seconds),
    }  # fmt: skip
    return row | more


def write_test(
    layout: Layout, run: Wrote, where: tuple[str, str], split: str, digest: str, exact: np.ndarray, step: int,
    seconds: float, limit: int = 0, unlabelled: int = 0, **more: Any,
) -> None:  # fmt: skip
    evaluation, count = f"{run.name}-{split}-{step}{''.join(map(str, more.values()))}", len(exact)
    halt = run.halt if split == "test" else [None] * count
    part = f"{evaluation}-00000"
    rows = [
        {
            "evaluation": evaluation, "part": part, "row": i, "group_index": i, "augmentation": 0,
            "exact": bool(exact[i]) if i >= unlabelled else None, "cells": 36, "wrong_cells": 0 if exact[i] else 5 + i,
            "steps": 3, "halt_step": halt[i], "q_halt_logit": 0.5, "prediction": [1, 2],
        }
        for i in range(count)
    ]  # fmt: skip
    name = write_table(layout, "predictions", *where, part, rows)
    row = {
        "evaluation": evaluation, "step": step, "weights": "ema", "dataset": run.dataset, "split": split,
        "split_digest": digest, "row_limit": limit, "supervision_steps": 3, "count": count,
        "exact_count": int(exact.sum()), "cells": 36 * count, "wrong_cells": sum(row["wrong_cells"] for row in rows),
        "q_halt_right_count": 1, "lm_loss_sum": 1.0, "seconds": seconds, "evaluation_version": 1,
        "code_version": "x", "created_at": datetime(2026, 1, 1, tzinfo=UTC), "parts": [part],
        "part_digests": [digest_of(name)], "exact_by_depth": None, "wrong_cells_by_depth": None,
        "halting_by_depth": None, "halting_exact_by_depth": None,
    }  # fmt: skip
    row["count"] -= unlabelled
    row["exact_count"] -= int(exact[:unlabelled].sum())
    write_table(layout, "evals", *where, evaluation, [row | more])


def ask(layout: Layout, query: str) -> pl.DataFrame:
    return trm_eval.sql(query, layout)


def with_test(wrote: dict[str, Wrote], scale: str = "tiny", dataset: str = "small") -> list[Wrote]:
    return [run for run in wrote.values() if run.finished and (run.scale, run.dataset) == (scale, dataset)]


@pytest.mark.parametrize("count", [2, 31, 32, 60])
def test_seeds_have_a_t_interval_of_their_mean(layout: Layout, count: int) -> None:
    shares = np.random.default_rng(0).uniform(0.4, 0.5, count)
    wanted = across_seeds(shares.tolist())
    ends = [f"t_{end}(avg(x), stddev_samp(x), count(*)) AS {end}" for end in ("low", "high")]
    found = ask(layout, f"SELECT {', '.join(ends)} FROM (SELECT unnest({shares.tolist()}) AS x)")
    assert found.row(0) == pytest.approx((max(wanted.low, 0), min(wanted.high, 1)), abs=1e-5)
    one = ask(layout, "SELECT t_low(avg(x), stddev_samp(x), count(*)) FROM (SELECT 0.4 AS x)")
    assert one.row(0) == (None,)


def test_the_interval_of_seeds_is_that_of_their_runs(layout: Layout, wrote: dict[str, Wrote]) -> None:
    (row,) = ask(layout, "@seeds").filter(pl.col("experiment") == "q24").to_dicts()
    exact = [100 * run.exact.mean() for run in with_test(wrote) if run.experiment == "q24"]
    wanted = across_seeds(exact)
    ends = max(wanted.low, 0), min(wanted.high, 100)
    assert (row["seeds"], row["low"], row["high"]) == (2, *(pytest.approx(end, abs=0.02) for end in ends))


def test_a_query_without_rows_says_what_it_is_about(tmp_path: Path) -> None:
    said = why_empty("@seeds") or ""
    assert load_query("seeds").startswith(f"-- {said.partition(': ')[2].partition(' trm-data build')[0]}")
    assert "--sweep" in said
    assert why_empty("SELECT 1") is None
    done = run_here(main, "sql", "@seeds", "--root", str(tmp_path))
    assert said in done.stderr


OF_OTHER_EVALUATIONS = {"claims", "depth", "legal", "pass_at_k", "retention", "samples", "scaling"}
"""Queries without rows for the evaluations of these tests; test_run_command.py and test_votes.py test them."""


@pytest.mark.integration
def test_every_named_query_has_rows_of_these_runs_and_mixes_no_scales_or_data(
    layout: Layout, wrote: dict[str, Wrote]
) -> None:
    """Every row belongs to one run, or names its scale and data."""
    for name in named_queries():
        found = query_results(layout, f"@{name}")
        assert found.rows or name in OF_OTHER_EVALUATIONS, name
        assert "run" in found.columns or {"scale", "data"} <= set(found.columns), name
    alone = ask(layout, "@pairs").filter(pl.col("scale") != "tiny")
    assert not alone.height  # at other scales there is one run, with nothing to compare


def test_sizes_are_counted_from_the_shapes(layout: Layout, wrote: dict[str, Wrote]) -> None:
    spec = make_record(EXPERIMENTS[1], width(24), read_manifest(layout, "small")).input_spec
    found = ask(layout, "SELECT run, parameters FROM named_runs WHERE experiment = 'q24_again' ORDER BY seed")
    assert found["parameters"].to_list() == [parameters_of(width(24).model, spec)] * 2
    assert all(run.parameters > 0 and run.training_flops > 0 for run in wrote.values())


def test_time_to_a_goal_is_that_of_the_first_validation_that_reaches_it(
    layout: Layout, wrote: dict[str, Wrote]
) -> None:
    found = {(row["run"], row["goal"]): row for row in ask(layout, "FROM time_to").to_dicts()}
    assert len(found) == 3 * len(wrote)
    reached = 0
    for run in wrote.values():
        shares = [(row["step"], row["seconds"], row["exact_count"] / 100) for row in run.validations]
        final = shares[-1][2] if run.finished else None
        goals = {"80%": 0.8, "85%": 0.85, "95% of final": 0.95 * final if final else None}
        for goal, target in goals.items():
            first = next((x for x in shares if target is not None and x[2] >= target), (None, None))
            row = found[run.name, goal]
            assert (row["reached_step"], row["reached_seconds"]) == first[:2], (run, goal)
            assert row["final_accuracy"] == final
            reached += first[0] is not None
    assert 5 < reached < 25  # the random numbers have both

    table = ask(layout, "@time_to")
    assert sorted(table["experiment"].unique()) == sorted(item.name for item in EXPERIMENTS)
    for row in table.to_dicts():
        assert row["steps_to_80"] == found[row["run"], "80%"]["reached_step"]
        assert row["steps_to_95_of_final"] == found[row["run"], "95% of final"]["reached_step"]
        hours = found[row["run"], "85%"]["reached_seconds"]
        assert row["hours_to_85"] == (None if hours is None else pytest.approx(hours / 3600, abs=5e-4))


def test_the_gap_is_training_less_test(layout: Layout, wrote: dict[str, Wrote]) -> None:
    table = ask(layout, "@gap")
    assert table.height == len(with_test(wrote)) + 2 + 2  # two seeds of an alias, the other scale, mazes
    for row in table.to_dicts():
        run = wrote[row["run"]]
        ending = [entry for entry in run.train if entry["step"] > 0.9 * 12]
        examples = sum(entry["count"] for entry in ending)
        share = sum(entry["exact_count"] for entry in ending) / examples if examples else None
        test = float(run.exact.mean())
        assert row["train_examples"] == examples
        assert row["test_percent"] == pytest.approx(100 * test, abs=0.006)
        gap = None if share is None else pytest.approx(100 * (share - test), abs=0.006)
        assert row["gap_points"] == gap
        assert row["known_examples"] == 10
        assert row["known_gap_points"] == pytest.approx(100 * (0.9 - test), abs=0.006)
    assert table["gap_points"].null_count() < table.height


def test_the_pareto_front_is_what_nothing_beats_for_as_little(
    layout: Layout, wrote: dict[str, Wrote]
) -> None:
    found = ask(layout, "FROM pareto WHERE scale = 'tiny' AND measure <> 'train_seconds'")
    alike = [with_test(wrote), with_test(wrote, dataset="mazes")]
    assert found.height == 2 * sum(map(len, alike))
    for measure in ("parameters", "training_flops"):
        for runs in alike:
            points = {run.name: (getattr(run, measure), float(run.exact.mean())) for run in runs}
            for name, (cost, share) in points.items():
                better = [
                    (c, s) for c, s in points.values() if c <= cost and s >= share and (c, s) != (cost, share)
                ]
                (row,) = found.filter(run=name, measure=measure).to_dicts()
                assert (row["cost"], row["on_front"]) == (cost, not better)
    names = found.filter(pl.col("run").str.starts_with("q24-"))["experiments"].to_list()
    assert names == [["q24", "q24_again"]] * 4
    front = ask(layout, "@pareto")
    assert 0 < front.filter(scale="tiny").height < found.height
    assert front.filter(scale="laptop").height == 2  # alone at its scale, so not beaten


def test_pairs_and_their_puzzles(layout: Layout, wrote: dict[str, Wrote]) -> None:
    table, puzzles = ask(layout, "@pairs"), ask(layout, "@disagreement")
    by_key = {(run.experiment, run.seed): run for run in with_test(wrote)}
    expected = [(a, b, seed) for a, b in itertools.combinations(["q16", "q24", "q32"], 2) for seed in (0, 1)]
    assert sorted(zip(table["experiment_a"], table["experiment_b"], table["seed"], strict=True)) == sorted(
        expected
    )
    for row in table.to_dicts():
        a, b = (by_key[row[f"experiment_{side}"], row["seed"]].exact for side in "ab")
        paired = Paired(12, int((a & ~b).sum()), int((b & ~a).sum()))
        assert (row["puzzles"], row["only_a"], row["only_b"]) == (12, paired.only_a, paired.only_b)
        assert row["both_right"] == int((a & b).sum())
        assert row["b_better_points"] == pytest.approx(100 * paired.difference, abs=0.006)
        mine = puzzles.filter(run_a=row["run_a"], run_b=row["run_b"])
        assert sorted(mine["row"]) == np.flatnonzero(a != b).tolist()
        assert all(a[one["row"]] == one["exact_a"] != one["exact_b"] for one in mine.to_dicts())
        assert mine["rating"].null_count() == mine["clues"].null_count() == 0
        assert mine["rating"].to_list() == sorted(mine["rating"], reverse=True)
    assert puzzles.height == table["only_a"].sum() + table["only_b"].sum()

    seeds = sorted(name for name in wrote if name.startswith("q24-"))
    any_two = ask(
        layout, f"SELECT row FROM disagreements WHERE run_a = '{seeds[1]}' AND run_b = '{seeds[0]}'"
    )
    of_seeds = [wrote[name].exact for name in seeds]
    assert sorted(any_two["row"]) == np.flatnonzero(of_seeds[0] != of_seeds[1]).tolist()


@pytest.mark.integration
def test_a_sweep_beyond_the_steps_of_training_changes_no_pair_and_no_dataset(
    layout: Layout, wrote: dict[str, Wrote], tmp_path: Path
) -> None:
    """A newer test of one run with 128 steps, all correct: comparisons of runs still use the default tests."""
    queries = ("@disagreement", "@pairs", "@datasets", "@speed")
    before = [ask(layout, query) for query in queries]
    copy = resolve_root(shutil.copytree(layout.place, tmp_path / "root", symlinks=True))
    run = next(run for run in wrote.values() if run.finished and run.experiment == "q32")
    digest = open_dataset("small", copy, "test").split_digest
    later = {"supervision_steps": 128, "created_at": datetime(2026, 2, 1, tzinfo=UTC)}
    write_test(copy, run, (run.experiment, run.name), "test", digest, run.exact | True, 12, 2.0, **later)
    for query, frame in zip(queries, before, strict=True):
        assert ask(copy, query).equals(frame), query
    both = ask(copy, f"SELECT DISTINCT supervision_steps FROM disagreements WHERE run_a = '{run.name}'")
    assert both["supervision_steps"].to_list() == [3]


@pytest.mark.integration
def test_rows_without_labels_are_in_no_share(layout: Layout, wrote: dict[str, Wrote], tmp_path: Path) -> None:
    copy = resolve_root(shutil.copytree(layout.place, tmp_path / "root", symlinks=True))
    digest = open_dataset("small", copy, "test").split_digest
    exact = np.arange(12) >= 8
    runs = [
        run for run in wrote.values() if run.finished and run.experiment in ("q16", "q32") and run.seed == 0
    ]
    for run in runs:
        later = {"created_at": datetime(2026, 2, 1, tzinfo=UTC)}
        where = (run.experiment, run.name)
        write_test(copy, run, where, "test", digest, exact, 12, 2.0, unlabelled=6, **later)
        for query in ("accuracy_by_rating", "accuracy_by_clues"):
            rows = ask(copy, f"@{query}").filter(run=run.name, split="test", step=12)
            assert (rows["puzzles"].sum(), rows["exact"].sum()) == (6, 4), query
    pairs = ask(copy, "@pairs").filter(run_a=runs[0].name, run_b=runs[1].name)
    assert pairs.select("puzzles", "both_right").rows() == [(6, 4)]


def test_halting_is_not_called_right_where_nothing_is_solved(
    layout: Layout, wrote: dict[str, Wrote], tmp_path: Path
) -> None:
    copy = resolve_root(shutil.copytree(layout.place, tmp_path / "root", symlinks=True))
    run = next(run for run in wrote.values() if run.finished and run.experiment == "q16")
    later = {"created_at": datetime(2026, 2, 1, tzinfo=UTC)}
    digest = open_dataset("small", copy, "test").split_digest
    write_test(copy, run, (run.experiment, run.name), "test", digest, run.exact & False, 12, 2.0, **later)
    rows = ask(copy, "@evals").filter(run=run.name, split="test").sort("step")
    assert rows["exact_percent"][1] == 0 < rows["exact_percent"][0]
    assert rows["q_halt_right_percent"][1] is None
    assert rows["q_halt_right_percent"][0] == pytest.approx(100 / len(run.exact), abs=0.006)


def test_predicted_mazes_have_their_paths_and_walls(layout: Layout, wrote: dict[str, Wrote]) -> None:
    """Walls are counted in the mazes."""
    columns = "SELECT DISTINCT group_index, path_length, walls FROM"
    facts = ask(layout, f"{columns} puzzles WHERE dataset = 'mazes' AND split = 'test' ORDER BY ALL")
    name = next(iter(with_test(wrote, dataset="mazes"))).name
    table = ask(layout, f"{columns} predicted_puzzles WHERE run = '{name}' AND split = 'test' ORDER BY ALL")
    assert table.rows() == facts.rows()
    test = open_dataset("mazes", layout, "test")
    walls = (test.read(np.arange(len(test)))["inputs"] == MAZE_WALL).sum(axis=1)
    assert table["walls"].to_list() == walls.tolist()


def test_shares_by_clues_and_by_path_length(layout: Layout, wrote: dict[str, Wrote]) -> None:
    for query, column, dataset in (
        ("accuracy_by_clues", "clues", "small"),
        ("accuracy_by_path_length", "path_length", "mazes"),
    ):
        facts = ask(
            layout,
            f"SELECT {column} FROM puzzles WHERE dataset = '{dataset}' AND split = 'test' ORDER BY group_index",
        )
        table = ask(layout, f"@{query}").filter(step=12, split="test")
        for run in with_test(wrote, dataset=dataset):
            strata: dict[int, list[bool]] = {}
            for value, exact in zip(facts[column], run.exact, strict=True):
                strata.setdefault(value if column == "clues" else value // 10 * 10, []).append(bool(exact))
            mine = table.filter(run=run.name)
            assert mine["clues" if column == "clues" else "path_from"].to_list() == sorted(strata)
            for row, (_, right) in zip(mine.to_dicts(), sorted(strata.items()), strict=True):
                interval = stats.binomtest(sum(right), len(right)).proportion_ci(method="wilson")
                assert (row["puzzles"], row["exact"]) == (len(right), sum(right))
                assert (row["low"], row["high"]) == pytest.approx(
                    (100 * interval.low, 100 * interval.high), abs=0.006
                )


def test_halting_speed_and_what_accuracy_costs(layout: Layout, wrote: dict[str, Wrote]) -> None:
    halting, speed, efficiency = (
        ask(layout, f"@{name}") for name in ("halting_steps", "speed", "efficiency")
    )
    assert halting.height == efficiency.height == 10
    assert speed.height == 11  # and the run in training
    for row in halting.to_dicts():
        run = wrote[row["run"]]
        steps = [step for step in run.halt if step is not None]
        assert (row["puzzles"], row["never"]) == (len(run.halt), len(run.halt) - len(steps))
        assert row["mean_halt_step"] == pytest.approx(np.mean(steps), abs=0.006)
        assert row["halt_step_std"] == pytest.approx(np.std(steps, ddof=1), abs=0.006)
        ending = [entry for entry in run.train if entry["step"] > 0.9 * 12]
        count, total, squares = (
            sum(entry[name] for entry in ending) for name in ("count", "steps_sum", "steps_squared_sum")
        )
        if count:
            assert row["train_mean_steps"] == pytest.approx(total / count, abs=0.006)
            spread = math.sqrt(max(squares / count - (total / count) ** 2, 0))
            assert row["train_steps_std"] == pytest.approx(spread, abs=0.006)
    for row in speed.to_dicts():
        run = wrote[row["run"]]
        slots, seconds = 8 * len(run.train), sum(entry["step_s"] for entry in run.train)
        assert row["examples_per_s"] == pytest.approx(slots / seconds, abs=0.06)
        assert row["overall_examples_per_s"] == pytest.approx(slots / run.train[-1]["seconds"], abs=0.06)
        assert row["device_memory_bytes"] == 1000 + len(run.train)
        assert row["parameters"] == run.parameters
        rate = len(run.exact) * 2 / 3.0 if run.finished else None  # 2 s and 1 s for its two tests
        assert row["test_puzzles_per_s"] == (None if rate is None else pytest.approx(rate, abs=0.06))
    for row in efficiency.to_dicts():
        run = wrote[row["run"]]
        per_million = 100 * run.exact.mean() / (run.parameters / 1e6)
        assert row["points_per_million_parameters"] == pytest.approx(per_million, abs=0.006)
        assert row["training_flops"] == run.training_flops


def test_data_and_seeds(layout: Layout, wrote: dict[str, Wrote]) -> None:
    scaling, datasets, seeds = (ask(layout, f"@{name}") for name in ("data_scaling", "datasets", "seeds"))
    assert scaling.filter(scale="tiny", dataset="small")["value"].to_list() == [16, 16, 24, 24, 32, 32]
    assert set(scaling.filter(dataset="small").select("train_puzzles", "train_rows", "passes").rows()) == {
        (24, 240, 0.4)  # 96 rows loaded
    }
    (small,) = datasets.filter(dataset="small", scale="tiny").to_dicts()
    shares = [100 * float(run.exact.mean()) for run in with_test(wrote)]
    assert (small["runs"], small["tested_runs"], small["rows_taken"]) == (7, 6, 6 * 96 + 64)
    assert small["most_exact_percent"] == pytest.approx(max(shares), abs=0.006)
    for row in seeds.filter(scale="tiny").to_dicts():
        own = row["alias_of"] or row["experiment"]
        of_seeds = [
            100 * float(run.exact.mean()) for run in wrote.values() if run.experiment == own and run.finished
        ]
        assert row["seeds"] == len(of_seeds)
        assert row["mean_percent"] == pytest.approx(np.mean(of_seeds), abs=0.006)
        spread = None if len(of_seeds) < 2 else pytest.approx(np.std(of_seeds, ddof=1), abs=0.006)
        assert row["std_points"] == spread


def test_a_run_of_before_has_no_spread_of_steps_rather_than_none(
    layout: Layout, wrote: dict[str, Wrote]
) -> None:
    """Older files have no sum of squares; the missing value is NULL, not a spread of 0."""
    found = ask(
        layout, "SELECT DISTINCT steps_squared_sum, steps_std FROM train_metrics WHERE split = 'validation'"
    )
    assert found.rows() == [(None, None)]
