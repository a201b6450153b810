"""Configurations: identity, JSON, and errors that come before anything is compiled."""

import dataclasses
import json
import typing

import pytest

from trm_train.config.data import MixtureConfig
from trm_train.config.optim import AdamWConfig
from trm_train.config.run import (
    ALTERNATIVES,
    ExecutionConfig,
    check_config,
    config_from_json,
    config_to_json,
    effective_identity,
    identity_hash,
)
from trm_train.config.values import Linear
from trm_train.errors import ConfigError
from trm_train.experiments.registry import find_experiment
from trm_train.runs.record import run_name

QUICKSTART = find_experiment("quickstart").make()


def changed(**parts):
    """Return the quickstart with fields of its parts replaced: `optim={"lr": 1}`."""
    config = QUICKSTART
    for part, changes in parts.items():
        value = (
            dataclasses.replace(getattr(config, part), **changes) if isinstance(changes, dict) else changes
        )
        config = dataclasses.replace(config, **{part: value})
    return config


def test_the_published_recipe() -> None:
    """The published recipe: batch 768, 65,104 steps, and so on."""
    config = find_experiment("trm_sudoku_mlp").make()
    assert (config.data.global_batch_size, config.total_steps) == (768, 65_104)
    model, optim = config.model, config.optim
    assert (model.hidden_size, model.num_layers, model.h_cycles, model.l_cycles) == (512, 2, 3, 6)
    assert (model.mixer, model.pos_encodings, model.halt_max_steps) == ("mlp_t", "none", 16)
    assert (optim.lr, optim.puzzle_emb_lr, optim.weight_decay, optim.ema_rate) == (1e-4, 1e-4, 1.0, 0.999)
    assert (optim.lr_warmup_steps, optim.beta1, optim.beta2) == (2_000, 0.9, 0.95)
    assert model.halt_exploration_prob == 0.1


def test_the_hash_sees_the_mathematics_and_not_the_execution() -> None:
    before = identity_hash(QUICKSTART)
    assert identity_hash(changed(execution={"log_every": 1, "checkpoint_every": 7})) == before
    for other in (changed(optim={"lr": 2e-3}), changed(model={"h_cycles": 3}), changed(total_steps=999)):
        assert identity_hash(other) != before


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            changed(optim={"lr_warmup_steps": 1500}),
            r"optim.lr_warmup_steps: below total_steps \(1500\), got 1500",
        ),
        (changed(total_steps=0), "total_steps: got 0; expected at least 1"),
        (
            changed(model={"halt_max_steps": 4, "halt_first_max_steps": 5}),
            r"model.halt_first_max_steps: 0 \(as halt_max_steps\), or 1 to halt_max_steps 4, got 5",
        ),
        (
            changed(model={"halt_exploration_prob": Linear(0.3, 1.5)}),
            r"got linear\(0.3, 1.5\); expected 0 to 1",
        ),
        (changed(optim=AdamWConfig(epsilon=-1.0)), "optim.epsilon: got -1; expected a number of at least 0"),
        (changed(optim={"lr_schedule": "linear", "lr_min_ratio": 1.0}), "set optim.lr_min_ratio below 1"),
        (
            changed(model={"mixer": "attention", "num_heads": 7}),
            "model.num_heads: a divisor of hidden_size 96",
        ),
        (changed(execution={"checkpoint_every": 0}), "execution.checkpoint_every"),
    ],
)
def test_impossible_configurations(config, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_config(config)


PINNED = {
    "quickstart": "quickstart-2626ad84-s0",
    "trm_sudoku_mlp": "trm_sudoku_mlp-188f59de-s0",
    "sudoku_generated": "sudoku_generated-61afc9c4-s0",
}


@pytest.mark.parametrize("experiment", list(PINNED))
def test_names_of_runs_stay_what_they_are(experiment: str) -> None:
    assert run_name(experiment, find_experiment(experiment).make()) == PINNED[experiment]


def test_the_identity_of_quickstart_is_spelled_as_ever() -> None:
    assert effective_identity(QUICKSTART) == {
        "data.dataset": "sudoku-2x3-generated-500-aug-1000",
        "data.global_batch_size": 32,
        "model.hidden_size": 96,
        "model.num_heads": 4,
        "model.h_cycles": 2,
        "model.l_cycles": 2,
        "model.halt_max_steps": 4,
        "model.puzzle_emb_len": 1,
        "model.forward_dtype": "float32",
        "optim.lr": 0.004,
        "optim.lr_warmup_steps": 50,
        "optim.lr_min_ratio": 0.1,
        "optim.weight_decay": 0.1,
        "optim.puzzle_emb_lr": 0.001,
        "optim.puzzle_emb_weight_decay": 0.1,
        "optim.ema_rate": 0.99,
        "total_steps": 1500,
    }


@pytest.mark.parametrize("part", ["data", "model", "optim", "execution"])
def test_an_option_added_later_orphans_no_run(part: str) -> None:
    value = getattr(QUICKSTART, part)
    longer = dataclasses.make_dataclass(
        "Longer",
        [("added", int, dataclasses.field(default=7))],
        bases=(type(value),),
        frozen=True,
        kw_only=True,
    )
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    later = dataclasses.replace(QUICKSTART, **{part: longer(**fields)})
    assert identity_hash(later) == identity_hash(QUICKSTART)
    changed_later = dataclasses.replace(QUICKSTART, **{part: longer(**fields, added=8)})
    assert (identity_hash(changed_later) == identity_hash(QUICKSTART)) == (part == "execution")


def test_configurations_of_every_form_are_read_back() -> None:
    config = changed(
        data=MixtureConfig(datasets=("a", "b"), weights=(1.0, 3.0)),
        model={"halt_exploration_prob": Linear(0.3, 0.05)},
        optim=AdamWConfig(lr=1e-3, epsilon=1e-6),
    )
    stored = json.loads(json.dumps(config_to_json(config)))
    assert stored["optim"]["name"] == "adamw"
    assert stored["data"]["datasets"] == ["a", "b"]
    assert stored["model"]["halt_exploration_prob"] == "linear(0.3, 0.05)"
    assert config_from_json(stored) == config
    assert identity_hash(config_from_json(stored)) == identity_hash(config) != identity_hash(QUICKSTART)


def test_configurations_without_tags_are_those_of_the_first_version() -> None:
    stored = config_to_json(QUICKSTART)
    del stored["model"]["architecture"], stored["optim"]["name"], stored["optim"]["lr_schedule"]
    del stored["data"]["form"]
    assert config_from_json(stored) == QUICKSTART
    with pytest.raises(ConfigError, match=r"optim\.name: one of adam_atan2, adamw, lion, muon, got 'sgd'"):
        config_from_json({**stored, "optim": {**stored["optim"], "name": "sgd"}})


def test_a_form_cannot_say_that_it_is_another() -> None:
    for alternatives in ALTERNATIVES:
        for tag, form in alternatives.forms.items():
            assert typing.get_args(typing.get_type_hints(form)[alternatives.tag]) == (tag,)
            assert getattr(form(), alternatives.tag) == tag


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        (MixtureConfig(datasets=("a", "a")), "data.datasets: two datasets or more, each once, got a a"),
        (MixtureConfig(datasets=("a", "../b")), "data.datasets: dataset name '../b'"),
        (
            MixtureConfig(datasets=("a", "b"), weights=(1.0,)),
            "data.weights: one for each of 2 datasets, got 1",
        ),
        (MixtureConfig(datasets=("a", "b"), weights=(1.0, 0.0)), "data.weights: numbers above 0, got 0"),
    ],
)
def test_impossible_mixtures(mixture: MixtureConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_config(changed(data=mixture))


def test_a_mixture_is_part_of_the_identity_and_one_dataset_is_asked_for_in_vain() -> None:
    config = changed(data=MixtureConfig(datasets=("a", "b"), weights=(1.0, 3.0), global_batch_size=32))
    check_config(config)
    identity = effective_identity(config)
    assert {key: value for key, value in identity.items() if key.startswith("data.")} == {
        "data.form": "mixture",
        "data.datasets": ["a", "b"],
        "data.weights": [1.0, 3.0],
        "data.global_batch_size": 32,
    }
    assert isinstance(config.data, MixtureConfig)
    assert config.data.shares == {"a": 1.0, "b": 3.0}
    with pytest.raises(
        ConfigError, match=r"--init-from: not available for a mixture \(got a, b; expected one"
    ):
        config.data.only_dataset("--init-from")
    with pytest.raises(ConfigError, match=r"execution\.device_rows: devices hold the rows of one dataset"):
        check_config(dataclasses.replace(config, execution=ExecutionConfig(device_rows=True)))


@pytest.mark.parametrize(
    "options",
    [
        {"total_steps": 10**25},
        {"optim": {"lr_warmup_steps": 10**25}},
    ],
)
def test_an_integer_beyond_32_bits_is_refused(options: dict[str, typing.Any]) -> None:
    config = find_experiment("quickstart").make()
    for name, change in options.items():
        value = dataclasses.replace(getattr(config, name), **change) if isinstance(change, dict) else change
        config = dataclasses.replace(config, **{name: value})
    with pytest.raises(ConfigError, match="expected at most 2147483647"):
        check_config(config)
