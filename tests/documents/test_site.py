"""The documentation site: it builds, it has every public name, and a broken link fails the build."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
import yaml

import trm_data
import trm_eval
from tests.conftest import PROJECT
from tests.documents.test_commands import tracked_files
from tests.trm_eval.report.test_browser import BROWSER, NO_BROWSER

MKDOCS = Path(sys.executable).with_name("mkdocs")


def build(project: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [MKDOCS, "build", "--config-file", project / "mkdocs.yml", "--site-dir", site],
        cwd=project,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    done = build(PROJECT, site)
    assert done.returncode == 0, done.stderr
    return site


def text_of(page: Path) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page.read_text("utf-8")))


@pytest.mark.parametrize("page", [page for page in tracked_files() if page.endswith(".md")])
def test_rows_of_tables_are_whole(page: str) -> None:
    """A line break inside a row ends the table there."""
    prose = re.sub(r"^```.*?^```", "", (PROJECT / page).read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert [line for line in prose.splitlines() if re.match(r"\|[^{]*[^|]$", line)] == []


def test_it_has_every_public_name_command_and_table(site: Path) -> None:
    for module in (trm_data, trm_eval):
        said = text_of(site / "reference" / f"{module.__name__}.html")
        for name in module.__all__:
            assert f"{module.__name__}.{name}" in said, name
        assert "Raises:" in said
    commands = text_of(site / "reference" / "commands.html")
    for words in ("trm-data build sudoku", "trm-train batch", "trm-eval submission"):
        assert f"usage: {words} " in commands
    tables = text_of(site / "reference" / "tables.html")
    for words in ("predicted_cells", "path_length", "halting logit after the last supervision step"):
        assert words in tables


def test_pages_of_the_checkout_are_there_and_notes_to_tests_are_not(site: Path) -> None:
    index = (site / "index.html").read_text("utf-8")
    assert "Less is More" in index
    assert "<!-- run" not in index
    assert 'href="python.html"' in index
    assert 'href="contributing.html"' in index
    assert list((site / "decisions").glob("0031-*.html"))
    assert list((site / "experiments").glob("exp01.html"))


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in (site / "index.html", site / "reference" / "trm_data.html"):
        fetched = re.findall(
            r'(?:<script[^>]* src|<link[^>]* href|<img[^>]* src)="(https?:[^"]+)"', page.read_text("utf-8")
        )
        assert fetched == []


@pytest.mark.skipif(BROWSER is None, reason=NO_BROWSER)
def test_the_search_of_a_page_in_a_folder_finds_the_page_on_own_puzzles(site: Path, tmp_path: Path) -> None:
    """Pages loaded from `file:` start no workers and fetch no files."""
    page = f"{(site / 'experiments' / 'exp01.html').as_uri()}?q=own%20dataset"
    options = ["--headless", "--no-sandbox", "--virtual-time-budget=20000", f"--user-data-dir={tmp_path}"]
    done = subprocess.run(
        [str(BROWSER), *options, "--dump-dom", page], capture_output=True, text=True, timeout=120
    )
    found = re.findall(r'<a href="([^"]*)" class="md-search-result__link"', done.stdout)
    assert found[0] == (site / "own-puzzles.html").as_uri()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("link", "said"),
    [("[away](no-such-page.md)", "no-such-page.md"), ("[away](python.md#no-such-part)", "no-such-part")],
)
def test_a_link_that_leads_nowhere_fails_it(tmp_path: Path, link: str, said: str) -> None:
    for name in ("docs", "tools", "catalogs", "trm_data", "trm_train", "trm_eval"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    for name in ("mkdocs.yml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(PROJECT / name, tmp_path)
    with (tmp_path / "docs" / "concepts.md").open("a") as page:
        page.write(f"\n{link}\n")
    refused = build(tmp_path, tmp_path / "site")
    assert refused.returncode == 1
    assert said in refused.stderr


def test_the_version_is_one() -> None:
    citation = yaml.safe_load((PROJECT / "CITATION.cff").read_text())
    assert citation["version"] == trm_data.__version__
    assert f'version = "{trm_data.__version__}"\n' in (PROJECT / "pyproject.toml").read_text()
