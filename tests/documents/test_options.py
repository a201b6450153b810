"""Every option has a help text of at most 160 characters; no sentence of a command's help has more than 30 words."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.conftest import run_here
from trm_data.cli import main as data
from trm_eval.cli import main as evaluate
from trm_train.cli import main as train

MAINS = {"trm-data": data, "trm-train": train, "trm-eval": evaluate}
LONGEST = 160
"""Maximum length of a help text without its default, in characters."""
WORDS = 30
"""Maximum length of a sentence in the description of a command, in words."""
COMMANDS = re.compile(r"^usage: [^{╭]*\{([a-z0-9,\s-]+)\}")
DEFAULT = re.compile(r"\s*\((?:default|repeatable|required)[^()]*(?:\([^()]*\))?[^()]*\)\.?$")


def pages(words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the help of a command and of its subcommands, by name."""
    done = run_here(MAINS[words[0]], *words[1:], "--help")
    assert done.returncode == 0, done.stderr
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    yield " ".join(words), text
    if "─ subcommands ─" in text:
        found = COMMANDS.match(text)
        for command in re.split(r"[,\s]+", found[1].strip(", \n")) if found else ():
            yield from pages((*words, command))


def options_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield each option of a help page, with its text on one line."""
    option, said = "", list[str]()
    for line in text.splitlines():
        begins = re.match(r"│ (--?[A-Za-z][\w.,-]*[^│]*?)(?:\s{2,}([^│]*))?│$", line)
        if begins or not line.startswith("│"):
            if option:
                yield option, " ".join(said).strip()
            option, said = (begins[1].strip(), [(begins[2] or "").strip()]) if begins else ("", [])
        else:
            said.append(line.strip("│ "))


@pytest.mark.parametrize("program", MAINS)
def test_help_is_there_and_short(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    wrong: list[str] = []
    seen = 0
    own = pages(("trm-train", "run", "quickstart")) if program == "trm-train" else ()
    for name, text in (*pages((program,)), *own):
        for option, said in options_in(text):
            seen += 1
            said = DEFAULT.sub("", said)
            if not 1 <= len(said) <= LONGEST:
                wrong.append(f"{name} {option.split()[0]}: {len(said)} characters: {said}")
        for paragraph in re.split(r"\n\s*\n", text.split("╭")[0]):
            if not paragraph.startswith(("usage:", "  ")):
                for sentence in re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split())):
                    if len(sentence.split()) > WORDS:
                        wrong.append(f"{name}: {len(sentence.split())} words: {sentence}")
    assert seen > 50
    assert not wrong, "\n".join(wrong)
