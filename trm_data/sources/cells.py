"""Cells that a text column gives as a JSON list of numbers, or as a list of such lists: the rows of a grid."""

from __future__ import annotations

import json
from typing import Any, cast

MOST_CHARACTERS = 1 << 20


def is_json(text: str) -> bool:
    """Return whether a text is such a JSON list."""
    return text.startswith("[")


def json_cells(text: str) -> list[Any]:
    """Parse the list, or list of lists, of numbers."""
    allowed = "a list of integers, or a list of such lists"
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"{len(text):,} characters: expected {MOST_CHARACTERS:,}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON ({error}); expected {allowed}") from error
    found = cast(list[Any], value) if isinstance(value, list) else []
    if not _numbers(found) and not (found and all(_numbers(row) for row in found)):
        raise ValueError(f"expected {allowed}")
    return found


def flat_cells(text: str) -> list[int]:
    """Parse the numbers into one flat list."""
    found = json_cells(text)
    return [cell for row in found for cell in row] if isinstance(found[0], list) else found


def _numbers(value: object) -> bool:
    """Return whether a value is a nonempty list of integers."""
    return (
        isinstance(value, list) and bool(value) and all(type(cell) is int for cell in cast(list[Any], value))
    )
