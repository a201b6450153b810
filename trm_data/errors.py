"""Errors that a user can act on. The command line prints them as one message, without a traceback."""

from __future__ import annotations

import errno
import re

OF_SPACE = (errno.ENOSPC, errno.EDQUOT)
OF_PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)


_USER = re.compile(r"(https?://)[^/?#\s]*@", re.IGNORECASE)
_PASSWORD = re.compile(r"(://[^/?#\s:@]*):[^/?#\s]*@")
_SECRET = re.compile(
    r"""([?&;](?:[\w.%-]*(?:token|signature|credential|secret|passw|api[_-]?key|access[_-]?key|auth)[\w.%-]*|sig|key)=)
    [^&;\#\s'")]*""",
    re.IGNORECASE | re.VERBOSE,
)
_BEARER = re.compile(r"(\bbearer\s+)[\w.~+/=-]+", re.IGNORECASE)


def without_credentials(text: str) -> str:
    """A text without the users, passwords and tokens of the URLs and headers in it: a user can be a token too."""
    text = _PASSWORD.sub(r"\1@", _USER.sub(r"\1", text))
    return _BEARER.sub(r"\1...", _SECRET.sub(r"\1...", text))


def not_written(where: object, error: OSError, again: str) -> str:
    """What is said of a file or folder that could not be written: the error, and what solves this one.

    Args:
        where: The file or folder.
        error: What the operating system says.
        again: What to do then, as `build again`.
    """
    advice = "see what it says, and"
    if error.errno in OF_SPACE:
        advice = "free some space and"
    elif error.errno in OF_PERMISSION:
        advice = "choose a folder that you may write, or change its permissions, and"
    return f"{where}: could not be written ({error}); {advice} {again}"


def needs_extra(what: str, extra: str) -> str:
    """What is said where a library of an optional part is not there, and how it comes there.

    Args:
        what: What needs it.
        extra: The extra that brings it.
    """
    return (
        f"{what} needs the extra {extra!r}: in the checkout .tools/bin/uv pip install '.[{extra}]', else install the "
        f"wheel as '<file>.whl[{extra}]' (docs/tpu-and-gpu.md, Extras)"
    )


class Note(str):
    """A line that names what an answer is without although nothing is damaged: the exit code stays 0."""

    __slots__ = ()


class LabError(Exception):
    """Base of every error that the three packages raise on purpose: what a user can act on."""


class DataError(LabError):
    """Base of every error that `trm_data` raises on purpose."""


class UsageError(DataError):
    """A command line with a word that is no command, option or argument."""


class SpecError(DataError):
    """A dataset specification that cannot be built: which option, what it got, what is allowed."""


class SourceError(DataError):
    """A source that cannot be read at all: missing, empty, of the wrong form."""


class BadRowError(DataError):
    """A row of a source that is no valid puzzle.

    Args:
        file: Name of the source as the user gave it.
        line: Line in the file, from 1.
        reason: What is wrong with the row.
    """

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(f"{file}:{line}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason

    def __reduce__(self) -> tuple[type[BadRowError], tuple[str, int, str]]:
        """From its parts, so that it comes back from another process."""
        return type(self), (self.file, self.line, self.reason)


class BuildError(DataError):
    """A build that could not finish; what is on disk is never taken for a dataset."""


class BusyError(BuildError):
    """Somebody else is writing what was to be written: another process of this machine, or another machine."""


class ScarceError(BuildError):
    """Not enough memory, or none of what else a process may have."""


class DatasetNotFoundError(DataError):
    """No dataset of that name under the root."""


class CorruptDatasetError(DataError):
    """A dataset whose files are not what its manifest says."""


class ForeignDatasetError(CorruptDatasetError):
    """A dataset that another version wrote: nothing says that it is damaged."""


class CorruptFileError(DataError):
    """A file of results or metrics whose bytes are not those that were written."""


class BucketError(DataError):
    """A bucket that cannot be reached, or refuses: says nothing about whether a dataset is whole."""

    exit_code = 4


class CacheFullError(BucketError):
    """This machine has no space for a file of a bucket: asking again does not help."""

    exit_code = 2


class QueryError(DataError):
    """SQL that cannot be run."""
