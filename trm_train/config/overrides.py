"""Configuration from the command line, and the options in it that have no effect.

Variants ("forms") are chosen first, so tyro gets one dataclass for each part.

For tyro, a union of dataclasses is a subcommand, whose options must be in a certain order. Here `--optim.name adamw` is
allowed anywhere among the other options: it is removed, the part is converted to that form, and tyro parses the other
options with the fields of the chosen forms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

import tyro
from tyro.conf import arg

from trm_data.extensions import take_option
from trm_train.config.model import BlocksConfig, ModelConfig
from trm_train.config.run import ALTERNATIVES, ExecutionConfig, RunConfig
from trm_train.config.values import PARSERS, Function, Piecewise, Spelled
from trm_train.errors import ConfigError


def choose_forms(config: RunConfig, arguments: Sequence[str]) -> tuple[RunConfig, list[str]]:
    """Return the configuration with the requested forms of its parts, and the other arguments.

    Args:
        config: Configuration to change.
        arguments: Command-line arguments; if a form is set twice, the last one is used.

    Raises:
        ConfigError: A form is unknown, or an option belongs to a form that is not chosen.
    """
    rest = list(arguments)
    for alternatives in ALTERNATIVES:
        option = f"--{alternatives.key}.{alternatives.tag}"
        tag, rest = take_option(option, rest)
        part = getattr(config, alternatives.key)
        if tag is not None:
            part = alternatives.choose(part, tag)
            config = dataclasses.replace(config, **{alternatives.key: part})
        _refuse_other_forms(alternatives.key, alternatives.tag, alternatives.forms, part, rest)
    return config, rest


def spelled_values() -> tyro.constructors.ConstructorRegistry:
    """Return a tyro registry that parses values that may change over training; use it as a context manager."""
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def _spelled(
        info: tyro.constructors.PrimitiveTypeInfo,
    ) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
        kind: Any = info.type
        if kind not in PARSERS:
            return None
        parse, metavar = PARSERS[kind]

        def parsed(words: list[str]) -> Any:
            try:
                return parse(words[0])
            except ConfigError as error:
                raise ValueError(str(error)) from error

        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar=metavar,
            instance_from_str=parsed,
            is_instance=lambda value: value is None or isinstance(value, int | float | str | Spelled),
            str_from_instance=lambda value: ["none" if value is None else str(value)],
        )

    return registry


def parse_config(config: RunConfig, overrides: list[str], program: str = "trm-train batch") -> RunConfig:
    """Return a configuration with overrides from command-line arguments."""
    config, others = choose_forms(config, overrides)
    return parse_options(_OnlyConfig(config=config), program, None, others).config


Options = TypeVar("Options")


def parse_options(default: Options, program: str, description: str | None, arguments: list[str]) -> Options:
    """Parse arguments that replace options of a default."""

    with spelled_values():
        return tyro.cli(
            type(default),
            prog=program,
            description=description,
            args=arguments,
            default=default,
            config=(tyro.conf.FlagCreatePairsOff,),
        )


@dataclass(frozen=True, kw_only=True)
class _OnlyConfig:
    """Options of a configuration."""

    config: Annotated[RunConfig, arg(name="")]


def split_overrides(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split arguments into configuration options with their values, and other arguments; both keep their order.

    A flag (`--execution.rematerialise`) has no value; every other option has one.
    """
    overrides, rest = list[str](), list[str]()
    words = iter(arguments)
    for word in words:
        option, equals, _ = word.partition("=")
        if not option.startswith(_PARTS) and option.replace("_", "-") != "--total-steps":
            rest.append(word)
            continue
        overrides.append(word)
        if not equals and not _is_flag(option):
            overrides += [value for value in [next(words, None)] if value is not None]
    return overrides, rest


_PARTS = ("--data.", "--model.", "--optim.", "--loss.", "--execution.")


def _is_flag(option: str) -> bool:
    name = option.rpartition(".")[2].replace("-", "_")
    return bool({name, name.removeprefix("no_")} & _flags())


@cache
def _flags() -> frozenset[str]:
    """Return the names of the boolean fields of all forms."""
    forms = [form for alternatives in ALTERNATIVES for form in alternatives.forms.values()]
    return frozenset(
        field.name
        for form in (*forms, ExecutionConfig)
        for field in dataclasses.fields(form)
        if field.type in (bool, "bool")
    )


def _refuse_other_forms(
    key: str, tag: str, forms: dict[str, type[Any]], part: Any, arguments: list[str]
) -> None:
    """Raise an error for an option of another form; the message names that form."""
    own = {field.name for field in dataclasses.fields(part)}
    for word in arguments:
        if not word.startswith(f"--{key}."):
            continue
        name = word.partition("=")[0].removeprefix(f"--{key}.").replace("-", "_")
        having = [
            other
            for other, form in forms.items()
            if name in {field.name for field in dataclasses.fields(form)}
        ]
        if name not in own and having:
            raise ConfigError(
                f"{word}: {key}.{tag} {getattr(part, tag)} has no such option; --{key}.{tag} {having[0]} has"
            )


def without_effect(config: RunConfig, before: RunConfig) -> list[str]:
    """Return a line for each override that has no effect or prevents learning.

    Args:
        config: Configuration with overrides.
        before: Configuration without overrides.
    """
    idle = {key: why for key, why in _idle(config).items() if _value(config, key) != _value(before, key)}
    lines = [f"--{key.replace('_', '-')} does nothing here: {why}" for key, why in idle.items()]
    lacking, before_lacking = _lacking(config), _lacking(before)
    return lines + [text for what, text in lacking.items() if what not in before_lacking]


def _lacking(config: RunConfig) -> dict[str, str]:
    """Return a message for each requirement of learning that a configuration lacks, by name."""
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
    """Return the fields without effect in a configuration, each with the reason."""
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
    if isinstance(optim.lr_schedule, Piecewise | Function):
        found["optim.lr_min_ratio"] = f"{optim.lr_schedule} gives the last factor (--optim.lr-schedule)"
    if model.halt_first_max_steps == model.halt_max_steps:
        found["model.halt_first_max_steps"] = "it is halt_max_steps, so nothing rises"
    if model.halt_max_steps == 1:
        why = "every slot halts after its first step (--model.halt-max-steps 1)"
        found |= {"model.halt_exploration_prob": why, "loss.supervision_decay": why}
    return found


def _value(config: RunConfig, key: str) -> Any:
    part, _, name = key.partition(".")
    return getattr(getattr(config, part), name, None)
