"""Sweeps: their grid, the names and records of their runs, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import polars as pl
import pytest

import trm_eval
import trm_train
from tests.conftest import error_of, run_here, small_request
from trm_data.building.flow import build_dataset
from trm_data.storage.root import Layout, resolve_root
from trm_eval.cli import main as eval_main
from trm_eval.serve.runs import runs_now
from trm_train.batch import plan_sweep
from trm_train.cli import main
from trm_train.config.overrides import parse_config
from trm_train.errors import ConfigError
from trm_train.experiments.registry import find_run_of
from trm_train.experiments.setting import OWN
from trm_train.experiments.sweep import (
    parse_grid,
    points_of_runs,
    read_sweeps,
    sweep_experiments,
    words_of_points,
    write_sweep,
)
from trm_train.runs.record import run_name

SMALL = str.split("--model.num-layers 1 --model.l-cycles 1 --optim.lr-warmup-steps 1 --total-steps 3")
GRID = ["data.dataset=small,larger", "model.hidden-size=16,32"]
SWEEP = ["batch", "quickstart", *(word for text in GRID for word in ("--sweep", text)), *SMALL]


@pytest.fixture(scope="module")
def two(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A root with `small`, of 24 puzzles and 9 augmentations, and `larger`, of 36 puzzles and 4."""
    folder = tmp_path_factory.mktemp("sweeps") / "root"
    shutil.copytree(small_layout.place, folder)
    layout = resolve_root(folder)
    build_dataset(dataclasses.replace(small_request(), name="larger", size=36, aug=4), layout)
    return layout


@pytest.fixture
def root(two: Layout, tmp_path: Path) -> Layout:
    """A copy of `two` for one test."""
    shutil.copytree(two.place, tmp_path / "root")
    return resolve_root(tmp_path / "root")


def test_a_grid_has_the_values_of_each_option_once() -> None:
    assert parse_grid(
        ["--model.hidden-size=64,96,64", "model.halt_exploration_prob=linear(0.3, 0.05),0.1"]
    ) == {
        "model.hidden_size": ("64", "96"),
        "model.halt_exploration_prob": ("linear(0.3, 0.05)", "0.1"),
    }


def test_points_are_the_configurations_of_their_options() -> None:
    base = find_run_of("quickstart").make()
    grid = parse_grid(
        ["optim.freeze_weights=false,true", "model.no_act_continue=true,false", "optim.lr=1e-3,1"]
    )
    words = words_of_points(base, grid)
    configs = [parse_config(base, [*each]) for each in words]
    assert [
        (config.optim.freeze_weights, config.model.no_act_continue, config.optim.lr)  # pyright: ignore
        for config in configs
    ] == [(frozen, more, lr) for frozen in (False, True) for more in (True, False) for lr in (0.001, 1.0)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sweep", "model.hidden_size=8", "--sweep", "model.hidden-size=16"], ("given twice", "=8,16")),
        (["--sweep", "model.hidden_size=8,,16"], ("no values", "'model.hidden_size=8,,16'")),
        (["--sweep", "model.hidden_size=8,wide"], ("model.hidden_size", "got 'wide'", "int, such as 96")),
        (["--sweep", "optim.freeze_weights=maybe"], ("optim.freeze_weights", "'maybe'", "true or false")),
        (["--sweep", "seed=1,2"], ("--sweep seed", "--seeds")),
        (["--sweep", "optim.lr=1", "--optim.lr", "2"], ("optim.lr", "--optim.lr")),
        (["--sweep", "optim.lr=1", "--name", "quickstart"], ("--name", "'quickstart'")),
        (["--sweep", "data.dataset=small,smal"], ("smal", "mean 'small'", "trm-data build", "--name smal")),
    ],
)
def test_what_cannot_be_swept_is_refused(two: Layout, arguments: list[str], said: tuple[str, ...]) -> None:
    words = ["batch", "quickstart", "--data.dataset", "small"]
    if "data.dataset" in arguments[-1]:
        words = words[:2]
    code, line = error_of(main, *words, *arguments, "--root", two.place, "--dry-run")
    assert code == 2
    assert all(each in line for each in said), line


def test_a_sweep_varies_one_experiment(two: Layout) -> None:
    code, line = error_of(main, "batch", "exp07", "--sweep", "optim.lr=1", "--root", two.place)
    assert code == 2
    assert "exp07a, exp07b" in line


def test_the_plan_has_names_words_and_costs(two: Layout) -> None:
    done = run_here(main, *SWEEP, "--seeds", "0,1", "--root", two.place, "--dry-run", "--json")
    rows = json.loads(done.stdout)
    assert [row["varies"] for row in rows[:4]] == [
        "24 puzzles x 9 augmentations x hidden_size 16",
        "24 puzzles x 9 augmentations x hidden_size 32",
        "36 puzzles x 4 augmentations x hidden_size 16",
        "36 puzzles x 4 augmentations x hidden_size 32",
    ]
    assert [row["seed"] for row in rows] == [0] * 4 + [1] * 4
    assert all(row["training_flops"] > 0 for row in rows)
    base = find_run_of("quickstart").make()
    alone = parse_config(base, [*SMALL, "--data.dataset", "larger", "--model.hidden-size", "16"])
    assert rows[2]["run"] == run_name("quickstart", alone)
    assert two.sweeps.names() == []


def test_a_record_says_what_varies_and_is_read_back(root: Layout) -> None:
    item = find_run_of("quickstart")
    sweep, runs = plan_sweep("mine", item, parse_grid(GRID), [0], root, lambda c: parse_config(c, [*SMALL]))
    write_sweep(sweep, root)
    ((read,), problems) = read_sweeps(root)
    assert (read, problems) == (sweep, [])
    widths = plan_sweep("widths", item, {"model.hidden_size": ("16", "32")}, [0], root)[0]
    assert (sweep.setting, widths.setting) == (OWN, item.setting())
    record = json.loads(root.sweeps.read("mine.json") or b"")
    assert record["points"][0]["values"] == [
        {"name": "training puzzles", "value": 24, "unit": "puzzles"},
        {"name": "augmentations", "value": 9, "unit": "augmentations"},
        {"name": "hidden_size", "value": 16, "unit": ""},
    ]
    assert [points_of_runs([read])["quickstart", point["identity"]] for point in record["points"]] == [
        {"mine": run.varies} for run in runs
    ]
    items = list(sweep_experiments([read]).values())
    assert [(one.name, one.group, one.runs_of) for one in items[:2]] == [
        ("mine_1", "mine", "quickstart"),
        ("mine_2", "mine", "quickstart"),
    ]
    assert [one.quantity.of(one.make()) for one in items if one.quantity] == [24.0, 24.0, 36.0, 36.0]
    assert items[3].series == "hidden_size 32"


def test_a_name_stands_for_one_set_of_values(root: Layout) -> None:
    item, grid = find_run_of("quickstart"), parse_grid(["data.dataset=small,larger"])
    write_sweep(plan_sweep("mine", item, grid, [0], root)[0], root)
    plan_sweep("mine", item, grid, [0, 1], root)  # further seeds belong to it
    with pytest.raises(ConfigError, match=r"mine.*got .*=larger; expected .*=small,larger,.*--name"):
        plan_sweep("mine", item, {"data.dataset": ("larger",)}, [0], root)
    with pytest.raises(ConfigError, match=r"mine.*equal other options"):
        plan_sweep("mine", item, grid, [0], root, lambda c: dataclasses.replace(c, total_steps=99))


def test_a_damaged_record_is_named_and_stops_no_query(root: Layout) -> None:
    root.sweeps.write("mine.json", b'{"format_version": 1, "digest": "0"}')
    sweeps, (problem,) = read_sweeps(root)
    assert sweeps == []
    assert "mine.json" in problem
    done = run_here(eval_main, "sql", "FROM study WHERE run IS NOT NULL", "--root", root.place)
    assert "mine.json" in done.stderr
    assert "mine.json" in run_here(main, "status", "--root", root.place).stderr


@pytest.mark.integration
def test_runs_from_python_and_the_command_are_the_same(root: Layout) -> None:
    """Trained from Python and tested; then the command plans the same runs and finds them trained."""
    runs = trm_train.sweep(
        "quickstart",
        {"data.dataset": ["small", "larger"], "model.hidden_size": [16, 32]},
        model={"num_layers": 1, "l_cycles": 1},
        optim={"lr_warmup_steps": 1},
        total_steps=3,
        seeds=[0, 1],
        name="mine",
        quiet=True,
        root=root,
    )
    for run in runs:
        trm_eval.evaluate(run, quiet=True)
    done = run_here(
        main, *SWEEP, "--seeds", "0,1", "--name", "mine", "--root", root.place, "--dry-run", "--json"
    )
    rows = json.loads(done.stdout)
    assert [row["run"] for row in rows] == [run.name for run in runs]
    assert {row["state"] for row in rows} == {"trained"}

    seeds = trm_eval.sql("@seeds", root)
    assert seeds.select("experiment", "varies", "seeds").rows() == [
        (f"mine_{number}", rows[number - 1]["varies"], 2)
        for number in (1, 3, 2, 4)  # a curve after the other
    ]
    scaling = trm_eval.sql("@data_scaling", root)
    assert scaling.select("value", "series").unique(maintain_order=True).rows() == [
        (value, f"hidden_size {width}") for width in (16, 32) for value in (24.0, 36.0)
    ]
    assert sorted(set(scaling["train_puzzles"])) == [24, 36]
    pairs = trm_eval.sql("@pairs", root)
    assert pairs.filter(pl.col("varies_a") == rows[0]["varies"]).height == 6  # the three others, of each seed
    assert error_of(main, "status", "mime", "--root", root.place)[1].count("'mine'") == 1
    status = json.loads(run_here(main, "status", "mine", "--root", root.place, "--json").stdout)
    assert {one["run"]: one["sweeps"]["mine"] for one in status} == {
        row["run"]: row["varies"] for row in rows
    }
    shown = runs_now(root, "mine", []).rows
    assert {one["run"]: one["varies"] for one in shown} == {
        row["run"]: f"mine: {row['varies']}" for row in rows
    }
    out = Path(root.place) / "report"
    run_here(eval_main, "report", "mine", "--root", root.place, "--out", str(out))
    assert (out / "mine.svg").read_text("utf-8").count("hidden_size") >= 2  # a legend entry for each curve
