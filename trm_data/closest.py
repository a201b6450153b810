"""Error text for an unknown name, in every command: the closest known name, and a hint."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import takewhile

FEW = 6
"""Maximum number of known names for which a message lists all of them, if none is close."""
BEGINNING = 3
"""Minimum length of a prefix that counts as an abbreviated name, in characters."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the name probably meant: the shortest with this prefix, else the most similar; None if none is close."""
    by_spelling = {each.casefold(): each for each in known}
    wanted = name.casefold()
    begin_so = [each for each in by_spelling if each.startswith(wanted)] if len(wanted) >= BEGINNING else []
    if begin_so:
        return by_spelling[min(begin_so, key=len)]

    def likeness(each: str) -> float:
        # The beginning is rarely misspelled.
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(wanted, each, strict=False)))
        return difflib.SequenceMatcher(None, each, wanted).ratio() + shared / len(wanted)

    similar = difflib.get_close_matches(wanted, by_spelling, n=10)
    return by_spelling[max(similar, key=likeness)] if similar else None


def one_of(option: str, choices: Iterable[str], given: str) -> str:
    """Return a message with the allowed values, the given one and the closest."""
    names = list(choices)
    close = closest(given, names)
    return (
        f"{option}: one of {', '.join(names)}, got {given!r}{f'; did you mean {close!r}?' if close else ''}"
    )


def no_such(
    said: str,
    name: str,
    known: Iterable[str],
    hint: str,
) -> str:
    """Return one line with the missing item, the closest name or all names if they are few, and a hint.

    Args:
        said: The missing item, as `no dataset 'smal' under ./trm`.
        name: Name as typed by the user.
        known: All existing names.
        hint: The command that lists them.
    """
    names = list(known)
    close = closest(name, names)
    if close is not None:
        return f"{said}; did you mean {close!r}? ({hint})"
    if 0 < len(names) <= FEW:
        return f"{said}; there are: {', '.join(names)} ({hint})"
    return f"{said}{'' if names else '; there are none yet'} ({hint})"
