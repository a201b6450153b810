"""Finds wording that CONTRIBUTING asks to avoid, and long sentences in documents; `make lint` runs it.

python tools/prose.py            # counts of each pattern; exit code 1 if one occurs more often than prose.toml allows
python tools/prose.py --list     # every place
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SETTINGS = PROJECT / "tools" / "prose.toml"
SKIPPED = (
    "CHANGELOG.md",
    "docs/results/",
    "docs/benchmarks.md",
    "docs/experiments/",
    "tools/prose",
)
"""Generated pages, the record of changes, and this tool with its patterns."""
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`*\[])|\n\s*\n|\n(?=[-*|#>] ?)|\n(?=\d+\. )")


def tracked(*suffixes: str) -> list[Path]:
    """Files of the project with one of the suffixes, those that are generated aside."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    names = [name for name in listed.stdout.split("\0") if name.endswith(suffixes)]
    return [PROJECT / name for name in names if not name.startswith(SKIPPED) and (PROJECT / name).exists()]


def places(pattern: re.Pattern[str], paths: list[Path]) -> Iterator[str]:
    """Where a pattern occurs: file, line and text. A line end counts as a space."""
    for path in paths:
        text = path.read_text("utf-8")
        for found in pattern.finditer(re.sub(r"\n[ #]*", lambda gap: " " * len(gap[0]), text)):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{path.relative_to(PROJECT)}:{line}: {' '.join(found[0].split())}"


def long_sentences(words: int, paths: list[Path]) -> Iterator[str]:
    """Sentences of documents with more words than that; code, tables and comments aside."""
    for path in paths:
        text = FENCE.sub("", COMMENT.sub("", path.read_text("utf-8")))
        for sentence in SENTENCE.split(text):
            if not sentence.lstrip().startswith(("|", "#")) and len(sentence.split()) > words:
                yield f"{path.relative_to(PROJECT)}: {len(sentence.split())} words: {' '.join(sentence.split())[:90]}"


def main() -> None:
    """Count and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print every place")
    options = parser.parse_args()
    settings = tomllib.loads(SETTINGS.read_text("utf-8"))
    everything, documents = tracked(".py", ".md", ".sql", ".html", ".j2"), tracked(".md")
    ok = True
    found = {
        each["name"]: (list(places(re.compile(each["find"], re.I), everything)), each["most"], each["use"])
        for each in settings["pattern"]
    }
    limit = settings["documents"]
    long = list(long_sentences(limit["words"], documents))
    found[f"over {limit['words']} words"] = (long, limit["most"], "two sentences")
    for name, (where, most, use) in found.items():
        verdict = "" if len(where) <= most else f"  MORE than {most}: {use}"
        ok = ok and len(where) <= most
        print(f"{name:16} {len(where):5} of at most {most}{verdict}")
        if options.list:
            print("\n".join(f"  {each}" for each in where))
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
