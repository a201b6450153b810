"""Overrides without effect are reported, those with an effect are not."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from trm_train.cli import main
from trm_train.config.overrides import without_effect
from trm_train.experiments.registry import find_experiment, load_experiments
from trm_train.runs.record import run_name


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--model.num-heads", "2"], ["--model.num-heads"]),
        (["--model.num-heads", "2", "--model.mixer", "attention", "--model.pos-encodings", "rope"], []),
        (["--model.pos-encodings", "rope"], ["--model.pos-encodings"]),
        (
            ["--optim.puzzle-emb-lr", "0", "--optim.puzzle-emb-weight-decay", "1"],
            ["--optim.puzzle-emb-weight-decay"],
        ),
        (["--optim.freeze-weights", "--model.puzzle-emb-ndim", "0"], ["--optim.freeze-weights"]),
        (["--optim.puzzle-emb-lr", "1", "--model.puzzle-emb-ndim", "0"], ["--optim.puzzle-emb-lr"]),
        (["--model.gradient", "one_step", "--model.l-cycles", "1"], ["--model.gradient"]),
        (["--optim.lr", "1"], []),
    ],
)
def test_they_are_said_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], names: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "quickstart", "--root", str(tmp_path), *options])
    assert ended.value.code == 2  # the dataset is not built
    said = [line.split()[2] for line in capsys.readouterr().err.splitlines() if ": warning: " in line]
    assert said == names


def test_what_an_experiment_itself_says_is_not_warned_of() -> None:
    for item in load_experiments().values():
        assert without_effect(item.make(), item.make()) == []
    assert json.dumps(
        without_effect(find_experiment("exp01a").make(), find_experiment("baseline").make())
    ).count("num-heads")


def test_options_without_effect_leave_the_name_of_the_run() -> None:
    """Such runs had this name before the warning existed."""
    config = find_experiment("quickstart").make()
    rope = dataclasses.replace(config, model=dataclasses.replace(config.model, pos_encodings="rope"))
    assert run_name("quickstart", rope) != run_name("quickstart", config)
