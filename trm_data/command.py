"""Shared by the commands of all three packages: root option, parsing, `--version`, errors, exit codes, signals.

SIGTERM ends a command as Ctrl-C does, by an exception, so that its workers and leases end with it.

Python handles a signal only between its own instructions: during a jax program or a query, perhaps minutes later. So
commands that run jax programs or queries use `ending_at_once`, and training has a handler of its own (`handled`).
"""

from __future__ import annotations

import inspect
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, is_dataclass
from types import FrameType
from typing import Annotated, Any, NoReturn, Union, get_args

import tyro
from tyro.conf import arg, subcommand

from trm_data.errors import OF_SPACE, Exit, Note, no_such

Root = Annotated[
    str | None,
    arg(
        metavar="DIR",
        help="Folder of everything, or gs://bucket/prefix; else $TRM_ROOT, else ./trm.",
        help_behavior_hint="",
    ),
]

Json = Annotated[bool, arg(help="Print JSON for machines.")]

Wide = Annotated[bool, arg(help="Print all columns and rows on a terminal, however long the lines.")]
WIDE_SHOWS = "; --wide shows all"
"""Hint for tables that do not fit the terminal, for commands with that option."""

SkipDamaged = Annotated[bool, arg(help="Skip damaged files, with exit code 0; skipped files are named.")]

PARSING = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff)
"""Option names have no prefix from their dataclass; flags have no negative form."""


def emit(result: object, said: str | Iterable[str] | Callable[[], object], *, as_json: bool) -> None:
    """Print the result of a command, as text or as JSON.

    Args:
        result: Plain data; may contain dataclasses, paths and times.
        said: Text, its lines, or a function that prints it.
        as_json: The user gave --json.
    """
    if as_json:
        print(json.dumps(result, indent=1, default=_plain))
    elif callable(said):
        said()
    else:
        for line in [said] if isinstance(said, str) else said:
            print(line)


def _plain(value: Any) -> object:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def say_what_is_left_out(program: str, problems: Sequence[str], *, skip: bool) -> int:
    """Print on stderr what a result lacks; return the exit code, which a `Note` does not change.

    Args:
        program: Prefix of each line.
        problems: A line for each item that could not be read.
        skip: The user asked to skip damaged files.
    """
    for problem in problems:
        print(f"{program}: left out: {problem}", file=sys.stderr)
    damaged = any(not isinstance(problem, Note) for problem in problems)
    return Exit.FOUND if damaged and not skip else Exit.DONE


def parse_command(
    program: str, description: str, commands: Any, arguments: Sequence[str], *, rest: bool = False
) -> Any:
    """Parse the user's command into one of the dataclasses of a program.

    Args:
        program: Name of the program.
        description: Its help text.
        commands: Union of dataclasses, each annotated as a subcommand.
        arguments: What the user typed after the program's name.
        rest: Return unknown arguments as well, in order.
    """
    names = [case.__metadata__[0].name for case in get_args(commands)]
    if arguments and not arguments[0].startswith("-") and arguments[0] not in names:
        said = no_such(f"no command {arguments[0]!r}", arguments[0], names, f"commands: {', '.join(names)}")
        print(f"{program}: {said}", file=sys.stderr)
        sys.exit(Exit.ERROR)
    if listed := list(arguments) in (["-h"], ["--help"]):
        description = f"{description} `{program} COMMAND --help` shows options and examples."
    command = tyro.cli(
        _briefly(commands) if listed else commands,
        prog=program,
        description=description,
        args=list(arguments),
        config=PARSING,
        return_unknown_args=rest,
    )
    keep_ctrl_c()
    return command


def _briefly(commands: Any) -> Any:
    """Return the same commands, with only the first paragraph of their help."""
    brief: list[Any] = []
    for case in get_args(commands):
        made, name = case.__origin__, case.__metadata__[0].name
        says = " ".join((inspect.getdoc(made) or "").partition("\n\n")[0].split())
        brief.append(Annotated[made, subcommand(name, description=says)])
    return Union[tuple(brief)]  # noqa: UP007


def answer_version(program: str, arguments: Sequence[str]) -> None:
    """Print the version and exit if `--version` is the first argument.

    Args:
        program: Prefix of the version.
        arguments: Arguments after the program name. Later `--version` may be an option of a subcommand.
    """
    if arguments and arguments[0] == "--version":
        from importlib.metadata import version

        print(f"{program} {version('trm-lab')}")
        sys.exit(0)


@contextmanager
def errors_end(program: str, *expected: type[Exception]) -> Generator[None, None, None]:
    """Exit with a code of `Exit` and one message if the user can solve the error.

    Args:
        program: Prefix of the message.
        expected: Error types that a user can act on; `OSError` is always included.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, io.StringIO())
    # No command needs BLAS, whose start retries for ever where there is no memory for its threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(Exit.TERMINATED))
    try:
        try:
            yield
        finally:
            try:
                sys.stdout.flush()  # now, so that a full disk is reported like any other error
            except OSError as error:
                error.filename = "stdout"
                raise
    except BrokenPipeError:  # the reader closed the pipe
        sys.stderr.close()
        sys.exit(Exit.BROKEN_PIPE)
    except KeyboardInterrupt:
        _end_interrupted(program)
    except (*expected, OSError) as error:
        full = isinstance(error, OSError) and error.errno in OF_SPACE
        if full:  # without its buffer: Python writes it at exit, fails and prints a second error
            with suppress(OSError, ValueError, AttributeError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, sys.stdout.fileno())
                os.close(nowhere)
        advice = "; free some space; the same command resumes" if full else ""
        print(f"{program}: {_of_system(error)}{advice}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", Exit.ERROR))
    except Exception as error:
        if str(error) == "Query interrupted":  # DuckDB's RuntimeError in place of KeyboardInterrupt
            _end_interrupted(program)
        reason = str(error).lower()
        told = isinstance(error, (RuntimeError, ImportError)) and any(words in reason for words in OF_MEMORY)
        if not told and not isinstance(error, MemoryError):
            raise
        print(
            f"{program}: not enough memory ({' '.join(str(error).split()) or 'none was left'}); raise the limit "
            "(ulimit -v, the container's), or ask for less at a time",
            file=sys.stderr,
        )
        sys.exit(Exit.ERROR)


def _end_interrupted(program: str) -> NoReturn:
    print(f"{program}: interrupted; partial files do not count; the same command resumes", file=sys.stderr)
    sys.exit(Exit.INTERRUPTED)


def _of_system(error: Exception) -> str:
    """Return the error message; for an OSError without number and quotes, like other programs."""
    if type(error).__module__ == "builtins" and isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror[0].lower()}{error.strerror[1:]}"
    return str(error)


OF_MEMORY = ("can't start new thread", "failed to map segment", "cannot allocate memory", "out of memory")
"""Words of Python, the dynamic linker and others in errors for lack of memory."""


SHOW_CURSOR = b"\x1b[?25h\r\n"
STOPS = (signal.SIGTERM, signal.SIGINT)


def keep_ctrl_c() -> None:
    """Import polars, then install the handler of SIGINT again; no effect outside the main thread.

    On import, polars (2.1.0) replaces the handler, and its own handler restarts system calls: afterwards Ctrl-C ends no
    wait for a lock, a thread or a process, and a handler such as `SIG_DFL` is gone. A later handler stays.
    """
    import polars  # noqa: F401  # pyright: ignore[reportUnusedImport]

    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is threading.main_thread() and usual is not None:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def handled(
    handler: Callable[[int, FrameType | None], Any] | signal.Handlers, *numbers: signal.Signals
) -> Generator[None, None, None]:
    """Install a signal handler within the block; no effect outside the main thread, which alone receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    keep_ctrl_c()
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)


@contextmanager
def ending_at_once() -> Generator[None, None, None]:
    """Within the block SIGTERM and Ctrl-C end the process at once; results on disk are complete at every moment."""
    with handled(signal.SIG_DFL, *STOPS):
        yield


def end_now(code: int) -> NoReturn:
    """Exit at once, without waiting for threads; restore the terminal cursor, which a progress bar hides."""
    if os.isatty(2):
        with suppress(OSError):
            os.write(2, SHOW_CURSOR)
    os._exit(code)
