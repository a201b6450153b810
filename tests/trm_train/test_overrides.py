"""Overrides on the command line: spellings in any order, forms by a flag, values that change over training."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from pathlib import Path

import pytest
import tyro

from trm_train.api import with_options
from trm_train.cli import main
from trm_train.commands.run import RunOptions
from trm_train.config.data import DataConfig, MixtureConfig
from trm_train.config.optim import OPTIMIZERS, AdamWConfig, OptimConfig
from trm_train.config.overrides import choose_forms, spelled_values, split_overrides, without_effect
from trm_train.config.run import (
    RunConfig,
    config_from_json,
    config_to_json,
    effective_identity,
    identity_hash,
    schedules_over_training,
)
from trm_train.config.values import Curriculum, Linear, parse_curriculum, parse_scheduled
from trm_train.errors import ConfigError
from trm_train.experiments.registry import find_experiment

QUICKSTART = find_experiment("quickstart").make()


def parse(*arguments: str, config: RunConfig = QUICKSTART) -> RunConfig:
    """Parse as `trm-train run quickstart ...` does."""
    config, others = choose_forms(config, arguments)
    with spelled_values():
        return tyro.cli(
            RunOptions,
            args=others,
            default=RunOptions(config=config),
            config=(tyro.conf.FlagCreatePairsOff,),
        ).config


OF_TODAY = [
    ("--optim.lr", "3e-4"),
    ("--optim.lr-warmup-steps", "7"),
    ("--model.mixer", "attention"),
    ("--model.num-heads", "2"),
    ("--model.halt-exploration-prob", "0.2"),
    ("--data.dataset", "other"),
    ("--total-steps", "99"),
    ("--seed", "3"),
    ("--execution.log-every", "5"),
]


@pytest.mark.parametrize(
    ("given", "overrides", "others"),
    [
        (["a", "--optim.lr", "1e-3", "b"], ["--optim.lr", "1e-3"], ["a", "b"]),
        (["--execution.rematerialise", "b"], ["--execution.rematerialise"], ["b"]),
        (["--model.no-act-continue", "False", "b"], ["--model.no-act-continue", "False"], ["b"]),
        (["--execution.no-rematerialise", "b"], ["--execution.no-rematerialise"], ["b"]),
        (["--total-steps=9", "b", "--data", "generated"], ["--total-steps=9"], ["b", "--data", "generated"]),
        (["--total-stepsfoo", "b"], [], ["--total-stepsfoo", "b"]),
        (["--data.dataset", "x", "--model.mixer"], ["--data.dataset", "x", "--model.mixer"], []),
    ],
)
def test_options_of_a_configuration_are_told_from_others(
    given: list[str], overrides: list[str], others: list[str]
) -> None:
    assert split_overrides(given) == (overrides, others)


def test_overrides_of_today_in_any_order() -> None:
    forwards = parse(*itertools.chain(*OF_TODAY))
    backwards = parse(*itertools.chain(*reversed(OF_TODAY)))
    equals = parse(*(f"{option}={value}" for option, value in OF_TODAY))
    assert forwards == backwards == equals
    assert forwards == dataclasses.replace(
        QUICKSTART,
        data=dataclasses.replace(QUICKSTART.data, dataset="other"),
        model=dataclasses.replace(
            QUICKSTART.model, mixer="attention", num_heads=2, halt_exploration_prob=0.2
        ),
        optim=dataclasses.replace(QUICKSTART.optim, lr=3e-4, lr_warmup_steps=7),
        total_steps=99,
        seed=3,
        execution=dataclasses.replace(QUICKSTART.execution, log_every=5),
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("--optim.lr", "1e-3", "--optim.epsilon", "1e-6", "--optim.name", "adamw"),
        ("--optim.epsilon=1e-6", "--optim.name=adam_atan2", "--optim.lr=1e-3", "--optim.name=adamw"),
    ],
)
def test_a_form_is_chosen_by_a_flag_anywhere(arguments: tuple[str, ...]) -> None:
    optim = parse(*arguments).optim
    assert isinstance(optim, AdamWConfig)
    assert (optim.lr, optim.epsilon) == (1e-3, 1e-6)
    assert (optim.lr_warmup_steps, optim.weight_decay) == (
        50,
        0.1,
    )  # the experiment's values hold in any form


def test_rows_from_several_datasets() -> None:
    config = parse("--data.datasets", "a", "b", "--data.form", "mixture", "--data.weights", "1", "3")
    assert config.data == MixtureConfig(datasets=("a", "b"), weights=(1.0, 3.0), global_batch_size=32)
    again = parse("--data.form", "dataset", "--data.dataset", "a", config=config)
    assert again.data == DataConfig(dataset="a", global_batch_size=32)


def test_a_form_takes_its_own_defaults_for_what_was_not_said() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Other(AdamWConfig):
        beta2: float = 0.99

    forms = dataclasses.replace(OPTIMIZERS, forms={**OPTIMIZERS.forms, "other": Other})
    assert forms.choose(OptimConfig(lr=3.0), "other") == Other(lr=3.0)
    assert forms.choose(OptimConfig(beta2=0.5), "other") == Other(beta2=0.5)


def test_the_form_there_is_already_may_be_named() -> None:
    assert parse("--model.architecture", "trm", "--optim.name", "adam_atan2") == QUICKSTART


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", 0.1),
        ("1", 1.0),
        ("linear(0.3, 0.05)", Linear(0.3, 0.05)),
        (" linear( 1,0 ) ", Linear(1.0, 0.0)),
    ],
)
def test_values_that_may_change_over_training(text: str, value: object) -> None:
    assert parse_scheduled(text) == value
    assert parse_scheduled(str(value)) == value
    model = parse("--model.halt-exploration-prob", text).model
    assert model.halt_exploration_prob == value
    assert type(model.halt_exploration_prob) is type(value)


@pytest.mark.parametrize(
    "text", ["linear", "linear(1)", "linear(1, 2, 3)", "linear(a, b)", "cubic(1, 2)", ""]
)
def test_other_spellings_are_errors(text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape("a number or linear(start, end), got")):
        parse_scheduled(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--optim.name", "Lion"), "got 'Lion'; did you mean 'lion'?"),
        (("--optim.epsilon", "1"), "optim.name adam_atan2 has no such option; --optim.name adamw has"),
        (("--model.halt-exploration-prob", "often"), "a number or linear(start, end), got 'often'"),
        (("--optim.lr-schedule", "linear", "--optim.lr-min-ratio", "1"), "a constant rate; set optim.lr_min"),
        (
            ("--data.dataset", "a,b"),
            "data.dataset: the name of one dataset, got 'a,b'; several are a mixture",
        ),
        (("--data.form", "mixture", "--data.datasets", "a", "b"), "no dataset 'a'"),
        (("--data.form", "mixture", "--data.dataset", "a"), "--data.form dataset has"),
        (("--data.datasets", "a", "b"), "data.form dataset has no such option; --data.form mixture has"),
        (("--extend", "2000"), "lr_min_ratio 0.1 (cosine), which ends at step 1500"),
        (
            (
                "--extend",
                "1600",
                "--optim.lr-min-ratio",
                "1",
                "--model.halt-exploration-prob",
                "linear(0.3, 0)",
            ),
            "not with model.halt_exploration_prob linear(0.3, 0.0)",
        ),
    ],
)
def test_overrides_that_cannot_be(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "quickstart", *arguments, "--root", str(tmp_path)])
    assert ended.value.code == 2
    shown = re.sub(r"[\s│]+", " ", capsys.readouterr().err)
    assert message in shown


def test_help_shows_the_options_of_the_chosen_form(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for arguments in ([], ["--optim.name", "adamw"]):
        with pytest.raises(SystemExit):
            main(["run", "quickstart", *arguments, "--help"])
        shown.append(capsys.readouterr().out)
    assert "--optim.epsilon" not in shown[0]
    assert "--optim.epsilon" in shown[1]
    for tag in OPTIMIZERS.forms:
        assert tag in shown[0]


def test_a_curriculum_on_the_command_line_and_back() -> None:
    text = "curriculum(0.2, 1x1, 1x2, 2x2)"
    config = parse("--model.curriculum", text)
    assert config.model.curriculum == Curriculum(0.2, ((1, 1), (1, 2), (2, 2)))
    assert effective_identity(config)["model.curriculum"] == text
    assert config_from_json(json.loads(json.dumps(config_to_json(config)))) == config
    assert parse("--model.curriculum", "none", config=config) == QUICKSTART
    assert "model.curriculum curriculum(0.2, 1x1, 1x2, 2x2)" in schedules_over_training(config)


@pytest.mark.parametrize(
    "text", ["", "curriculum(0.2)", "curriculum(0, 1x1, 2x2)", "curriculum(0.2, 1x1, 2)", "linear(1, 2)"]
)
def test_a_curriculum_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"curriculum\(SHARE, HxL, HxL, ...\) with a share"):
        parse_curriculum(text)


def test_a_schedule_of_the_learning_rate_is_text_on_the_command_line_and_in_config_json() -> None:
    text = "piecewise(0:1, 0.5:0.5, 1:0.1)"
    base = parse("--total-steps", "100")
    changed = parse("--total-steps", "100", "--optim.lr-schedule", text)
    assert changed == with_options(base, {"optim": {"lr_schedule": text}})
    assert config_to_json(changed)["optim"]["lr_schedule"] == "piecewise(0.0:1.0, 0.5:0.5, 1.0:0.1)"
    assert config_from_json(config_to_json(changed)) == changed
    assert identity_hash(changed) != identity_hash(base)
    (line,) = without_effect(with_options(changed, {"optim": {"lr_min_ratio": 0.7}}), changed)
    assert line.startswith("--optim.lr-min-ratio does nothing here: piecewise(")
