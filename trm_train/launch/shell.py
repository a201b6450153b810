"""Local commands: each is printed before it runs, as a line that can be pasted into a shell."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from trm_train.errors import LaunchError

Say = Callable[[str], None]

LIMIT_S = 120.0
"""Default timeout of a command (s); commands that create machines have their own timeouts."""
NO_ANSWER = 124
"""Exit code of a command that timed out, as of the program `timeout`."""


@dataclass(frozen=True)
class Done:
    """Result of a command.

    Attributes:
        line: Command line, as typed in a shell.
        code: Exit code.
        out: Standard output.
        err: Standard error.
    """

    line: str
    code: int
    out: str
    err: str

    @property
    def reason(self) -> str:
        """The last lines of standard error, joined into one."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        return " ".join(lines[-3:]) or f"exit code {self.code}"

    def failure(self, what: str = "") -> LaunchError:
        """Return the error to raise if the command had to succeed."""
        return LaunchError(f"{what or self.line}: exit code {self.code}: {self.reason}")


@dataclass
class Shell:
    """Runs commands; a dry run only prints them.

    Attributes:
        say: Prints a line.
        dry: Execute nothing; every command returns its assumed output.
    """

    say: Say
    dry: bool = False

    def __post_init__(self) -> None:
        self._said: set[str] = set()

    def ask(
        self,
        words: Sequence[str],
        *,
        assume: str = "",
        limit_s: float = LIMIT_S,
        once: str = "",
    ) -> Done:
        """Run a command; return its result whatever the exit code.

        Args:
            words: The command.
            assume: Output to return in a dry run.
            limit_s: Timeout (s); the exit code is then `NO_ANSWER`.
            once: Key for repeated commands; only the first with this key is printed.
        """
        self._print(shlex.join(words), once)
        return self._carry_out(words, Done(shlex.join(words), 0, assume, ""), limit_s)

    def run(self, words: Sequence[str], *, assume: str = "", limit_s: float = LIMIT_S, once: str = "") -> str:
        """Run a command and return its output; raise LaunchError if it fails. Arguments as in `ask`."""
        done = self.ask(words, assume=assume, limit_s=limit_s, once=once)
        if done.code:
            raise done.failure()
        return done.out

    def ask_all(
        self, commands: Sequence[Sequence[str]], *, assume: str = "", limit_s: float = LIMIT_S, once: str = ""
    ) -> list[Done]:
        """Run several commands in parallel. Arguments as in `ask`."""
        for index, words in enumerate(commands):
            self._print(shlex.join(words), once and f"{once} {index}")
        with ThreadPoolExecutor(max(len(commands), 1)) as pool:
            return list(
                pool.map(
                    lambda words: self._carry_out(words, Done(shlex.join(words), 0, assume, ""), limit_s),
                    commands,
                )
            )

    def _carry_out(self, words: Sequence[str], assumed: Done, limit_s: float) -> Done:
        if self.dry:
            return assumed
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit_s,
                check=False,
            )
        except FileNotFoundError:
            raise LaunchError(f"{words[0]} is not on the PATH of this machine") from None
        except subprocess.TimeoutExpired:
            return Done(assumed.line, NO_ANSWER, "", f"no answer for {limit_s:g} s")
        return Done(assumed.line, done.returncode, done.stdout, done.stderr)

    def _print(self, line: str, once: str) -> None:
        if once and once in self._said:
            return
        self._said.add(once)
        self.say(f"$ {line}{'   # and again' if once and not self.dry else ''}")
