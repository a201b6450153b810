"""The `sh` blocks of documents: their lines as a shell reads them, and how each is run.

A comment of HTML before a block, which no rendered page shows, says what is needed beyond running it as written:

    <!-- run: slow -->                      a word of `HOWS`, or several
    <!-- run: NAME=small DIR=out -->        what stands in place of a word of the commands
    <!-- not run: needs a TPU -->           the reason
    <!-- run: dry-run (build maze) -->      for the lines in which this expression is found

The first comment that is for a line counts; an unused comment is an error.
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
    """A comment before a block says nothing that can be done."""


@dataclass(frozen=True)
class Marker:
    """How lines of a block are run.

    Attributes:
        hows: Words of `HOWS`.
        instead: Words of the commands, and what takes their place.
        reason: Why they are not run; none if they are.
        part: Regular expression of the lines that this is for; all lines if empty.
    """

    hows: frozenset[str] = frozenset()
    instead: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    part: str = ""


@dataclass(frozen=True)
class Line:
    """A line of a shell, with what it continues on; without prompt and comment.

    Attributes:
        text: As written.
        number: Of its first line in the document, from 1.
        marker: How it is run.
    """

    text: str
    number: int
    marker: Marker


@dataclass(frozen=True)
class Block:
    """A fenced block of a document.

    Attributes:
        document: Where it stands.
        language: What the fence says.
        lines: Of an `sh` block those of the shell; of another one those after a prompt.
        number: Of its fence in the document, from 1.
        text: All of it.
    """

    document: Path
    language: str
    lines: tuple[Line, ...]
    number: int
    text: str


def read_blocks(document: Path) -> list[Block]:
    """The fenced blocks of a document, in its order.

    Raises:
        MarkerError: A comment before a block cannot be read, or none of its lines needs it.
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
    """What a comment before a block says.

    Raises:
        MarkerError: It says nothing known.
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
    """The first marker that is for a line."""
    return next((marker for marker in markers if re.search(marker.part, text)), Marker())


def shell_lines(rows: Sequence[tuple[int, str]], *, prompted: bool) -> list[tuple[int, str]]:
    """The commands of a block with their places: continued lines and open quotations in one, no comments.

    Args:
        rows: Lines of the block with their numbers.
        prompted: Commands are those after a `$`; the rest is what they print.
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
    """A line up to its comment: a `#` after white space, outside quotations."""
    for found in re.finditer(r"(?:^|\s)#", text):
        if not is_quoted(text[: found.start()]):
            return text[: found.start()].rstrip()
    return text.rstrip()


def is_quoted(text: str) -> bool:
    """Whether a quotation is open at the end of a text."""
    return re.search("[\"']", re.sub(r"\"[^\"]*\"|'[^']*'", "", text)) is not None
