"""Every command and option in README and docs exists, and every link has a target."""

from __future__ import annotations

import functools
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from tests.conftest import PROJECT, run_here
from trm_data.kinds.registry import kind_names

DOCUMENTS = sorted(
    path
    for path in [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *(PROJECT / "docs").rglob("*.md")]
    if "decisions" not in path.parts
)
COMMAND = re.compile(r"(?:^|[\s`(;])(trm-(?:data|train|eval) [^`\n#;|]*)")


def commands(text: str) -> list[str]:
    """Return the lines in code blocks and sentences that call one of the programs."""
    return [match.strip() for match in COMMAND.findall(text)]


@functools.cache
def help_of(*words: str) -> str:
    """Return the help of a command, without frames."""
    main = import_module(f"{words[0].replace('-', '_')}.cli").main
    return run_here(main, *words[1:], "--help").stdout


def known_options(words: list[str]) -> str:
    """Return the help that lists the options of a command, including those of its kind or form."""
    if words[:2] == ["trm-train", "run"] and len(words) > 2:
        chosen = {"--optim.name", "--model.architecture", "--data.form"}
        forms = [
            word for before, word in zip(words, [*words[1:], ""], strict=True) if {before, word} & chosen
        ]
        return help_of("trm-train", "run", "quickstart", *forms)
    if words[:2] == ["trm-train", "batch"]:
        return help_of("trm-train", "batch") + help_of("trm-train", "run", "quickstart")
    if words[:2] == ["trm-data", "build"] and len(words) > 2:
        kind = words[2] if words[2] in kind_names() else "sudoku"
        return help_of("trm-data", "build") + help_of("trm-data", "build", kind) + "--option, of own kinds"
    return help_of(*words[:2])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_commands_and_their_options_exist(path: Path) -> None:
    for line in commands(path.read_text()):
        try:
            words = shlex.split(line.rstrip(",.:)"))
        except ValueError:  # a quotation that continues on the next line
            continue
        if len(words) < 2 or not re.fullmatch(r"[a-z]+", words[1]):
            continue
        assert re.search(rf"\b{words[1]}\b", help_of(words[0])), line
        options = {
            word.partition("=")[0] for word in words[2:] if re.fullmatch(r"--[a-z][a-z.-]*(=.*)?", word)
        }
        known = known_options(words) + help_of(words[0])
        for option in options:
            assert option in known, f"{path.name}: {line}: {option}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_links_lead_to_files(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target
