"""Descriptions of runs: how they differ from their experiment, their dataset, and their label."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import trm_eval
from tests.conftest import run_here
from tests.support.roots import root_with
from tests.trm_train.test_loop import EXPERIMENT, TINY
from tests.trm_train.test_loop import run as train_tiny
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_train.cli import main
from trm_train.config.optim import AdamWConfig
from trm_train.config.run import RunConfig, differences
from trm_train.errors import ConfigError
from trm_train.experiments.registry import find_experiment
from trm_train.runs.record import make_record, read_record, run_folder, write_record

QUICKSTART = find_experiment("quickstart")
CHANGED = "data.dataset=mine6, total_steps=400"


def changed(config: RunConfig, **parts: Any) -> RunConfig:
    """Return a configuration with other values in its parts."""
    fields = {
        name: dataclasses.replace(getattr(config, name), **part) if isinstance(part, dict) else part
        for name, part in parts.items()
    }
    return dataclasses.replace(config, **fields)


@pytest.fixture
def layout(small_layout: Layout, tmp_path: Path) -> Layout:
    """The quickstart unchanged, and one of 400 steps on another dataset; neither took a step."""
    layout = resolve_root(tmp_path)
    manifest = read_manifest(small_layout, "small")
    plain = QUICKSTART.make()
    other = changed(plain, data={"dataset": "mine6"}, total_steps=400)
    for config, label in ((plain, ""), (other, "first try")):
        record = make_record(QUICKSTART, config, manifest)
        write_record(run_folder(layout, QUICKSTART, config), dataclasses.replace(record, label=label))
    return layout


def said(layout: Layout, *arguments: str) -> Any:
    done = run_here(main, *arguments, "--root", layout.place)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def other_run(layout: Layout) -> str:
    return next(one["run"] for one in said(layout, "status", "--json") if one["differs"])


def test_only_what_changes_the_mathematics_differs_in_the_order_of_the_configuration() -> None:
    plain = QUICKSTART.make()
    assert differences(plain, plain) == {}
    assert differences(changed(plain, execution={"log_every": 7}), plain) == {}
    both = changed(plain, optim={"lr": 0.5}, model={"mixer": "attention"}, seed=3)
    assert differences(both, plain) == {"model.mixer": "attention", "optim.lr": 0.5, "seed": 3}
    adamw = changed(plain, optim=AdamWConfig(lr_warmup_steps=1))
    assert differences(adamw, plain)["optim.name"] == "adamw"
    assert "optim.epsilon" not in differences(adamw, plain)  # the default of the form


def test_a_status_says_what_differs_and_the_dataset(layout: Layout) -> None:
    facts = {one["differs"]: one for one in said(layout, "status", "--json")}
    assert set(facts) == {"", CHANGED}
    assert (facts[CHANGED]["dataset"], facts[CHANGED]["label"]) == ("mine6", "first try")
    lines = said(layout, "status", "--wide").splitlines()
    assert any(CHANGED in line and "mine6" in line and "first try" in line for line in lines)


def test_of_an_experiment_that_is_not_known_nothing_is_said_to_differ(
    small_layout: Layout, tmp_path: Path
) -> None:
    layout = resolve_root(tmp_path)
    record = make_record(EXPERIMENT, TINY, read_manifest(small_layout, "small"))
    write_record(run_folder(layout, EXPERIMENT, TINY), record)
    (one,) = said(layout, "status", "--json")
    assert one["differs"] is None
    assert trm_eval.sql("SELECT differs FROM runs", layout).rows() == [(None,)]


@pytest.mark.integration
def test_a_label_stays_until_another_is_given(small_layout: Layout, tmp_path: Path) -> None:
    layout = root_with("small", tmp_path, small_layout)
    short = dataclasses.replace(TINY, total_steps=4)

    def label_after(**options: Any) -> str:
        folder: Folder = train_tiny(layout, short, **options).folder
        return read_record(folder).label

    assert label_after(label="first try") == "first try"
    assert label_after() == "first try"
    assert label_after(label="second") == "second"
    with pytest.raises(ConfigError, match="--label: "):
        label_after(label="a\nb")
