"""The server as a process: its output, access control, and exit."""

from __future__ import annotations

import importlib.util
import signal
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.conftest import run_here
from tests.trm_eval.serve.conftest import served
from trm_data.errors import Exit
from trm_data.storage.root import Layout
from trm_eval.cli import main


def get(url: str, **headers: str) -> tuple[int, str, Any]:
    """Return status, text and headers of a response."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.status, answer.read().decode("utf-8", "replace"), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode("utf-8", "replace"), error.headers


def test_it_answers_its_own_pages_and_nobody_else(address: str) -> None:
    status, text, headers = get(address)
    assert (status, "<title>" in text) == (200, True)
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["server"] is None
    assert get(f"{address}/_stcore/health")[0] == 200
    port = address.rpartition(":")[2]
    for host in ("localhost", "[::1]"):
        assert get(address, Host=f"{host}:{port}", Origin=f"http://{host}:{port}")[0] == 200
    for origin in ("http://evil.example", "http://127.0.0.1:9999", "http://localhost", "null"):
        assert get(address, Origin=origin)[:2] == (
            403,
            "refused: this dashboard answers its own pages only\n",
        )
        assert get(f"{address}/_stcore/host-config", Origin=origin)[0] == 403
    for host in ("evil.example", f"evil.example:{port}", "", f"[::1:{port}"):
        assert get(address, Host=host)[0] == 400
        assert get(address, Host=host, Origin=f"http://{host}")[0] == 400


@pytest.mark.parametrize("origin", ["http://evil.example", None])
def test_another_page_cannot_open_a_connection(address: str, origin: str | None) -> None:
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    at = address.replace("http", "ws") + "/_stcore/stream"
    if origin is None:
        with connect(at, origin=address, proxy=None) as connection:  # pyright: ignore[reportArgumentType]
            connection.close()
        return
    with pytest.raises(InvalidStatus) as refused, connect(at, origin=origin, proxy=None):  # pyright: ignore
        pass
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/app/static/conftest.py",
        "/static/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/_stcore/agent/interact",
    ],
)
def test_no_file_of_the_machine_is_served(address: str, path: str) -> None:
    status, text, _ = get(address + path)
    assert "root:" not in text
    assert "show_page()" not in text
    assert status >= 400 or "<title>" in text, "nothing, or the page itself"


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, Exit.INTERRUPTED), (signal.SIGTERM, Exit.TERMINATED)]
)
def test_a_signal_ends_it_with_its_own_code(root: Layout, sent: signal.Signals, code: Exit) -> None:
    with served(root, "--port", "0") as (process, url):
        assert get(url)[0] == 200
        process.send_signal(sent)
        _, err = process.communicate(timeout=600)
    assert process.returncode == code, err
    assert "Traceback" not in err


def test_a_port_that_is_taken_is_refused(root: Layout) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_here(main, "serve", "--root", str(root.machine), "--port", str(port))
    assert done.returncode == Exit.ERROR
    assert f"--host 127.0.0.1 --port {port}: Address already in use. Name another --port" in done.stderr


def test_ports_that_cannot_be(root: Layout) -> None:
    done = run_here(main, "serve", "--root", str(root.machine), "--port", "70000")
    assert (done.returncode, "--port 70000: expected 0 to 65535" in done.stderr) == (Exit.ERROR, True)


def test_serving_others_is_warned_about(root: Layout) -> None:
    with served(root, "--port", "0", "--host", "0.0.0.0") as (process, url):
        assert url.startswith("http://localhost:")
        assert get(url)[0] == 200
        assert get(url, Origin="http://evil.example")[0] == 403
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
    assert "warning: --host 0.0.0.0: whoever reaches this machine can read all results" in err


def test_without_the_extra_it_says_what_to_install(root: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "streamlit" else find(name))
    done = run_here(main, "serve", "--root", str(root.machine))
    assert done.returncode == Exit.ERROR
    assert done.stderr.startswith("trm-eval: serve (streamlit) needs the extra 'serve': in the checkout ")
