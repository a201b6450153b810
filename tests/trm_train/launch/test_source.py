"""Selection of the commit to install: hosts must be able to fetch it, and it has no local changes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from trm_train.launch import scripts
from trm_train.launch.shell import Shell
from trm_train.launch.source import find_source, without_key


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone with a commit that its origin also has."""
    git(tmp_path, "init", "--quiet", "origin")
    (tmp_path / "origin" / "file").write_text("a")
    commit(tmp_path / "origin")
    git(tmp_path, "clone", "--quiet", "origin", "checkout")
    return tmp_path / "checkout"


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "--quiet", "-m", "m")
    return git(folder, "rev-parse", "HEAD")


def found(
    checkout: Path, name: str | None = None, repository: str | None = None
) -> tuple[str, str, list[str]]:
    source, problems = find_source(name, repository, Shell(lambda _: None), checkout)
    return source.commit, source.repository, problems


def test_head_of_a_checkout_that_is_clean_and_pushed(checkout: Path) -> None:
    assert found(checkout) == (git(checkout, "rev-parse", "HEAD"), str(checkout.parent / "origin"), [])


def test_what_hosts_would_not_have_is_said(checkout: Path) -> None:
    (checkout / "file").write_text("b")
    assert [re.search("changes that no commit has", line) is not None for line in found(checkout)[2]] == [
        True
    ]
    head = commit(checkout)
    assert [f"commit {head[:12]} is on no branch of a remote" in line for line in found(checkout)[2]] == [
        True
    ]
    assert found(checkout, "HEAD") == (head, str(checkout.parent / "origin"), [])
    assert found(checkout, head[:9])[0] == head


def test_a_commit_that_git_does_not_know_is_refused_unless_all_of_it_is_named(checkout: Path) -> None:
    assert "git knows no such commit" in found(checkout, "no-branch")[2][0]
    assert found(checkout, "1" * 40)[2] == []


def test_without_a_checkout_commit_and_repository_are_named(tmp_path: Path) -> None:
    assert len(found(tmp_path)[2]) == 2
    assert found(tmp_path, "1" * 40, "https://example.com/r") == ("1" * 40, "https://example.com/r", [])


@pytest.mark.parametrize("user", ["user:s3cret", "s3cret", "s3cret:x-oauth-basic"])
def test_a_token_in_an_address_is_neither_shown_nor_sent(checkout: Path, user: str) -> None:
    git(checkout, "remote", "set-url", "origin", f"https://{user}@example.com/me/trm.git")
    assert found(checkout)[1:] == ("https://example.com/me/trm.git", [])
    _, repository, problems = found(checkout, None, f"https://{user}@example.com/r")
    assert repository == "https://example.com/r"
    assert len(problems) == 1
    assert "s3cret" not in problems[0]


def test_a_repository_is_no_option(checkout: Path) -> None:
    assert "expected an address" in found(checkout, None, "--upload-pack=x")[2][0]


@pytest.mark.parametrize(
    ("address", "instead"),
    [
        ("git@github.com:me/trm.git", "https://github.com/me/trm.git"),
        ("https://github.com/me/trm.git", "https://github.com/me/trm.git"),
        ("/local/path", "/local/path"),
        ("ssh://git@example.com/me/trm", "ssh://git@example.com/me/trm"),
    ],
)
def test_hosts_need_no_key_where_there_is_another_way(address: str, instead: str) -> None:
    assert without_key(address) == instead


def test_hosts_install_the_version_of_uv_that_the_makefile_has() -> None:
    assert f"uv=={scripts.UV}" in (PROJECT / "Makefile").read_text()
