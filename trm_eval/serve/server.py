"""Server process of the dashboard: Streamlit's application on a socket that is already bound.

A browser lets any web page send requests to a server on its own machine, and a hostile page can make its own host name
resolve to that machine. So starlette's `TrustedHostMiddleware` refuses requests that name another host, and `OwnPages`
those from another page, before anything processes them. A page may load nothing from other origins.
"""

from __future__ import annotations

import importlib.util
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from trm_data.errors import needs_extra
from trm_data.storage.root import Layout
from trm_eval.errors import EvalError
from trm_eval.report.canvas import COLOURS
from trm_eval.tables.index import keep_for

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
REFUSED = "refused: this dashboard answers its own pages only\n"


def check_extra() -> None:
    """Raise EvalError if the extra is not installed."""
    if missing := [name for name in NEEDS if importlib.util.find_spec(name) is None]:
        raise EvalError(needs_extra(f"serve ({' and '.join(missing)})", "serve"))


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket on the port; 0 takes a free one."""
    if not 0 <= port <= 65535:
        raise EvalError(f"--port {port}: expected 0 to 65535")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        said = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise EvalError(
            f"--host {host} --port {port}: {said}. Name another --port (0: a free one)"
        ) from error


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
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from streamlit.starlette import App
    from streamlit.web.bootstrap import load_config_options

    # If the host has names that Streamlit cannot know, Streamlit would query the network for the machine's own address.
    known: dict[str, object] = {"browser.serverAddress": host} if local else {}
    checks = {"server.enableCORS": local, "server.enableXsrfProtection": local}
    load_config_options({**SETTINGS, **checks, **known})
    hosts = [*LOOPBACK, "[::1]", host] if local else ["*"]
    keep_for(LISTED_S)
    middleware = [Middleware(TrustedHostMiddleware, hosts, www_redirect=False), Middleware(OwnPages)]
    app = App(Path(__file__).with_name("app.py"), middleware=middleware)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="websockets-sansio",
        timeout_graceful_shutdown=ENDING_S,
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[listening])


class OwnPages:
    """ASGI middleware: answers 403 to requests that a page of another origin sends; adds `HEADERS` to responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it; uvicorn answers 403 to a connection that is closed before it opens."""
        from starlette.datastructures import Headers
        from starlette.responses import PlainTextResponse
        from starlette.websockets import WebSocketClose

        headers = Headers(scope=scope) if scope["type"] in ("http", "websocket") else {}
        if (origin := headers.get("origin")) is not None and origin.partition("://")[2] != headers.get(
            "host"
        ):
            refusal = (
                WebSocketClose(1008) if scope["type"] == "websocket" else PlainTextResponse(REFUSED, 403)
            )
            await refusal(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        await self._app(scope, receive, with_headers)
