"""Errors that a user can act on. The command line prints them as one message, without a traceback."""

from __future__ import annotations

import errno
import re
from collections.abc import Generator
from contextlib import contextmanager

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

    exit_code = 4


class CacheFullError(BucketError):
    """This machine has no space for a file of a bucket; a retry does not help."""

    exit_code = 2


class QueryError(DataError):
    """SQL that cannot be run."""
