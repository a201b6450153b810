"""The `sh` blocks of documents: their lines as a shell reads them, and how each is run.

An HTML comment before a block, invisible on a rendered page, gives instructions if it must not run as written:

    <!-- run: slow -->                      one or several words of `HOWS`
    <!-- run: NAME=small DIR=out -->        replacements for words of the commands
    <!-- not run: needs a TPU -->           the reason
    <!-- run: dry-run (build maze) -->      only for lines that match this expression

The first comment that applies to a line counts; an unused comment is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HOWS = {
    "slow": "takes more than seconds: `make test-long` runs it",
    "dry-run": "with --dry-run appended",
    "dry-run-first": "with --dry-run appended; as written where slow tests run",
    "short": "training, cut to a few steps",
    "checkout": "all lines as one script of sh in a fresh copy of the checkout, nothing installed; slow",
}

FENCE = re.compile(r"^ *```(\S*)\s*$")
MARKER = re.compile(r"^<!-- (?P<what>run|not run): (?P<how>.*?)(?: \((?P<part>.*)\))? -->$")


class MarkerError(Exception):
    """A comment before a block has no known instruction."""


@dataclass(frozen=True)
class Marker:
    """How lines of a block are run.

    Attributes:
        hows: Words of `HOWS`.
        instead: Words of the commands, and their replacements.
        reason: Why the lines are not run; empty if they are.
        part: Regular expression of the lines that this applies to; empty for all lines.
    """

    hows: frozenset[str] = frozenset()
    instead: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    part: str = ""


@dataclass(frozen=True)
class Line:
    """A shell line with its continuation lines, without prompt and comment.

    Attributes:
        text: The line as written.
        number: Number of its first line in the document, from 1.
        marker: How it is run.
    """

    text: str
    number: int
    marker: Marker


@dataclass(frozen=True)
class Block:
    """A fenced block of a document.

    Attributes:
        document: Document that contains it.
        language: Language of the fence.
        lines: Shell lines: of an `sh` block all, of another block those after a prompt.
        number: Line number of its fence in the document, from 1.
        text: The whole text.
    """

    document: Path
    language: str
    lines: tuple[Line, ...]
    number: int
    text: str


def read_blocks(document: Path) -> list[Block]:
    """Return the fenced blocks of a document, in order.

    Raises:
        MarkerError: A comment before a block is invalid, or applies to none of its lines.
    """
    blocks: list[Block] = []
    markers: list[Marker] = []
    rows = iter(enumerate(document.read_text().splitlines(), 1))
    for number, row in rows:
        fence = FENCE.match(row)
        if fence is None:
            if row.startswith(("<!-- run", "<!-- not run")):
                markers.append(read_marker(row, f"{document}:{number}"))
            elif markers:
                raise MarkerError(f"{document}:{number}: the comment above stands before no block")
            continue
        inside: list[tuple[int, str]] = []
        for place, content in rows:
            if FENCE.match(content):
                break
            inside.append((place, content))
        lines = shell_lines(inside, prompted=fence[1] != "sh")
        marked = tuple(Line(text, place, marker_of(text, markers)) for place, text in lines)
        for marker in markers:
            if all(line.marker is not marker for line in marked):
                raise MarkerError(f"{document}:{number}: no line needs the comment with {marker}")
        text = "\n".join(content for _, content in inside)
        blocks.append(Block(document, fence[1], marked, number, text))
        markers = []
    return blocks


def read_marker(row: str, place: str) -> Marker:
    """Parse a comment before a block.

    Raises:
        MarkerError: It has no known instruction.
    """
    found = MARKER.match(row)
    if found is None:
        raise MarkerError(f"{place}: expected <!-- run: HOW (WORDS) --> or <!-- not run: WHY -->, got {row}")
    part = found["part"] or ""
    if found["what"] == "not run":
        return Marker(reason=found["how"], part=part)
    words = found["how"].split()
    instead = [(before, after) for before, _, after in (word.partition("=") for word in words) if after]
    hows = [word for word in words if "=" not in word]
    for how in hows:
        if how not in HOWS:
            raise MarkerError(f"{place}: unknown word {how!r}; expected {', '.join(HOWS)}")
    return Marker(frozenset(hows), tuple(instead), part=part)


def marker_of(text: str, markers: Sequence[Marker]) -> Marker:
    """Return the first marker that applies to a line."""
    return next((marker for marker in markers if re.search(marker.part, text)), Marker())


def shell_lines(rows: Sequence[tuple[int, str]], *, prompted: bool) -> list[tuple[int, str]]:
    """Return the commands of a block with their line numbers; joins continued lines and open quotes, drops comments.

    Args:
        rows: Lines of the block with their numbers.
        prompted: Whether only lines after a `$` are commands; the rest is output.
    """
    lines: list[tuple[int, str]] = []
    begun: tuple[int, str] | None = None
    for number, row in rows:
        if begun is not None:
            begun = (begun[0], begun[1] + row)
        elif row.startswith("$ "):
            begun = (number, row[2:])
        elif not prompted and row.strip():
            begun = (number, row)
        else:
            continue
        text = without_comment(begun[1])
        if text.endswith("\\"):
            begun = (begun[0], text[:-1])
        elif is_quoted(text):
            begun = (begun[0], begun[1] + "\n")
        else:
            lines += [(begun[0], text)] if text else []
            begun = None
    return lines


def without_comment(text: str) -> str:
    """Return a line up to its comment: a `#` after white space, outside quotes."""
    for found in re.finditer(r"(?:^|\s)#", text):
        if not is_quoted(text[: found.start()]):
            return text[: found.start()].rstrip()
    return text.rstrip()


def is_quoted(text: str) -> bool:
    """Return whether a quote is open at the end of a text."""
    return re.search("[\"']", re.sub(r"\"[^\"]*\"|'[^']*'", "", text)) is not None
