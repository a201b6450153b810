"""The process that serves the dashboard: Streamlit's application behind `guard`, on a socket that is bound before."""

from __future__ import annotations

import errno
import importlib.util
import os
import socket
from pathlib import Path

from trm_data.errors import needs_extra
from trm_data.storage.root import Layout
from trm_eval.errors import EvalError
from trm_eval.report.canvas import COLOURS
from trm_eval.serve.guard import LOOPBACK, Guard

DEFAULT_PORT = 8765
ENDING_S = 2
"""Time that open pages get to notice that the server ends (s)."""
NEEDS = ("streamlit", "uvicorn")
SETTINGS: dict[str, object] = {
    "browser.gatherUsageStats": False,
    "client.showErrorLinks": False,
    "client.toolbarMode": "minimal",
    "global.developmentMode": False,
    "logger.level": "error",
    "server.enableAgentApi": False,
    "server.enableStaticServing": False,
    "server.fileWatcherType": "none",
    "server.headless": True,
    "theme.primaryColor": COLOURS[0],
}
"""Streamlit's, above those of a user's files: nothing is sent or watched, no file is served."""


def check_extra() -> None:
    """Refuse to go on without the extra.

    Raises:
        EvalError: Says what to install.
    """
    if missing := [name for name in NEEDS if importlib.util.find_spec(name) is None]:
        raise EvalError(needs_extra(f"serve ({' and '.join(missing)})", "serve"))


def bind(host: str, port: int | None) -> socket.socket:
    """A socket that listens: at the port, or without one at the usual one, or where that is taken at any free one.

    Raises:
        EvalError: It cannot be had; says why.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wanted = DEFAULT_PORT if port is None else port
    if not 0 <= wanted <= 65535:
        raise EvalError(f"--port {wanted}: from 0 to 65535")
    try:
        return socket.create_server((host, wanted), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and port is None:
            return socket.create_server((host, 0), family=family)
        said = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        way_out = "; without --port a free one is taken" if error.errno == errno.EADDRINUSE else ""
        raise EvalError(f"--host {host} --port {wanted}: {said}{way_out}") from error


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server there."""
    return host in LOOPBACK or host.startswith("127.")


def url_of(listening: socket.socket) -> str:
    """Where a browser of this machine finds it."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(layout: Layout, listening: socket.socket) -> None:
    """Answer until a signal ends it, which is raised again when all is closed."""
    host = str(listening.getsockname()[0])
    local = is_loopback(host)
    os.environ["TRM_ROOT"] = layout.place

    import uvicorn
    from starlette.middleware import Middleware
    from streamlit.starlette import App
    from streamlit.web.bootstrap import load_config_options

    # Guard allows less than Streamlit does. Where a host has names that Streamlit cannot know, it would ask the network
    # for the machine's own address.
    known: dict[str, object] = {"browser.serverAddress": host} if local else {}
    checks = {"server.enableCORS": local, "server.enableXsrfProtection": local}
    load_config_options({**SETTINGS, **checks, **known})
    hosts = (*LOOPBACK, host) if local else None
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
