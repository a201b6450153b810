"""Configurations: identity, JSON, and errors that come before anything is compiled."""

import dataclasses

import pytest

from trm_train.config.run import (
    check_config,
    config_from_json,
    config_to_json,
    effective_identity,
    identity_hash,
)
from trm_train.errors import ConfigError
from trm_train.experiments.registry import Experiment, check_distinct, find_experiment, load_experiments
from trm_train.run.record import run_name

QUICKSTART = find_experiment("quickstart").make()


def changed(**parts):
    """quickstart with fields of its parts replaced: `optim={"lr": 1}`."""
    config = QUICKSTART
    for part, changes in parts.items():
        value = (
            dataclasses.replace(getattr(config, part), **changes) if isinstance(changes, dict) else changes
        )
        config = dataclasses.replace(config, **{part: value})
    return config


@pytest.mark.parametrize("experiment", list(load_experiments()))
def test_every_experiment_is_sound_and_has_a_guide(experiment: str) -> None:
    item = find_experiment(experiment)
    check_config(item.make())
    for word in ("Varies:", "Fixed:", "Expected:", "Judge by:", "Cost:"):
        assert word in item.guide
    assert item.summary.endswith("?")
    assert item.build.startswith("trm-data build ")
    assert config_from_json(config_to_json(item.make())) == item.make()


def test_the_published_recipe() -> None:
    """the published recipe: batch 768, 65,104 steps, and so on."""
    config = find_experiment("trm_sudoku_mlp").make()
    assert (config.data.global_batch_size, config.total_steps) == (768, 65_104)
    model, optim = config.model, config.optim
    assert (model.hidden_size, model.num_layers, model.h_cycles, model.l_cycles) == (512, 2, 3, 6)
    assert (model.mixer, model.pos_encodings, model.halt_max_steps) == ("mlp_t", "none", 16)
    assert (optim.lr, optim.puzzle_emb_lr, optim.weight_decay, optim.ema_rate) == (1e-4, 1e-4, 1.0, 0.999)
    assert (optim.lr_warmup_steps, optim.beta1, optim.beta2) == (2_000, 0.9, 0.95)
    assert model.halt_exploration_prob == 0.1


def test_identity_is_what_differs_from_the_defaults() -> None:
    identity = effective_identity(QUICKSTART)
    assert identity["model.hidden_size"] == 96
    assert "model.num_layers" not in identity
    assert not any(key.startswith("execution") for key in identity)


def test_the_hash_sees_the_mathematics_and_not_the_execution() -> None:
    before = identity_hash(QUICKSTART)
    assert identity_hash(changed(execution={"log_every": 1, "checkpoint_every": 7})) == before
    for other in (changed(optim={"lr": 2e-3}), changed(model={"h_cycles": 3}), changed(total_steps=999)):
        assert identity_hash(other) != before


def test_run_names_say_experiment_hash_and_seed() -> None:
    assert run_name("quickstart", changed(seed=5)) == f"quickstart-{identity_hash(QUICKSTART)[:8]}-s5"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            changed(optim={"lr_warmup_steps": 1500}),
            r"optim.lr_warmup_steps: below total_steps \(1500\), got 1500",
        ),
        (changed(total_steps=0), "total_steps: at least 1, got 0"),
        (changed(model={"halt_exploration_prob": 1.5}), "halt_exploration_prob: from 0 to 1, got 1.5"),
        (changed(data={"global_batch_size": 0}), "data.global_batch_size: at least 1"),
        (changed(seed=-1), "seed: from 0"),
        (changed(execution={"checkpoint_every": 0}), "execution.checkpoint_every"),
    ],
)
def test_impossible_configurations(config, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_config(config)


def test_unknown_keys_in_a_stored_configuration() -> None:
    with pytest.raises(ConfigError, match="warp"):
        config_from_json({**config_to_json(QUICKSTART), "model": {"warp": 9}})


def test_unknown_experiments_name_the_closest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'quickstart'"):
        find_experiment("quikstart")


def test_two_names_for_one_run_are_refused_unless_declared() -> None:
    def item(name: str, alias_of: str | None = None) -> Experiment:
        return Experiment(name, "group", lambda: QUICKSTART, "trm-data build sudoku", alias_of)

    with pytest.raises(ConfigError, match="a and b are the same run"):
        check_distinct([item("a"), item("b")])
    check_distinct([item("a"), item("b", alias_of="a")])
