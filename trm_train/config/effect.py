"""Options that change nothing in a configuration, because something else switches off what they are for."""

from __future__ import annotations

import dataclasses
from typing import Any

from trm_train.config.model import ModelConfig
from trm_train.config.run import RunConfig


def without_effect(config: RunConfig, before: RunConfig) -> list[str]:
    """What a user changed in vain, a line each.

    Args:
        config: With overrides.
        before: Without.
    """
    idle = {key: why for key, why in _idle(config).items() if _value(config, key) != _value(before, key)}
    return [f"--{key.replace('_', '-')} does nothing here: {why}" for key, why in idle.items()]


def _idle(config: RunConfig) -> dict[str, str]:
    """Fields that change nothing in a configuration, and why."""
    model, optim = config.model, config.optim
    found: dict[str, str] = {}
    if isinstance(model, ModelConfig) and model.mixer == "mlp_t":
        found["model.num_heads"] = "mlp_t has no heads (--model.mixer attention has)"
    if not model.puzzle_width:
        for name in ("puzzle_emb_lr", "puzzle_emb_weight_decay"):
            found[f"optim.{name}"] = "there are no puzzle positions (--model.puzzle-emb-ndim 0)"
        found["model.puzzle_emb_len"] = "there are no puzzle positions (--model.puzzle-emb-ndim 0)"
    if optim.freeze_weights:
        why = "the weights are frozen (--optim.freeze-weights)"
        shared = {"freeze_weights", "lr_warmup_steps", "lr_schedule", "lr_min_ratio", "name"}
        names = {item.name for item in dataclasses.fields(optim)} - shared
        found |= {f"optim.{name}": why for name in sorted(names) if not name.startswith("puzzle_emb")}
    if not config.execution.validate_every:
        found["execution.validation_examples"] = "nothing is validated (--execution.validate-every 0)"
    if model.halt_first_max_steps == model.halt_max_steps:
        found["model.halt_first_max_steps"] = "it is halt_max_steps, so nothing rises"
    if model.halt_max_steps == 1:
        found["model.halt_exploration_prob"] = (
            "every slot halts after its first step (--model.halt-max-steps 1)"
        )
    return found


def _value(config: RunConfig, key: str) -> Any:
    part, _, name = key.partition(".")
    return getattr(getattr(config, part), name, None)
