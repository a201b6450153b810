"""Bash scripts that run on a host of a TPU, parsing of their output, and the commit that hosts install.

Files of a host, under `~/trm-lab`:

    source/<commit>/              the package, in its own virtual environment
    launch/<run>/log, code, pid   a background run; `code` is written when it ends
    launch/<run>/lock             locked while it runs, so that it never runs twice
    launch/<run>/stop             exists if the run was asked to stop

Every script answers with lines `trm-launch HOST WORD [VALUE]`; all other output of a login shell is ignored.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trm_data.errors import without_credentials
from trm_train.errors import LaunchError

UV = "0.13.8"
"""Version of uv to install if the host has none; the same as in the Makefile."""
LOG_BEGINS = "trm-launch log\n"
"""Line before the log, because a login shell may print too."""
ANSWER = re.compile(r"^trm-launch (?P<host>\S+) (?P<word>[a-z]+)(?: (?P<value>.+))?$", re.MULTILINE)
TASK = '"$@" >> log 2>&1 & echo $! > pid; wait $!; echo $? > code.new; mv code.new code'
"""Shell command of a background run: appends to its log, and writes its process id and finally its exit code."""


class Answer(NamedTuple):
    """One output line of a script: host that printed it, kind of answer, value."""

    host: str
    word: str
    value: str = ""


def answers(printed: str) -> list[Answer]:
    """Parse the answers in the output of a script."""
    return [Answer(found["host"], found["word"], found["value"] or "") for found in ANSWER.finditer(printed)]


def answered(word: str, value: str = "") -> str:
    """Return the bash command that prints an answer."""
    return f'echo "trm-launch $(hostname) {word}{f" {value}" if value else ""}"'


def install(source: Source) -> str:
    """Return a script that installs a commit from its lock file; hosts with a shared home do it once."""
    steps = [
        "set -eu",
        f"mkdir -p {_folder(source)}",
        f"cd {_folder(source)}",
        "if [ -e .installed ]; then exit 0; fi",
        'PATH="$HOME/.local/bin:$PATH"',
        f"command -v uv > /dev/null || python3 -m pip install --quiet --user uv=={UV}",
        "git init --quiet",
        f"git fetch --quiet --depth 1 {shlex.quote(source.repository)} {source.commit}",
        "git checkout --quiet --force FETCH_HEAD",
        "uv sync --quiet --locked --no-default-groups --extra tpu --extra gcs",
        "touch .installed",
    ]
    once = f'flock -o "$HOME"/trm-lab/install.lock {shlex.join(["bash", "-c", "; ".join(steps)])}'
    return f'mkdir -p "$HOME"/trm-lab && {once} && {answered("installed")}'


def start(run: str, source: Source, words: Sequence[str]) -> str:
    """Return a script that starts a run in the background, unless it runs, and waits until it is running."""
    task = f"{shlex.quote(TASK)} trm-launch {_folder(source)}/.venv/bin/trm-train {shlex.join(words)}"
    return "\n".join(
        [
            f'folder="$HOME"/trm-lab/launch/{shlex.quote(run)}',
            'mkdir -p "$folder" && cd "$folder" || exit 1',
            "if flock -s -n lock true; then",
            "  rm -f code stop",
            # The background run waits for the lock, because status checks hold it for a moment.
            f"  setsid nohup flock -w 20 -o lock bash -c {task} < /dev/null > /dev/null 2>&1 &",
            "  for i in $(seq 150); do",
            "    if [ -e code ] || ! flock -s -n lock true; then break; fi",
            "    sleep 0.1",
            "  done",
            "fi",
            answered("started"),
        ]
    )


def look(run: str) -> str:
    """Return a script that prints the state of a run, and other runs on the host."""
    ended = answered("$state", '$(cat "$run/code")')
    lines = [
        f"run={shlex.quote(run)}",
        'mkdir -p "$HOME"/trm-lab/launch && cd "$HOME"/trm-lab/launch || exit 1',
        "for lock in */lock; do",
        '  other="${lock%/lock}"',
        '  if [ ! -e "$lock" ] || [ "$other" = "$run" ] || flock -s -n "$lock" true; then continue; fi',
        f"  {answered('other', '$other')}",
        "done",
        'if [ -e "$run/lock" ] && ! flock -s -n "$run/lock" true; then',
        f"  {answered('running')}; exit 0",
        "fi",
        'state=ended; if [ -e "$run/stop" ]; then state=stopped; fi',
        f'if [ -e "$run/code" ]; then {ended}; else {answered("absent")}; fi',
    ]
    return "\n".join(lines)


def log(run: str, lines: int) -> str:
    """Return a script that prints `LOG_BEGINS` and the log of a run after its first `lines` lines."""
    file = f'"$HOME"/trm-lab/launch/{shlex.quote(run)}/log'
    return f"printf {shlex.quote(LOG_BEGINS)}; tail -n +{lines + 1} {file} 2> /dev/null"


def stop(run: str) -> str:
    """Return a script that asks a run to save a checkpoint and exit."""
    return "\n".join(
        [
            f'cd "$HOME"/trm-lab/launch/{shlex.quote(run)} 2> /dev/null || exit 0',
            'if ! flock -s -n lock true; then touch stop; kill -TERM "$(cat pid)"; fi',
            answered("asked"),
        ]
    )


def _folder(source: Source) -> str:
    return f'"$HOME"/trm-lab/source/{source.commit[:12]}'


CHECKOUT = Path(__file__).resolve().parents[2]
COMMIT = re.compile(r"[0-9a-f]{40}")
SCP_LIKE = re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]+\.[\w-]+):(?P<path>[^/].*)")
"""SSH address in git's scp-like syntax; it needs a key, which other hosts do not have."""


@dataclass(frozen=True)
class Source:
    """The package at one commit.

    Attributes:
        repository: URL that git fetches from.
        commit: Full hash, 40 digits.
    """

    repository: str
    commit: str


def find_source(commit: str | None, repository: str | None, checkout: Path = CHECKOUT) -> Source:
    """Return the source to install.

    Args:
        commit: Full hash of a commit of the repository. None means HEAD of the checkout, which must be clean and
            pushed.
        repository: URL; None means the remote `origin` of the checkout.
        checkout: Folder of this package.

    Raises:
        LaunchError: The hosts could not fetch the commit.
    """
    if commit is None:
        commit = _git(checkout, "rev-parse", "--verify", "HEAD")
        if _git(checkout, "status", "--porcelain", "--untracked-files=no"):
            raise LaunchError(
                f"{checkout}: uncommitted changes, which hosts would not have. Commit them, or use --commit HASH."
            )
        if not _git(checkout, "branch", "--remotes", "--contains", commit):
            raise LaunchError(
                f"commit {commit[:12]} is on no branch of a remote, so hosts cannot fetch it. Run git push, or use "
                "--commit HASH."
            )
    if not COMMIT.fullmatch(commit):
        raise LaunchError(f"--commit {commit!r}: expected the full hash, 40 digits (git rev-parse HEAD)")
    repository = repository or without_credentials(_git(checkout, "remote", "get-url", "origin"))
    if repository.startswith("-") or without_credentials(repository) != repository:
        raise LaunchError(
            f"--repository {without_credentials(repository)!r}: expected an address without a user, a password or a "
            "token, which scripts and logs would show"
        )
    found = SCP_LIKE.fullmatch(repository)  # as https, which needs no key
    return Source(
        f"https://{found['host']}/{found['path']}" if found and "://" not in repository else repository,
        commit,
    )


def _git(checkout: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(checkout), *words], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise LaunchError(
            f"{checkout}: git {' '.join(words)} failed. Name the source: --commit HASH --repository URL"
        ) from error
    return done.stdout.strip()
