"""Who may ask the dashboard: pages of its own, and on this machine alone where it serves this machine alone.

A browser lets any web page send requests to a server of the machine it runs on, and a page's name may be made to point
there. So what names another host, or comes from another page, is refused before anything looks at it; and a page may
load nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "frame-src 'none'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
"""What a page may load. Streamlit's own scripts and styles need those inside the page."""
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
REFUSED = b"refused: this dashboard answers its own pages only\n"


class Guard:
    """An ASGI application before another: answers 403 to who may not ask, and adds `HEADERS` to every answer."""

    def __init__(self, app: Application, hosts: tuple[str, ...] | None) -> None:
        """Guard an application.

        Args:
            app: What is guarded.
            hosts: Names by which a browser may call the server; None for any.
        """
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
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
    """Whether a request is for this server, and of no other page.

    Args:
        host: Header of that name: name and port.
        origin: Header of that name, which browsers send with every request that another page could have made.
        hosts: Names of this server; None for any.
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
        await send({"type": "websocket.close", "code": 1008})  # before it is accepted: 403 for the client
        return
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": REFUSED})
