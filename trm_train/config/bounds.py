"""Bounds of configuration numbers; every error names the key, the value and the allowed range."""

from __future__ import annotations

import math
from collections.abc import Mapping

from trm_train.config.scheduled import Linear, Scheduled
from trm_train.errors import ConfigError

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
