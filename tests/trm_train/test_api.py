"""Training and evaluation from Python, and the example loop: results equal those that the commands write."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trm_eval
import trm_train
from tests.conftest import PROJECT
from tests.support.scripts import load_script
from tests.trm_train.test_loop import TINY
from trm_data.errors import DatasetNotFoundError
from trm_data.storage.root import Layout, resolve_root
from trm_train.api import with_options
from trm_train.config.model import HRMConfig
from trm_train.config.values import Linear
from trm_train.errors import ConfigError

OPTIONS: dict[str, Any] = {
    "dataset": "small",
    "model": {"hidden_size": 16, "num_heads": 2, "num_layers": 1, "h_cycles": 2, "l_cycles": 2},
    "optim": {"lr_warmup_steps": 5},
    "data": {"global_batch_size": 8},
    "execution": {"log_every": 10, "validate_every": 0},
    "quiet": True,
}


@pytest.fixture
def layout(small_layout: Layout, tmp_path: Path) -> Layout:
    """A separate root with the dataset `small`."""
    shutil.copytree(small_layout.place, tmp_path / "root")
    return resolve_root(tmp_path / "root")


@pytest.mark.integration
def test_a_run_from_python_is_trained_evaluated_and_asked(
    layout: Layout, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[tuple[int, str, dict[str, float]]] = []
    run = trm_train.train(
        "quickstart", total_steps=20, on_metrics=lambda *one: told.append(one), root=layout, **OPTIONS
    )
    assert (run.step, run.finished) == (20, True)
    assert capfd.readouterr() == ("", "")
    assert run.name in repr(run)
    assert Path(run.folder).name == run.name
    frame = run.metrics()
    rows = frame.filter(frame["split"] == "train")
    assert rows["step"].to_list() == list(range(1, 21))
    sql = trm_eval.sql(f"SELECT lm_loss FROM train_metrics WHERE run = '{run.name}' ORDER BY step", layout)
    assert rows["lm_loss"].to_list() == sql["lm_loss"].to_list()
    assert [(step, split) for step, split, _ in told] == [(10, "train"), (20, "train")]
    assert told[-1][2]["lm_loss"] == pytest.approx(rows["lm_loss"][10:].mean())
    again = trm_train.train("quickstart", total_steps=20, root=layout, **OPTIONS)
    assert again.name == run.name

    result = trm_eval.evaluate(run, quiet=True, limit=3)
    assert (result.run, result.row["count"]) == (run.name, 3)
    assert run.name in str(result)
    assert trm_eval.sql("FROM predictions", layout).height == 3
    started = trm_train.train("quickstart", total_steps=10, init_from=run.name, root=layout, **OPTIONS)
    assert started.name != run.name
    assert started.metrics()["lm_loss"][0] < rows["lm_loss"][0]


@pytest.mark.integration
def test_the_loop_of_the_examples_has_the_losses_of_the_command(layout: Layout) -> None:
    example = load_script(PROJECT / "examples" / "loop.py")
    assert (PROJECT / "examples" / "loop.py").read_text().count("\n") <= 120
    run = trm_train.train("quickstart", total_steps=50, root=layout, **OPTIONS)
    config = with_options(
        example.configure("quickstart", "small", 50),
        {key: OPTIONS[key] for key in ("model", "optim", "data")},
    )
    found = [metrics["lm_loss"] for _, metrics in example.train(config, layout)]
    frame = run.metrics()
    wanted = frame.filter(frame["split"] == "train")["lm_loss"].to_list()
    np.testing.assert_allclose(found[:50], wanted, rtol=1e-5)
    assert len(found) == 51


def test_experiments_are_a_frame() -> None:
    frame = trm_train.list_experiments(["quickstart"])
    assert frame["name"].to_list() == ["quickstart"]
    assert frame.columns == ["name", "group", "question", "varies", "dataset", "setting"]
    assert trm_train.list_experiments().height > 80


def test_options_take_forms_and_schedules() -> None:
    config = with_options(
        TINY,
        {
            "model": {"architecture": "hrm", "num_layers": 2, "halt_exploration_prob": "linear(0.3, 0.1)"},
            "optim": {"name": "adamw", "epsilon": 1e-6},
            "loss": {"cells": "softmax"},
        },
    )
    assert isinstance(config.model, HRMConfig)
    assert (config.model.num_layers, config.model.halt_exploration_prob) == (2, Linear(0.3, 0.1))
    assert config.model.hidden_size == TINY.model.hidden_size
    assert config.loss.cells == "softmax"


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"model": {"hidden_size": "64"}}, "model.hidden_size"),
        ({"optim": {"lr": "fast"}}, "optim.lr"),
        ({"model": {"architecture": "transformer", "l_cycles": 3}}, "model.l_cycles"),
    ],
)
def test_options_that_cannot_be_name_the_option(options: dict[str, Any], key: str, layout: Layout) -> None:
    with pytest.raises(ConfigError) as error:
        trm_train.train("quickstart", root=layout, **options)
    assert key in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scale": "huge"}, "scale: one of full"),
        ({}, "(trm-data build sudoku-2x3-generated-500-aug-1000), or pass build=True"),
        ({"optim": {"lr_warmup_steps": 2_000}, "total_steps": 20}, "; optim.lr_warmup_steps N makes"),
    ],
)
def test_errors_name_arguments_not_options(options: dict[str, Any], said: str, layout: Layout) -> None:
    with pytest.raises((ConfigError, DatasetNotFoundError)) as error:
        trm_train.train("quickstart", root=layout, **options)
    assert said in str(error.value)
    assert "--" not in str(error.value)
