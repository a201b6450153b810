"""Values of the configuration: their bounds, schedules over training, and parts with several variants.

A number is constant; a schedule has the notation `form(value, ...)`. The notation is the same on the command line, in
`config.json` and in a run's identity. Every error of a bound names the key, the value and the allowed range.

A variant ("form") declares its tag as a field with one value (`name: Literal["adamw"] = "adamw"`), so tag and class
always match. The common options of all forms are in a base class. The first form is the default: a stored part without
a tag has this form, and its tag is not part of a run's identity. Another package adds forms by entry point
(`trm_train/extensions`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trm_data.errors import one_of
from trm_train.errors import ConfigError
from trm_train.extensions import load_extension

SPELLING = re.compile(r"\s*([a-z_]+)\s*\(([^()]*)\)\s*")
POINT = re.compile(r"\s*([^:,\s]+)\s*:\s*([^:,\s]+)\s*")
FUNCTION = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)(?:#([0-9a-f]{8}))?\s*")
CYCLES = re.compile(r"\s*([1-9][0-9]{0,3})x([1-9][0-9]{0,3})\s*")


@dataclass(frozen=True)
class Spelled:
    """A value with a text notation: `str` returns the text, and a function in `PARSERS` parses it."""


@dataclass(frozen=True)
class Linear(Spelled):
    """Linear change from `start` at the first step to `end` at the last of `total_steps`."""

    start: float
    end: float

    def __str__(self) -> str:
        return f"linear({self.start!r}, {self.end!r})"


@dataclass(frozen=True)
class Curriculum(Spelled):
    """Recursion that deepens in equal stages over the first `share` of `total_steps`, then stays at the last stage.

    Attributes:
        share: Share of all steps, above 0 and at most 1.
        cycles: (`h_cycles`, `l_cycles`) of each stage.
    """

    share: float
    cycles: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return f"curriculum({self.share!r}, {', '.join(f'{high}x{low}' for high, low in self.cycles)})"

    def ends(self, total_steps: int) -> list[int]:
        """Return the last step of each stage except the last stage."""
        stages = len(self.cycles)
        return [round(total_steps * self.share * stage / stages) for stage in range(1, stages)]


@dataclass(frozen=True)
class Piecewise(Spelled):
    """Factor of the learning rate that changes linearly between points.

    Attributes:
        points: (share of the steps after the warm-up, factor) with rising shares from 0 to 1.
    """

    points: tuple[tuple[float, float], ...]

    def __str__(self) -> str:
        return f"piecewise({', '.join(f'{share!r}:{factor!r}' for share, factor in self.points)})"


@dataclass(frozen=True)
class EndDecay(Spelled):
    """Constant learning rate that decays linearly to `lr_min_ratio * lr` over the last `share` of the steps."""

    share: float

    def __str__(self) -> str:
        return f"constant({self.share!r})"


@dataclass(frozen=True)
class Function(Spelled):
    """Factor of the learning rate by a function that `add_lr_schedule` has registered.

    Attributes:
        name: Name of the function.
        digest: First 8 hex digits of the sha256 of its source, so that an edited function belongs to another run.
    """

    name: str
    digest: str

    def __str__(self) -> str:
        return f"{self.name}#{self.digest}"


LrFunction = Callable[[Any], Any]
_FUNCTIONS: dict[str, tuple[LrFunction, str]] = {}


def add_lr_schedule(function: LrFunction) -> LrFunction:
    """Register a schedule of the learning rate under the function's name; also a decorator.

        @trm_train.add_lr_schedule
        def root(progress):
            return 1 / jnp.sqrt(1 + 9 * progress)

    Args:
        function: Function from the share of the steps after the warm-up (float32 [], 0 to 1) to the factor of the
            learning rate; it is traced by jax.

    Raises:
        ConfigError: The function has no name or no source, or its name is taken.
    """
    name = getattr(function, "__name__", "")
    if not FUNCTION.fullmatch(name) or name in LR_WORDS:
        raise ConfigError(
            f"a schedule of the learning rate needs a name of its own (got {name or function!r}): def NAME(progress)"
        )
    try:
        digest = hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:8]
    except (OSError, TypeError) as error:
        raise ConfigError(
            f"schedule {name}: its source is not readable ({error}); define it in a file"
        ) from error
    if name in _FUNCTIONS and _FUNCTIONS[name][1] != digest:
        raise ConfigError(f"schedule {name}: another function has this name")
    _FUNCTIONS[name] = function, digest
    return function


def lr_function(schedule: Function) -> LrFunction:
    """Return the registered function of a schedule.

    Raises:
        ConfigError: There is none, or its source differs.
    """
    function, digest = _FUNCTIONS.get(schedule.name, (None, ""))
    if function is None:
        raise ConfigError(
            f"optim.lr_schedule: no function {schedule.name} is registered (TRM_EXPERIMENTS names the file that has it)"
        )
    if digest != schedule.digest:
        raise ConfigError(
            f"optim.lr_schedule: the source of {schedule.name} has changed (got {digest}; the run has "
            f"{schedule.digest}); give the changed function another name"
        )
    return function


LINEAR = "linear(start, end)"
LR_WORDS = ("cosine", "linear")
LR_SPELLINGS = "cosine|linear|constant(DECAY_SHARE)|piecewise(SHARE:FACTOR, ...)"

Scheduled = float | Linear
LrSchedule = str | Piecewise | EndDecay | Function


def parse_scheduled(text: str) -> Scheduled:
    """Parse a number or schedule: `0.1`, `linear(0.3, 0.05)`.

    Raises:
        ConfigError: The text has another notation.
    """
    try:
        return float(text)
    except ValueError:
        pass
    match = SPELLING.fullmatch(text)
    try:
        if match and match[1] == "linear":
            start, end = (float(number) for number in match[2].split(","))
            return Linear(start, end)
    except ValueError:
        pass
    raise ConfigError(f"a number or {LINEAR}, got {text!r}")


def parse_curriculum(text: str) -> Curriculum | None:
    """Parse a curriculum: `curriculum(0.2, 1x2, 2x4, 3x6)`, or `none`.

    Raises:
        ConfigError: The text has another notation.
    """
    if text.strip().lower() == "none":
        return None
    match = SPELLING.fullmatch(text)
    words = match[2].split(",") if match and match[1] == "curriculum" else []
    found = [CYCLES.fullmatch(word) for word in words[1:]]
    cycles = tuple((int(one[1]), int(one[2])) for one in found if one is not None)
    try:
        share = float(words[0]) if words else 0.0
    except ValueError:
        share = 0.0
    if not 0 < share <= 1 or len(cycles) < 2 or len(cycles) != len(found):
        raise ConfigError(
            f"curriculum(SHARE, HxL, HxL, ...) with a share of training above 0 and at most 1, or none, got {text!r}"
        )
    return Curriculum(share, cycles)


def parse_lr_schedule(text: str) -> LrSchedule:
    """Parse a schedule of the learning rate: `LR_SPELLINGS`, or the name of a registered function.

    Raises:
        ConfigError: The text has another notation.
    """
    if text in LR_WORDS:
        return text
    match = SPELLING.fullmatch(text)
    words = match[2].split(",") if match else []
    try:
        if match and match[1] == "constant" and len(words) == 1 and 0 < float(words[0]) <= 1:
            return EndDecay(float(words[0]))
        points = tuple(
            (float(point[1]), float(point[2])) for point in map(POINT.fullmatch, words) if point is not None
        )
    except ValueError:
        points = ()
    if match and match[1] == "piecewise" and len(points) == len(words) > 1:
        shares = [share for share, _ in points]
        rising = (shares[0], shares[-1]) == (0, 1) and all(a < b for a, b in itertools.pairwise(shares))
        if rising and all(0 <= factor < math.inf for _, factor in points):
            return Piecewise(points)
        raise ConfigError(f"shares that rise from 0 to 1, and factors of at least 0, got {text!r}")
    if found := FUNCTION.fullmatch(text):
        if found[2]:
            return Function(found[1], found[2])
        if found[1] in _FUNCTIONS:
            return Function(found[1], _FUNCTIONS[found[1]][1])
    raise ConfigError(
        f"{LR_SPELLINGS.replace('|', ', ')}, or a function of trm_train.add_lr_schedule, got {text!r}"
    )


PARSERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    Scheduled: (parse_scheduled, f"FLOAT|{LINEAR}"),
    LrSchedule: (parse_lr_schedule, f"{LR_SPELLINGS}|NAME"),
    Curriculum | None: (parse_curriculum, "curriculum(SHARE, HxL, HxL, ...)|none"),
}
"""Parser and help placeholder of fields, by field type."""


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
    """Check that all values are at least 1; see `_check`."""
    _check(values, lambda value: value >= 1, "at least 1")


def check_not_negative(values: Mapping[str, float]) -> None:
    """Check that all values are finite and at least 0; see `_check`."""
    _check(values, lambda value: 0 <= value < math.inf, "a number of at least 0")


def check_decays(values: Mapping[str, float]) -> None:
    """Check that all decay rates of moments are in [0, 1); see `_check`."""
    _check(values, lambda value: 0 <= value < 1, "at least 0 and below 1")


def check_shares(values: Mapping[str, Scheduled]) -> None:
    """Check that all shares and probabilities are in [0, 1] at every step; see `_check`."""
    _check(values, lambda value: 0 <= value <= 1, "0 to 1")


def _check(values: Mapping[str, Scheduled], holds: Callable[[float], bool], expected: str) -> None:
    """Check values by key; a linear schedule is checked at its ends.

    Raises:
        ConfigError: A value is not allowed; the message names the first such key.
    """
    for key, value in values.items():
        ends = (value.start, value.end) if isinstance(value, Linear) else (value,)
        if not all(map(holds, ends)):
            shown = str(value) if isinstance(value, Linear) else f"{value:g}"
            raise ConfigError(f"{key}: got {shown}; expected {expected}")


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
