"""Errors that a user can act on, and exit codes. The command line prints an error as one message, without a traceback.

The message for an unknown name has the closest known name, and a hint.
"""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of all three programs (docs/troubleshooting.md)."""

    DONE = 0
    FOUND = 1
    """A check found something wrong."""
    ERROR = 2
    """Bad input, or another error that a user can act on."""
    NOT_FINITE = 3
    """Training stopped because its loss is not finite."""
    BUCKET = 4
    """A bucket is unreachable or denies access."""
    STALLED = 5
    """Another process of the run has ended."""
    INTERRUPTED = 130
    """Ctrl-C; the same command resumes the work."""
    BROKEN_PIPE = 141
    """The reader of the output closed it."""
    TERMINATED = 143
    """SIGTERM; the same command resumes the work."""


OF_SPACE = (errno.ENOSPC, errno.EDQUOT)
OF_PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)

_OPTION = re.compile(r"(trm-(?:data|train|eval) [^,;()`]*)|(?<![\w-])--([a-z][a-z0-9.-]*)")
"""A command, which keeps its options, or an option."""
_USER = re.compile(r"(https?://)[^/?#\s]*@", re.IGNORECASE)
_PASSWORD = re.compile(r"(://[^/?#\s:@]*):[^/?#\s]*@")
_SECRET = re.compile(
    r"""([?&;](?:[\w.%-]*(?:token|signature|credential|secret|passw|api[_-]?key|access[_-]?key|auth)[\w.%-]*|sig|key)=)
    [^&;\#\s'")]*""",
    re.IGNORECASE | re.VERBOSE,
)
_BEARER = re.compile(r"(\bbearer\s+)[\w.~+/=-]+", re.IGNORECASE)


def without_credentials(text: str) -> str:
    """Remove users, passwords and tokens of URLs and headers from a text; a user name may also be a token."""
    text = _PASSWORD.sub(r"\1@", _USER.sub(r"\1", text))
    return _BEARER.sub(r"\1...", _SECRET.sub(r"\1...", text))


def not_written(where: object, error: OSError, again: str) -> str:
    """Return the message for a file or folder that could not be written: the error and a hint.

    Args:
        where: The file or folder.
        error: Error of the operating system.
        again: What to do afterwards, such as `build again`.
    """
    advice = "see what it says, and"
    if error.errno in OF_SPACE:
        advice = "free some space and"
    elif error.errno in OF_PERMISSION:
        advice = "choose a folder that you may write, or change its permissions, and"
    return f"{where}: could not be written ({error}); {advice} {again}"


def needs_extra(what: str, extra: str) -> str:
    """Return the message for a missing optional library, and how to install it.

    Args:
        what: The feature that needs it.
        extra: The extra that contains it.
    """
    return (
        f"{what} needs the extra {extra!r}: in the checkout .tools/bin/uv pip install '.[{extra}]', else install the "
        f"wheel as '<file>.whl[{extra}]' (docs/tpu-and-gpu.md, Extras)"
    )


class Note(str):
    """A line that names something missing from a result although nothing is damaged: the exit code stays 0."""

    __slots__ = ()


class LabError(Exception):
    """Base class of all deliberate errors of the three packages: errors that a user can act on."""


@contextmanager
def arguments_named() -> Generator[None, None, None]:
    """Context of a Python function: an error about an option, such as `--total-steps`, names the argument."""
    try:
        yield
    except LabError as error:
        said = _OPTION.sub(lambda found: found[1] or found[2].replace("-", "_"), str(error))
        error.args = (said, *error.args[1:])
        raise


class DataError(LabError):
    """Base class of all deliberate errors of `trm_data`."""


class UsageError(DataError):
    """A command line with an unknown command, option or argument."""


class SpecError(DataError):
    """A dataset specification that cannot be built; names the option, its value and the allowed values."""


class SourceError(DataError):
    """A source that cannot be read at all: missing, empty, or in a wrong format."""


class BadRowError(DataError):
    """A row of a source that is not a valid puzzle.

    Args:
        file: Name of the source as given by the user.
        line: Line in the file, from 1.
        reason: What is wrong with the row.
    """

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(f"{file}:{line}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason

    def __reduce__(self) -> tuple[type[BadRowError], tuple[str, int, str]]:
        """Pickle the parts, so that the error can pass between processes."""
        return type(self), (self.file, self.line, self.reason)


class BuildError(DataError):
    """A build that could not finish; its files on disk never count as a dataset."""


class BusyError(BuildError):
    """Another process or another machine is writing the same data."""


class ScarceError(BuildError):
    """Not enough memory, threads or another limited resource of a process."""


class DatasetNotFoundError(DataError):
    """No dataset with this name under the root."""


class CorruptDatasetError(DataError):
    """A dataset whose files do not match its manifest."""


class ForeignDatasetError(CorruptDatasetError):
    """A dataset written by another version; it is not necessarily damaged."""


class CorruptFileError(DataError):
    """A file of results or metrics whose bytes have changed."""


class BucketError(DataError):
    """A bucket that is unreachable or refuses; says nothing about whether a dataset is intact."""

    exit_code = Exit.BUCKET


class CacheFullError(BucketError):
    """This machine has no space for a file of a bucket; a retry does not help."""

    exit_code = Exit.ERROR


class QueryError(DataError):
    """SQL that cannot be run."""


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

    similar = difflib.get_close_matches(wanted, by_spelling, n=1)
    return by_spelling[similar[0]] if similar else None


def one_of(option: str, choices: Iterable[str], given: str) -> str:
    """Return a message with the allowed values, the given one and the closest."""
    names = list(choices)
    close = closest(given, names)
    return (
        f"{option}: one of {', '.join(names)}, got {given!r}{f'; did you mean {close!r}?' if close else ''}"
    )


def no_such(said: str, name: str, known: Iterable[str], hint: str) -> str:
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
