"""Server process of the dashboard: Streamlit's application behind `Guard`, on a socket that is already bound.

A browser lets any web page send requests to a server on its own machine, and a hostile page can make its own host name
resolve to that machine. So `Guard` refuses requests that name another host, or come from another page, before anything
processes them. A page may load nothing from other origins.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trm_data.errors import needs_extra
from trm_data.storage.root import Layout
from trm_eval.errors import EvalError
from trm_eval.report.canvas import COLOURS
from trm_eval.tables.index import keep_for

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

DEFAULT_PORT = 8765
ENDING_S = 2
"""Timeout for open pages to disconnect when the server ends (s)."""
LISTED_S = 4.0
"""Cache lifetime of the listing of runs and results, which the queries of a page share (s)."""
NEEDS = ("streamlit", "uvicorn")
SETTINGS: dict[str, object] = {
    "browser.gatherUsageStats": False,
    "client.showErrorLinks": False,
    "client.toolbarMode": "minimal",
    "global.developmentMode": False,
    "logger.level": "error",
    "runner.magicEnabled": False,
    "server.enableAgentApi": False,
    "server.enableStaticServing": False,
    "server.fileWatcherType": "none",
    "server.headless": True,
    "theme.primaryColor": COLOURS[0],
}
"""Streamlit settings that override the user's files: no usage statistics, no file watching, no static files."""


LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "frame-src 'none'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
"""Content security policy of a page. Streamlit requires inline scripts and styles."""
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
REFUSED = b"refused: this dashboard answers its own pages only\n"


def check_extra() -> None:
    """Raise EvalError if the extra is not installed."""
    if missing := [name for name in NEEDS if importlib.util.find_spec(name) is None]:
        raise EvalError(needs_extra(f"serve ({' and '.join(missing)})", "serve"))


def bind(host: str, port: int | None) -> socket.socket:
    """Return a listening socket on the port; without one, on the default port, or any free port if that is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wanted = DEFAULT_PORT if port is None else port
    if not 0 <= wanted <= 65535:
        raise EvalError(f"--port {wanted}: expected 0 to 65535")
    try:
        return socket.create_server((host, wanted), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and port is None:
            return socket.create_server((host, 0), family=family)
        said = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        way_out = "; without --port a free one is taken" if error.errno == errno.EADDRINUSE else ""
        raise EvalError(f"--host {host} --port {wanted}: {said}{way_out}") from error


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server on the host."""
    return host in LOOPBACK or host.startswith("127.")


def url_of(listening: socket.socket) -> str:
    """Return the URL of the server for a browser on this machine."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(layout: Layout, listening: socket.socket) -> None:
    """Serve until a signal arrives; the signal is raised again after everything is closed."""
    host = str(listening.getsockname()[0])
    local = is_loopback(host)
    os.environ["TRM_ROOT"] = layout.place

    import uvicorn
    from starlette.middleware import Middleware
    from streamlit.starlette import App
    from streamlit.web.bootstrap import load_config_options

    # Guard is stricter than Streamlit. If the host has names that Streamlit cannot know, Streamlit would query the
    # network for the machine's own address.
    known: dict[str, object] = {"browser.serverAddress": host} if local else {}
    checks = {"server.enableCORS": local, "server.enableXsrfProtection": local}
    load_config_options({**SETTINGS, **checks, **known})
    hosts = (*LOOPBACK, host) if local else None
    keep_for(LISTED_S)
    app = App(Path(__file__).with_name("app.py"), middleware=[Middleware(Guard, hosts=hosts)])
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="websockets-sansio",
        timeout_graceful_shutdown=ENDING_S,
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[listening])


class Guard:
    """ASGI middleware: answers 403 to refused requests, and adds `HEADERS` to every response."""

    def __init__(self, app: Application, hosts: tuple[str, ...] | None) -> None:
        """Wrap an application.

        Args:
            app: Application to guard.
            hosts: Host names by which a browser may call the server; None for any.
        """
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        if not may_ask(headers.get("host", ""), headers.get("origin"), self._hosts):
            await _refuse(scope["type"], receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        await self._app(scope, receive, with_headers)


def may_ask(host: str, origin: str | None, hosts: tuple[str, ...] | None) -> bool:
    """Return whether a request is for this server and does not come from another page.

    Args:
        host: Value of the Host header: name and port.
        origin: Value of the Origin header, which browsers send with every request that another page could have made.
        hosts: Host names of this server; None for any.
    """
    try:
        called = urlsplit(f"//{host}").hostname
        asking = None if origin is None else urlsplit(origin).netloc
    except ValueError:
        return False
    return called is not None and (hosts is None or called in hosts) and asking in (None, host)


async def _refuse(kind: str, receive: Receive, send: Send) -> None:
    if kind == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})  # closing before accepting sends 403
        return
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": REFUSED})
