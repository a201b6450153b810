"""Headless Chromium, driven over the DevTools protocol: page content, requests and console errors."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_BROWSER = (
    "no chromium, chromium-browser or google-chrome in PATH: what the dashboard looks like is not tested"
)
STARTS_S, SHOWS_S = 60, 90


class Tab:
    """One browser page.

    Attributes:
        errors: Errors in the page's console, and exceptions.
        requests: Requested URLs.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._connection, self._ids = connection, itertools.count(1)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **values: Any) -> Any:
        """Send a command to the browser, and handle events until it answers."""
        number = next(self._ids)
        self._connection.send(json.dumps({"id": number, "method": method, "params": values}))
        while True:
            message = json.loads(self._connection.recv(timeout=SHOWS_S))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._hear(message)

    def _hear(self, message: dict[str, Any]) -> None:
        values = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(values["exceptionDetails"])[:1000])
            case "Runtime.consoleAPICalled" if values["type"] in ("error", "assert"):
                self.errors.append(json.dumps(values["args"])[:1000])
            case "Log.entryAdded" if values["entry"]["level"] == "error":
                self.errors.append(f"{values['entry']['text']} {values['entry'].get('url', '')}")
            case "Network.requestWillBeSent":
                self.requests.append(values["request"]["url"])
            case _:
                pass

    def resize(self, width: int, height: int = 1000) -> None:
        """Set the width and height of the page (CSS pixels)."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    def open(self, url: str, *texts: str, without: str = "") -> None:
        """Go to a URL, and wait until these words are shown and nothing is running."""
        self.send("Page.navigate", url=url)
        self.wait(*texts, without=without)

    def wait(self, *texts: str, without: str = "") -> None:
        """Wait until these words are on the page, `without` is not, and its script has ended."""
        until = time.monotonic() + SHOWS_S
        while True:
            text, busy = self.run(
                "[document.body?.innerText ?? '', !!document.querySelector('[data-test-script-state=running]')]"
            )
            if all(each in text for each in texts) and (not without or without not in text) and not busy:
                return
            assert time.monotonic() < until, f"{texts} did not appear; the page says: {text}"
            time.sleep(0.2)

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write a screenshot as PNG."""
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))


def follow(tab: Tab, label: str) -> None:
    """Click on the name of a page; on a phone the names are in a drawer."""
    tab.run(
        f"""(() => {{
          const find = () => [...document.querySelectorAll('a')].find(a => a.innerText.trim() === {label!r});
          let opened = false;
          return new Promise(done => {{ const at = setInterval(() => {{
            if (find()) {{ clearInterval(at); find().click(); return done(); }}
            const drawer = document.querySelector('[data-testid=stExpandSidebarButton]');
            if (drawer && !opened) {{ opened = true; drawer.click(); }} }}, 100); }});
        }})()"""
    )


@contextmanager
def a_tab(folder: Path) -> Iterator[Tab]:
    """Open a page in a new browser, which keeps its profile in `folder`."""
    assert BROWSER is not None
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--no-proxy-server",
        f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        said, until = folder / "DevToolsActivePort", time.monotonic() + STARTS_S
        while not said.exists() or not said.read_text().count("\n"):
            assert process.poll() is None, "the browser ended"
            assert time.monotonic() < until, "the browser does not start"
            time.sleep(0.1)
        port = said.read_text().splitlines()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=STARTS_S) as answer:
            (page,) = [target for target in json.load(answer) if target["type"] == "page"]
        with connect(page["webSocketDebuggerUrl"], max_size=None, proxy=None) as connection:
            yield Tab(connection)
    finally:
        process.terminate()
        process.wait(STARTS_S)
