"""Configuration parts with several variants: one dataclass each, selected by a tag.

A form declares its tag as a field with one value (`name: Literal["adamw"] = "adamw"`), so a value can never say that
it is another form than it is. What all forms share stands in a common base. The first form is the default: a stored
part without a tag is of it, and its tag is not part of a run's identity. Another package adds forms by entry point
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
    """The forms of one part of a configuration.

    Attributes:
        key: Key of the part in `RunConfig`.
        tag: Field that tells the forms apart.
        forms: Their classes by the value of the tag, the default first. All derive from one base.
        extensions: Kind of the entry points that add forms; None where other packages cannot add any.
    """

    key: str
    tag: str
    forms: dict[str, type[Part]]
    extensions: str | None = None

    @property
    def default(self) -> str:
        """Tag of the form that is meant where nothing is said."""
        return next(iter(self.forms))

    def form(self, tag: str) -> type[Part]:
        """The class of a tag.

        Raises:
            ConfigError: There is no such form, or the package that adds it declares it wrongly.
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
        """The same part in another form.

        Fields that both forms have keep what was set; those that were at the default of their form take the
        default of the new one, which may be another.

        Raises:
            ConfigError: There is no such form.
        """
        new = self.form(tag)
        if type(part) is new:
            return part
        there = {field.name for field in dataclasses.fields(new)} - {self.tag}  # pyright: ignore[reportArgumentType]
        return new(**{name: value for name, value in changed_fields(part).items() if name in there})

    def of_json(self, value: Mapping[str, Any]) -> type[Part]:
        """The form of a stored part.

        Raises:
            ConfigError: This version does not know it.
        """
        return self.form(value.get(self.tag, self.default))


def changed_fields(part: Any) -> dict[str, Any]:
    """The fields of a dataclass that are not at their defaults; those that have none are always among them."""
    return {
        field.name: getattr(part, field.name)
        for field in dataclasses.fields(part)
        if getattr(part, field.name) != default_of(field)
    }


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The default of a field, or `MISSING`."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
