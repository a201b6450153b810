"""Options that change nothing in a configuration because another one switches them off, and those that leave out what a
network needs to learn."""

from __future__ import annotations

import dataclasses
from typing import Any

from trm_train.config.model import BlocksConfig, ModelConfig
from trm_train.config.run import RunConfig


def without_effect(config: RunConfig, before: RunConfig) -> list[str]:
    """What a user changed in vain, or so that the network cannot learn, a line each.

    Args:
        config: With overrides.
        before: Without.
    """
    idle = {key: why for key, why in _idle(config).items() if _value(config, key) != _value(before, key)}
    lines = [f"--{key.replace('_', '-')} does nothing here: {why}" for key, why in idle.items()]
    lacking, before_lacking = _lacking(config), _lacking(before)
    return lines + [text for what, text in lacking.items() if what not in before_lacking]


def _lacking(config: RunConfig) -> dict[str, str]:
    """What a configuration lacks in order to learn, by its name."""
    model, found = config.model, dict[str, str]()
    if isinstance(model, BlocksConfig) and model.mixer == "attention" and model.pos_encodings == "none":
        found["positions"] = (
            "--model.mixer attention has no positions: it cannot tell cells with the same symbol apart "
            "(--model.pos-encodings rope or learned)"
        )
    if config.optim.freeze_weights and not model.puzzle_width:
        found["anything that learns"] = (
            "--optim.freeze-weights leaves nothing that learns: there is no puzzle embedding "
            "(--model.puzzle-emb-ndim 0)"
        )
    return found


def _idle(config: RunConfig) -> dict[str, str]:
    """Fields that change nothing in a configuration, and why."""
    model, optim = config.model, config.optim
    found: dict[str, str] = {}
    if isinstance(model, BlocksConfig) and model.mixer == "mlp_t":
        found["model.num_heads"] = "mlp_t has no heads (--model.mixer attention has)"
        if model.pos_encodings == "rope":
            found["model.pos_encodings"] = (
                "mlp_t has no rotary positions: rope is the same as none (learned is not)"
            )
    if isinstance(model, ModelConfig) and model.gradient == "one_step" and model.l_cycles == 1:
        found["model.gradient"] = (
            "one_step is the same as last_cycle where z_L is updated once (--model.l-cycles 1)"
        )
    if not model.puzzle_width:
        for name in ("puzzle_emb_lr", "puzzle_emb_weight_decay"):
            found[f"optim.{name}"] = "there are no puzzle positions (--model.puzzle-emb-ndim 0)"
        found["model.puzzle_emb_len"] = "there are no puzzle positions (--model.puzzle-emb-ndim 0)"
    if not optim.puzzle_emb_lr:
        found["optim.puzzle_emb_weight_decay"] = "it is times a rate of 0 (--optim.puzzle-emb-lr 0)"
    if optim.freeze_weights:
        why = "the weights are frozen (--optim.freeze-weights)"
        shared = {"freeze_weights", "lr_warmup_steps", "lr_schedule", "lr_min_ratio", "name"}
        names = {item.name for item in dataclasses.fields(optim)} - shared
        found |= {f"optim.{name}": why for name in sorted(names) if not name.startswith("puzzle_emb")}
    if not config.execution.validate_every:
        found["execution.validation_examples"] = "nothing is validated (--execution.validate-every 0)"
    if not config.execution.keep_weights:
        for name in ("keep_weights_every", "keep_best_weights"):
            found[f"execution.{name}"] = "all weights are kept (--execution.keep-weights 0)"
    if model.halt_first_max_steps == model.halt_max_steps:
        found["model.halt_first_max_steps"] = "it is halt_max_steps, so nothing rises"
    if model.halt_max_steps == 1:
        why = "every slot halts after its first step (--model.halt-max-steps 1)"
        found |= {"model.halt_exploration_prob": why, "loss.supervision_decay": why}
    return found


def _value(config: RunConfig, key: str) -> Any:
    part, _, name = key.partition(".")
    return getattr(getattr(config, part), name, None)
