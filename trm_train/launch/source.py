"""The commit that hosts install, and its repository."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from trm_data.errors import without_credentials
from trm_train.launch.shell import Shell

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


def find_source(
    commit: str | None, repository: str | None, shell: Shell, checkout: Path = CHECKOUT
) -> tuple[Source, list[str]]:
    """Return the source to install, and its problems, one line each with the remedy.

    Args:
        commit: Any git name of a commit. None means HEAD of the checkout, which must then be clean and pushed.
        repository: URL; None means the remote `origin` of the checkout.
        shell: Runs git, also in a dry run.
        checkout: Folder of this package.
    """
    if not (checkout / ".git").exists():
        problems: list[str] = []
        if commit is None or not COMMIT.fullmatch(commit):
            problems.append(
                "this package is no git checkout: name what is installed, --commit with 40 letters"
            )
        if repository is None:
            problems.append("this package is no git checkout: name the --repository that hosts fetch")
        return Source(without_credentials(repository or "REPOSITORY"), commit or "COMMIT"), problems
    git = ["git", "-C", str(checkout)]
    problems = []
    asked = shell.ask([*git, "rev-parse", "--verify", "--quiet", f"{commit or 'HEAD'}^{{commit}}"])
    found = asked.out.strip()
    if asked.code and commit is not None and COMMIT.fullmatch(commit):
        found = commit  # the hosts fetch it from the repository, which may have more commits
    elif asked.code:
        problems.append(f"--commit {commit or 'HEAD'}: git knows no such commit in {checkout}")
        found = "COMMIT"
    if commit is None:
        if shell.ask([*git, "status", "--porcelain", "--untracked-files=no"]).out.strip():
            problems.append(
                f"{checkout} has changes that no commit has, and hosts would not: commit them, or name --commit HEAD"
            )
        if not shell.ask([*git, "branch", "--remotes", "--contains", found]).out.strip():
            problems.append(
                f"commit {found[:12]} is on no branch of a remote, so hosts cannot fetch it: git push, or name --commit"
            )
    if repository is None:
        asked = shell.ask([*git, "remote", "get-url", "origin"])
        repository = asked.out.strip()
        if asked.code:
            problems.append(
                "the checkout has no remote called origin: name the --repository that hosts fetch"
            )
            repository = "REPOSITORY"
    elif without_credentials(repository) != repository:
        problems.append(
            f"--repository {without_credentials(repository)}: got a user, a password or a token, which scripts and "
            "logs would show. Name the address without it."
        )
    repository = without_credentials(repository)
    if repository.startswith("-"):
        problems.append(f"--repository {repository!r}: expected an address")
    return Source(without_key(repository), found), problems


def without_key(repository: str) -> str:
    """Rewrite an ssh address as https, which needs no key; return other addresses unchanged."""
    found = SCP_LIKE.fullmatch(repository)
    return f"https://{found['host']}/{found['path']}" if found and "://" not in repository else repository
