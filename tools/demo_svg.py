"""The recording of the demo that README shows: runs `examples/demo.sh` and draws what it printed, line by line.

    python tools/demo_svg.py [--out docs/demo.svg] [--transcript FILE]

The demo runs in a new root, some four minutes; every line is kept with the second at which it came. In the picture
long waits are cut short (`LONGEST_S`), which the clock in its corner does not hide. `--transcript` draws a recording
that was made before: lines of `SECONDS<tab>TEXT`.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
ROWS, COLUMNS = 24, 122
LINE, CHARACTER, MARGIN = 17.0, 7.8, 14.0
"""Height of a line, width of a character, space around the text (pixels)."""
SHORTEST_S, LONGEST_S, LAST_S = 0.04, 0.6, 5.0
"""Between two lines of the picture; and how long the last ones stay."""
BOLD = re.compile(r"\x1b\[1m(.*?)\x1b\[0m")
CODES = re.compile(r"\x1b\[[0-9;]*m")


def main() -> int:
    """Record the demo, or read a recording, and draw it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=PROJECT / "docs" / "demo.svg")
    parser.add_argument("--transcript", type=Path)
    arguments = parser.parse_args()
    lines = record() if arguments.transcript is None else read(arguments.transcript)
    arguments.out.write_text(draw(lines), "utf-8")
    print(f"{arguments.out}: {len(lines)} lines of {lines[-1][0]:.0f} s in {length(lines):.0f} s")
    return 0


def record() -> list[tuple[float, str]]:
    """Every line that the demo prints, with the seconds since it began."""
    found: list[tuple[float, str]] = []
    with tempfile.TemporaryDirectory() as root:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "TRM_ROOT": root, "PATH": path, "COLUMNS": str(COLUMNS)}
        begun = time.monotonic()
        with subprocess.Popen(
            ["sh", "examples/demo.sh"],
            cwd=PROJECT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as demo:
            assert demo.stdout is not None
            for line in demo.stdout:
                found.append((time.monotonic() - begun, line.rstrip("\n").replace(root, "trm")))
        if demo.returncode:
            raise SystemExit(f"the demo ended with {demo.returncode}: {found[-1][1]}")
    return without_paths(found)


def without_paths(lines: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """The lines up to the line that names this checkout's folder."""
    end = next(
        (i for i, (_, line) in enumerate(lines) if line.startswith("to type these commands")), len(lines)
    )
    return lines[:end]


def read(path: Path) -> list[tuple[float, str]]:
    """Lines of `SECONDS<tab>TEXT`."""
    parts = (line.partition("\t") for line in path.read_text("utf-8").splitlines())
    return [(float(seconds), text) for seconds, _, text in parts]


def times(lines: list[tuple[float, str]]) -> list[float]:
    """When each line appears in the picture (s)."""
    found, before = [0.3], lines[0][0]
    for at, _ in lines[1:]:
        found.append(found[-1] + min(max(at - before, SHORTEST_S), LONGEST_S))
        before = at
    return found


def length(lines: list[tuple[float, str]]) -> float:
    """How long the picture takes (s)."""
    return times(lines)[-1] + LAST_S


def draw(lines: list[tuple[float, str]]) -> str:
    """The animated picture; where nothing moves, all lines of the end are seen."""
    whole, shown_at = length(lines), times(lines)
    width, height = 2 * MARGIN + COLUMNS * CHARACTER, 2 * MARGIN + (ROWS + 1) * LINE
    above = [max(0, i + 1 - ROWS) for i in range(len(lines))]  # lines that have scrolled away
    scrolled = ";".join(f"0 {-LINE * rows:g}" for rows in above)
    key_times = ";".join(f"{0 if not i else at / whole:.4f}" for i, at in enumerate(shown_at))
    texts = "\n".join(text(line, i, shown_at[i], whole) for i, (_, line) in enumerate(lines))
    clocks = "\n".join(
        clock(at, shown_at[i], shown_at[i + 1] if i + 1 < len(lines) else whole, whole)
        for i, (at, _) in enumerate(lines)
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"
     role="img" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13">
<title>make demo: two datasets built, a network trained and evaluated, its results asked by SQL</title>
<style>
text {{ white-space: pre; fill: #d4d4d8 }}
.said {{ fill: #fafafa; font-weight: bold }}
.clock {{ fill: #71717a }}
</style>
<rect width="100%" height="100%" rx="8" fill="#18181b"/>
<svg x="{MARGIN:g}" y="{MARGIN:g}" width="{COLUMNS * CHARACTER:g}" height="{ROWS * LINE:g}">
<g transform="translate(0 {-LINE * above[-1]:g})">
<animateTransform attributeName="transform" type="translate" calcMode="discrete" dur="{whole:.2f}s"
  repeatCount="indefinite" values="{scrolled}" keyTimes="{key_times}"/>
{texts}
</g>
</svg>
<g transform="translate({width - MARGIN:g} {height - MARGIN:g})" text-anchor="end">
{clocks}
</g>
</svg>
"""


def text(line: str, row: int, at: float, whole: float) -> str:
    """A line, hidden until its time."""
    said = BOLD.search(line)
    plain = CODES.sub("", line)[:COLUMNS]
    kind = ' class="said"' if said else ""
    hidden = (
        f'<animate attributeName="opacity" calcMode="discrete" dur="{whole:.2f}s" repeatCount="indefinite" '
        f'values="0;1" keyTimes="0;{at / whole:.4f}"/>'
    )
    return f'<text{kind} y="{LINE * (row + 0.8):g}">{html.escape(plain)}{hidden}</text>' if plain else ""


def clock(seconds: float, at: float, until: float, whole: float) -> str:
    """The seconds that the demo had taken, seen for as long as its line is the last."""
    shown = (
        f'<animate attributeName="opacity" calcMode="discrete" dur="{whole:.2f}s" repeatCount="indefinite" '
        f'values="0;1;0" keyTimes="0;{at / whole:.4f};{until / whole:.4f}"/>'
    )
    last = "" if until >= whole else ' opacity="0"'
    return f'<text class="clock"{last}>{seconds:.0f} s{shown}</text>'


if __name__ == "__main__":
    sys.exit(main())
