"""Commands of this machine: each is printed before it runs, as a line that can be pasted."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from trm_train.errors import LaunchError

Say = Callable[[str], None]

LIMIT_S = 120.0
"""An answer takes no longer; what creates machines has limits of its own."""
NO_ANSWER = 124
"""Code of a command that was ended for taking too long, as of `timeout`."""


@dataclass(frozen=True)
class Done:
    """A command that has ended.

    Attributes:
        line: What was run, as a person types it.
        code: Its exit code.
        out: What it printed.
        err: What it printed to standard error.
    """

    line: str
    code: int
    out: str
    err: str

    @property
    def reason(self) -> str:
        """Its last lines on standard error, in one."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        return " ".join(lines[-3:]) or f"exit code {self.code}"

    def failure(self, what: str = "") -> LaunchError:
        """The error that it is where it had to succeed."""
        return LaunchError(f"{what or self.line}: exit code {self.code}: {self.reason}")


@dataclass
class Shell:
    """Runs commands, or in a dry run says what it would run.

    Attributes:
        say: Prints a line.
        dry: Run nothing; every command answers with what is assumed.
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
        """What a command answers, whatever its exit code.

        Args:
            words: The command.
            assume: What it prints in a dry run.
            limit_s: Time limit (s); it then ends with `NO_ANSWER`.
            once: Of commands that are repeated with this name only the first is printed.
        """
        self._print(shlex.join(words), once)
        return self._carry_out(words, Done(shlex.join(words), 0, assume, ""), limit_s)

    def run(self, words: Sequence[str], *, assume: str = "", limit_s: float = LIMIT_S, once: str = "") -> str:
        """What a command prints that has to succeed; as `ask`."""
        done = self.ask(words, assume=assume, limit_s=limit_s, once=once)
        if done.code:
            raise done.failure()
        return done.out

    def ask_all(
        self, commands: Sequence[Sequence[str]], *, assume: str = "", limit_s: float = LIMIT_S, once: str = ""
    ) -> list[Done]:
        """As `ask`, of several commands at a time."""
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
