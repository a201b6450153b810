"""The pictures of pages that documents show, taken of real runs.

    python tools/screenshots.py [--root ROOT] [--study quickstart_width] [--docs docs]

Writes the report of a study again (`trm-eval report`) and takes its page at the width of a phone and of a desk, light
and dark, into `docs/results/STUDY/screenshots`; starts the dashboard (`trm-eval serve`) and takes its page of
evaluations as `docs/serve.png`. Needs Chromium, the extra `serve`, and a root in which the study's runs are tested.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from tests.trm_eval.serve.browser import BROWSER, NO_BROWSER, Tab, a_tab, follow  # noqa: E402

WIDTHS = (390, 1400)
"""Of a phone and of a desk (CSS pixels)."""
SCHEMES = {"light": "", "dark": "-dark"}
BIN = Path(sys.executable).parent


def main() -> int:
    """Take them all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--root", default="trm")
    parser.add_argument("--study", default="quickstart_width")
    parser.add_argument("--docs", type=Path, default=PROJECT / "docs")
    arguments = parser.parse_args()
    if BROWSER is None:
        print(NO_BROWSER, file=sys.stderr)
        return 2
    folder = arguments.docs / "results" / arguments.study / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, a_tab(Path(place) / "profile") as tab:
        page = Path(place) / "report"
        command = [BIN / "trm-eval", "report", arguments.study, "--out", page.name]
        command += ["--root", Path(arguments.root).absolute()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=place)
        for scheme, ending in SCHEMES.items():
            for width in WIDTHS:
                take(tab, (page / "index.html").as_uri(), folder / f"page-{width}{ending}.png", width, scheme)
        take_dashboard(tab, arguments.root, arguments.docs / "serve.png")
    return 0


def take(tab: Tab, url: str, path: Path, width: int, scheme: str) -> None:
    """A picture of the beginning of a page."""
    tab.resize(width, 1600 if width > 500 else 1200)
    tab.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    tab.open(url, "At a glance")
    tab.picture(path)
    print(path)


def take_dashboard(tab: Tab, root: str, path: Path) -> None:
    """A picture of the dashboard's page of evaluations."""
    command = [BIN / "trm-eval", "serve", "--root", root, "--port", "8799"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout is not None
            url = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
            tab.resize(1400, 1300)
            tab.open(url, "runs.")
            follow(tab, "Evaluations")
            tab.wait("Exact accuracy by supervision step")
            tab.picture(path)
            print(path)
        finally:
            server.terminate()


if __name__ == "__main__":
    sys.exit(main())
