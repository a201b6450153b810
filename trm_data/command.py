"""What the commands of all three packages share: root option, parsing, `--version`, how errors end."""

from __future__ import annotations

import errno
import io
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Annotated

import tyro
from tyro.conf import arg


class Exit(IntEnum):
    """How a command of any of the three programs ends (docs/exit-codes.md)."""

    DONE = 0
    FOUND = 1
    """A check found something wrong."""
    ERROR = 2
    """Bad input, or anything else that a user can act on."""
    NOT_FINITE = 3
    """Training stopped because its loss is no number any more."""
    BUCKET = 4
    """A bucket cannot be reached, or refuses."""
    STALLED = 5
    """Training stood still, was slower than the user asks for, or another of its processes died."""
    INTERRUPTED = 130
    """Ctrl-C; what was going on goes on by the same command."""
    BROKEN_PIPE = 141
    """Whoever read the output closed it."""
    TERMINATED = 143
    """SIGTERM; what was going on goes on by the same command."""


Root = Annotated[
    str | None,
    arg(
        metavar="DIR",
        help="Folder of everything, or gs://bucket/prefix; else $TRM_ROOT, else ./trm.",
        help_behavior_hint="",
    ),
]

Json = Annotated[bool, arg(help="Print JSON for machines.")]

SkipDamaged = Annotated[
    bool, arg(help="Answer from what is whole, with exit code 0; what is left out is named all the same.")
]

PARSING = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff)
"""Options without the names of the dataclasses they are in; a flag has no negative twin."""


def say_what_is_left_out(program: str, problems: Sequence[str], *, skip: bool) -> int:
    """Name what an answer is without, on stderr; returns the exit code.

    Args:
        program: Stands before each line.
        problems: A line for each thing that could not be read.
        skip: The user goes on without it.
    """
    for problem in problems:
        print(f"{program}: left out: {problem}", file=sys.stderr)
    return Exit.FOUND if problems and not skip else Exit.DONE


def answer_version(program: str, arguments: Sequence[str]) -> None:
    """End the process with the version of the distribution if `--version` is the first argument.

    Args:
        program: Stands before the version.
        arguments: What the user typed after it. Further on `--version` may be an option of a subcommand.
    """
    if arguments and arguments[0] == "--version":
        from importlib.metadata import version

        print(f"{program} {version('trm-lab')}")
        sys.exit(0)


@contextmanager
def errors_end(program: str, *expected: type[Exception]) -> Generator[None, None, None]:
    """End the process with a code of `Exit` and one message where an error is the user's to solve.

    Args:
        program: Stands before the message.
        expected: Errors that a user can act on; those of the operating system are among them anyway.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, io.StringIO())
    # What is going on ends as for Ctrl-C, workers included; training has a handler of its own.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(Exit.TERMINATED))
    try:
        yield
    except BrokenPipeError:  # whoever read the output has enough of it
        sys.stderr.close()
        sys.exit(Exit.BROKEN_PIPE)
    except KeyboardInterrupt:
        print(
            f"{program}: interrupted; nothing half-written counts, the same command goes on", file=sys.stderr
        )
        sys.exit(Exit.INTERRUPTED)
    except (*expected, OSError) as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        print(
            f"{program}: {error}{'; free some, and the same command goes on' if full else ''}",
            file=sys.stderr,
        )
        sys.exit(getattr(error, "exit_code", Exit.ERROR))
    except (MemoryError, RuntimeError, ImportError) as error:
        if not is_of_memory(error):
            raise
        print(
            f"{program}: not enough memory ({' '.join(str(error).split()) or 'none was left'}); raise the limit "
            "(ulimit -v, the container's), or ask for less at a time",
            file=sys.stderr,
        )
        sys.exit(Exit.ERROR)


OF_MEMORY = ("can't start new thread", "failed to map segment", "cannot allocate memory", "out of memory")


def is_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out: Python, the loader of libraries and others say it differently."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or any(words in said for words in OF_MEMORY)
