"""Configuration from the command line: variants are chosen first, so that tyro sees one dataclass for each part.

A union of dataclasses would be a subcommand to tyro, with an order that a user has to keep. Here `--optim.name adamw`
stands anywhere among the other options; it is taken out, the part takes that form, and the rest is parsed by the
fields of the forms that are left.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import tyro

from trm_train.config.execution import ExecutionConfig
from trm_train.config.run import ALTERNATIVES, RunConfig
from trm_train.config.scheduled import PARSERS, Spelled
from trm_train.errors import ConfigError
from trm_train.extensions import EXPERIMENTS


def choose_forms(config: RunConfig, arguments: Sequence[str]) -> tuple[RunConfig, list[str]]:
    """The configuration with its parts in the forms that the arguments name, and the other arguments.

    Args:
        config: What is changed.
        arguments: As a user typed them; where a form is named twice, the last counts.

    Raises:
        ConfigError: A form does not exist, or an option belongs to another form than the chosen one.
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
    """What tyro must know to read values that may change over training; used as a context."""
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
            is_instance=lambda value: value is None or isinstance(value, int | float | Spelled),
            str_from_instance=lambda value: ["none" if value is None else str(value)],
        )

    return registry


def take_option(option: str, arguments: list[str]) -> tuple[str | None, list[str]]:
    """The last value of an option, and the arguments without it."""
    value, rest, position = None, list[str](), 0
    while position < len(arguments):
        word = arguments[position]
        if word == option and position + 1 < len(arguments):
            value = arguments[position + 1]
            position += 1
        elif word.startswith(f"{option}="):
            value = word.removeprefix(f"{option}=")
        else:
            rest.append(word)
        position += 1
    return value, rest


def take_experiments(arguments: list[str]) -> list[str]:
    """The arguments without `--experiments FILE`, which is kept in the environment for every process of the command."""
    file, rest = take_option("--experiments", arguments)
    if file is not None:
        os.environ[EXPERIMENTS] = str(Path(file).absolute())
    return rest


def split_overrides(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of a configuration with their values, and the other arguments, in the order of each.

    A flag (`--execution.rematerialise`) has no value, every other option has one.
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
    """Names of the fields of every form that are true or false."""
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
    """An option of another form is named with the form that has it."""
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
