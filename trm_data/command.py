"""What the commands of all three packages share: the root option, how arguments are parsed, how errors end."""

from __future__ import annotations

import sys
from collections.abc import Generator
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

PARSING = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff)
"""Options without the names of the dataclasses they are in; a flag has no negative twin."""


@contextmanager
def errors_end(program: str, *expected: type[Exception]) -> Generator[None, None, None]:
    """End the process with code 2 and one message where an error is the user's to solve.

    Args:
        program: Stands before the message.
        expected: Errors that a user can act on; those of the operating system are among them anyway.
    """
    try:
        yield
    except BrokenPipeError:  # whoever read the output has enough of it
        sys.stderr.close()
        sys.exit(0)
    except KeyboardInterrupt:
        print(
            f"{program}: interrupted; nothing half-written counts, the same command goes on", file=sys.stderr
        )
        sys.exit(130)
    except (*expected, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        sys.exit(2)
