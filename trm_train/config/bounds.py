"""Bounds of configuration numbers, and configuration parts with several variants, each selected by a tag.

Every error of a bound names the key, the value and the allowed range.

A variant ("form") declares its tag as a field with one value (`name: Literal["adamw"] = "adamw"`), so tag and class
always match. The common options of all forms are in a base class. The first form is the default: a stored part without
a tag has this form, and its tag is not part of a run's identity. Another package adds forms by entry point
(`trm_train/extensions`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trm_data.errors import one_of
from trm_train.config.scheduled import Linear, Scheduled
from trm_train.errors import ConfigError
from trm_train.extensions import load_extension

LARGEST = 2**31 - 1
"""Maximum of an integer: steps, sizes and counts are 32-bit integers on devices."""


def check_integers(values: Mapping[str, object]) -> None:
    """Check that no integer exceeds `LARGEST`; other values are ignored.

    Raises:
        ConfigError: A value is not allowed; the message names the first such key.
    """
    for key, value in values.items():
        if type(value) is int and value > LARGEST:
            raise ConfigError(f"{key}: got {value}; expected at most {LARGEST}")


def check_positive(values: Mapping[str, float]) -> None:
    """Check that all values are at least 1.

    Raises:
        ConfigError: A value is not allowed; the message names the first such key.
    """
    for key, value in values.items():
        if value < 1:
            raise ConfigError(f"{key}: got {value}; expected at least 1")


def check_not_negative(values: Mapping[str, float]) -> None:
    """Check that all values are finite and at least 0.

    Raises:
        ConfigError: A value is not allowed; the message names the first such key.
    """
    for key, value in values.items():
        if not 0 <= value < math.inf:
            raise ConfigError(f"{key}: got {value:g}; expected a number of at least 0")


def check_decays(values: Mapping[str, float]) -> None:
    """Check that all decay rates of moments are in [0, 1).

    Raises:
        ConfigError: A value is not allowed; the message names the first such key.
    """
    for key, value in values.items():
        if not 0 <= value < 1:
            raise ConfigError(f"{key}: got {value:g}; expected at least 0 and below 1")


def check_shares(values: Mapping[str, Scheduled]) -> None:
    """Check that all shares and probabilities are in [0, 1] at every step.

    Raises:
        ConfigError: A value is not allowed; the message names the first such key.
    """
    for key, value in values.items():
        ends = (value.start, value.end) if isinstance(value, Linear) else (value,)
        if not all(0 <= end <= 1 for end in ends):
            shown = str(value) if isinstance(value, Linear) else f"{value:g}"
            raise ConfigError(f"{key}: got {shown}; expected 0 to 1")


Part = TypeVar("Part")


@dataclass(frozen=True)
class Alternatives(Generic[Part]):
    """Forms of one part of a configuration.

    Attributes:
        key: Key of the part in `RunConfig`.
        tag: Field that distinguishes the forms.
        forms: Classes by tag, the default first. All derive from one base.
        extensions: Kind of the entry points that add forms; None if other packages cannot add any.
    """

    key: str
    tag: str
    forms: dict[str, type[Part]]
    extensions: str | None = None

    @property
    def default(self) -> str:
        """Tag of the default form."""
        return next(iter(self.forms))

    def form(self, tag: str) -> type[Part]:
        """Return the class of a tag.

        Raises:
            ConfigError: The form is unknown, or its package declares it incorrectly.
        """
        if tag in self.forms:
            return self.forms[tag]
        name = f"{self.key}.{self.tag}"
        if self.extensions is None:
            raise ConfigError(one_of(name, self.forms, str(tag)))
        found = load_extension(self.extensions, str(tag), self.forms, name)
        form = getattr(found, "options", found)
        base = next(iter(self.forms.values())).__mro__[-2]
        if not (isinstance(form, type) and issubclass(form, base) and getattr(form, self.tag, None) == tag):
            raise ConfigError(
                f"{name} {tag}: its options are {form!r}; expected a dataclass derived from {base.__name__} with the "
                f"field {self.tag}: Literal[{tag!r}] = {tag!r}"
            )
        return form

    def choose(self, part: Part, tag: str) -> Part:
        """Convert a part to another form.

        Fields of both forms keep their values. A field with the default of its old form takes the default of the new
        form, which may differ. A form's `FOR_NEW` has the defaults of new configurations that differ from those of
        records which lack the field.

        Raises:
            ConfigError: The form is unknown.
        """
        new = self.form(tag)
        if type(part) is new:
            return part
        there = {field.name for field in dataclasses.fields(new)} - {self.tag}  # pyright: ignore[reportArgumentType]
        kept = {name: value for name, value in changed_fields(part).items() if name in there}
        return new(**{**getattr(new, "FOR_NEW", {}), **kept})

    def of_json(self, value: Mapping[str, Any]) -> type[Part]:
        """Return the class of a stored part.

        Raises:
            ConfigError: The form is unknown to this version.
        """
        return self.form(value.get(self.tag, self.default))


def changed_fields(part: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with values other than their defaults; fields without a default are included."""
    return {
        field.name: getattr(part, field.name)
        for field in dataclasses.fields(part)
        if getattr(part, field.name) != default_of(field)
    }


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Return the default of a field, or `MISSING`."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
