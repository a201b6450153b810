"""Record the counts of the harness in a JSON file, from which docs/reliability.md is written.

Tests of the harness use the fixture `figures`. The figures are saved if `TRM_RELIABILITY` names a file, else they are
only counted. `python tests/harness/figures.py` writes the document from docs/reliability.json.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
REPORT = PROJECT / "docs" / "reliability.json"
PAGE = PROJECT / "docs" / "reliability.md"
TEXT = Path(__file__).with_name("reliability.md")
MARK = "<!-- figures -->"

WHAT = {
    "damage": "Bits flipped, bytes changed, files cut, deleted and swapped",
    "build kills": "Builds killed at any moment, and run again",
    "training kills": "Training runs killed at any moment, and started again",
    "evaluation kills": "Evaluations killed at any moment, and run again",
    "evaluation kills, with votes": "Evaluations of ARC killed while they write, and run again",
    "sql": "SQL statements that try to change or to reach something",
    "inputs": "Damaged inputs given to readers of files",
    "guided inputs": "Inputs of the same readers that coverage guides (atheris)",
    "failing bucket": "A bucket that fails a twentieth of its requests: 503, resets, lost, cut and changed answers",
}
"""Description of each part of the harness, in the order of the page."""


def record(part: str, figures: Mapping[str, object]) -> None:
    """Save the figures of a part, with their date, if a file is named for them."""
    assert part in WHAT
    if "TRM_RELIABILITY" not in os.environ:
        return
    file = PROJECT / os.environ["TRM_RELIABILITY"]
    there = json.loads(file.read_text()) if file.exists() else {}
    there[part] = {"date": datetime.now(UTC).date().isoformat(), **figures}
    file.write_text(json.dumps(there, indent=1, sort_keys=True) + "\n")


def page(report: Mapping[str, Mapping[str, object]]) -> str:
    """Return the document: the fixed promises, and the recorded figures."""
    rows = ["| what was done | figures | date |", "|---|---|---|"]
    for part, what in WHAT.items():
        found = dict(report.get(part, {}))
        date = found.pop("date", "not run yet")
        told = "; ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in found.items())
        rows.append(f"| {what} | {told or '-'} | {date} |")
    return TEXT.read_text().replace(MARK, "\n".join(rows))


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(REPORT.read_text())))
    sys.exit(0)
