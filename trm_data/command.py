"""What the commands of all three packages share: root option, parsing, `--version`, how errors end."""

from __future__ import annotations

import io
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Annotated

import tyro
from tyro.conf import arg

Root = Annotated[
    str | None,
    arg(
        metavar="DIR",
        help="Folder of everything, or gs://bucket/prefix; else $TRM_ROOT, else ./trm.",
        help_behavior_hint="",
    ),
]

Json = Annotated[bool, arg(help="Print JSON for machines.")]

PARSING = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff)
"""Options without the names of the dataclasses they are in; a flag has no negative twin."""


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
    """End the process with code 2 and one message where an error is the user's to solve.

    Args:
        program: Stands before the message.
        expected: Errors that a user can act on; those of the operating system are among them anyway.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, io.StringIO())
    # What is going on ends as for Ctrl-C, workers included; training has a handler of its own.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    except BrokenPipeError:  # whoever read the output has enough of it
        sys.stderr.close()
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        print(
            f"{program}: interrupted; nothing half-written counts, the same command goes on", file=sys.stderr
        )
        sys.exit(130)
    except (*expected, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        sys.exit(2)
