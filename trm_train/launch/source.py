"""The commit that hosts install, and its repository."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from trm_data.errors import without_credentials
from trm_train.errors import LaunchError

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
