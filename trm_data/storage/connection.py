"""How this process reaches buckets: gcsfs for `objects`, and what fsspec and tensorstore must know to do the same.

Neighbour: `objects` sends the requests. Here are time limits, credentials, connections, and what their errors mean.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
from contextlib import suppress
from functools import cache
from typing import Any

from trm_data.errors import SpecError

CONNECT_S = 30.0
SILENCE_S = 60.0
"""A connection that says nothing for so long is given up and the request sent again."""

_opening = threading.Lock()


def filesystem() -> Any:
    """gcsfs's file system, one a process for all threads: each has its own connections and looks for credentials."""
    with _opening:
        return _open_filesystem(os.getpid(), os.environ.get("STORAGE_EMULATOR_HOST"))


def prepare_other_libraries() -> None:
    """Have fsspec and tensorstore, which Orbax reads and writes with, talk to the bucket that we talk to.

    No listings are cached: tensorstore writes beside fsspec, which would not see it. With an emulator nobody looks for
    credentials.
    """
    import fsspec.config

    _leave_out_grpc()
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    options: dict[str, Any] = {"use_listings_cache": False, "requests_timeout": _limits()}
    if emulator:
        options["token"] = "anon"
        os.environ.setdefault("TENSORSTORE_GCS_HTTP_URL", emulator)
        os.environ.setdefault("GOOGLE_AUTH_TOKEN_FOR_TESTING", "none")
    for protocol in ("gcs", "gs"):
        fsspec.config.conf.setdefault(protocol, {}).update(options)


OUT_OF_REACH = (
    "UNAVAILABLE",
    "DEADLINE_EXCEEDED",
    "RESOURCE_EXHAUSTED",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "ABORTED",
)
"""How tensorstore begins to say that a request failed, and not that an object is not what it should be."""


def unreachable(error: BaseException) -> bool:
    """Whether an error of a library that reads a bucket by itself is about reaching it, and about no file's content."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, (ConnectionError, TimeoutError)) or str(seen).startswith(OUT_OF_REACH):
            return True
        if type(seen).__module__.split(".")[0] in (
            "aiohttp",
            "gcsfs",
            "google",
            "requests",
            "urllib3",
        ) and not isinstance(seen, FileNotFoundError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _limits() -> Any:
    """How long a connection may say nothing."""
    from aiohttp import ClientTimeout

    return ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)


def _leave_out_grpc() -> None:
    """Keep gcsfs from asking by gRPC of what kind a bucket is: that stalls for a minute where gRPC is blocked."""
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")


def close_connections() -> None:
    """Forget the file system; the next use opens another."""
    _open_filesystem.cache_clear()


@cache
def _open_filesystem(process: int, emulator: str | None) -> Any:
    """The file system of a process; another one after a fork."""
    _leave_out_grpc()
    try:
        from fsspec.asyn import sync
        from gcsfs.core import GCSFileSystem
    except ImportError as error:
        raise SpecError("a root on a bucket needs the extra: pip install 'trm-lab[gcs]'") from error
    logging.getLogger("gcsfs").addHandler(
        logging.NullHandler()
    )  # it logs each error it raises; we report them
    # The class itself, not fsspec.filesystem("gs"): that one asks for a bucket's kind by gRPC first.
    opened: Any = GCSFileSystem(
        token="anon" if emulator else None,
        endpoint_url=emulator,
        requests_timeout=_limits(),
        use_listings_cache=False,
        skip_instance_cache=True,
    )
    sync(opened.loop, opened._set_session)  # registers gcsfs's own way to close it, which comes too late
    atexit.register(_close, opened, process)
    return opened


def _close(filesystem: Any, process: int) -> None:
    """Close the connections of this process; else aiohttp complains on standard error at its end."""
    from fsspec.asyn import sync

    session = filesystem._session
    if session is not None and not session.closed and process == os.getpid():
        with suppress(OSError, RuntimeError):
            sync(filesystem.loop, session.close, timeout=2.0)


def request_errors() -> tuple[type[BaseException], ...]:
    """What gcsfs raises where a request fails for good."""
    from aiohttp import ClientError
    from gcsfs.retry import ChecksumError, HttpError
    from google.auth.exceptions import GoogleAuthError

    return (OSError, ClientError, HttpError, ChecksumError, GoogleAuthError, ValueError, json.JSONDecodeError)


def may_pass(error: BaseException) -> bool:
    """Whether it can pass, and gcsfs has not tried again already; 410 is an upload that the bucket forgot."""
    return isinstance(error, (ConnectionError, TimeoutError)) or getattr(error, "code", None) == 410
