"""Configuration parts with several variants: one dataclass each, selected by a tag.

A variant ("form") declares its tag as a field with one value (`name: Literal["adamw"] = "adamw"`), so tag and class
always match. The common options of all forms are in a base class. The first form is the default: a stored part without
a tag has this form, and its tag is not part of a run's identity. Another package adds forms by entry point
(`extensions.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trm_data.closest import one_of
from trm_train.errors import ConfigError
from trm_train.extensions import load_extension

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
        form, which may differ.

        Raises:
            ConfigError: The form is unknown.
        """
        new = self.form(tag)
        if type(part) is new:
            return part
        there = {field.name for field in dataclasses.fields(new)} - {self.tag}  # pyright: ignore[reportArgumentType]
        return new(**{name: value for name, value in changed_fields(part).items() if name in there})

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
