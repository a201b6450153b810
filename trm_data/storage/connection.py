"""How this process reaches buckets: requests that are patient, and what other libraries must know to do the same.

gcsfs opens connections and finds credentials; what is sent and when to ask again is decided here. Neighbours: `answers`
says what an answer means, `objects` what is asked for.
"""

from __future__ import annotations

import asyncio
import atexit
import io
import logging
import math
import os
import random
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from trm_data.errors import SpecError, needs_extra
from trm_data.storage.answers import (
    Answer,
    OtherBytesError,
    RefusedError,
    check_no_page,
    check_status,
    stated_digest,
)

CONNECT_S = 20.0
SILENCE_S = 20.0
"""A connection that says nothing for so long is given up and the request sent again."""
PATIENCE_VARIABLE = "TRM_BUCKET_PATIENCE_S"
"""Environment variable: another patience than `PATIENCE_S`."""
PATIENCE_S = 100.0
"""A request is given up when so much time was spent in waiting for answers that did not come, and between tries."""
SLOWEST_BYTES = 65_536
"""Of an upload in a second: one that is slower is taken for one that nobody reads."""
FIRST_WAIT_S = 1.0
"""Before the second try; before each further one twice as long, up to `LONGEST_WAIT_S`."""
LONGEST_WAIT_S = 8.0
"""Much less than a lease (`claim.LEASE_S`): its holder is heard of again soon after the bucket is."""
PASSING = (401, 408, 429, 500, 502, 503, 504)
"""Answers that may be others a moment later; 401 once, with credentials that are renewed."""

WARNED_TRY = 4
"""After so many tries it is said that one waits."""

LARGE_BYTES = 2**20
"""Of a body that is sent piece by piece."""
_opening = threading.Lock()
LOG = logging.getLogger(__name__)

T = TypeVar("T")


class GaveUpError(Exception):
    """A request that failed for good: how often it was sent, for how long, and what came of the last try.

    Args:
        tries: How often it was sent.
        seconds: From the first try to the end of the last one.
        last: What came of the last one.
    """

    def __init__(self, tries: int, seconds: float, last: BaseException) -> None:
        reason = f"no answer within {SILENCE_S:g} s" if isinstance(last, TimeoutError) else str(last)
        asked = f"; asked {tries} times in {seconds:.0f} s" if tries > 1 else ""
        super().__init__(f"{reason or type(last).__name__}{asked}")
        self.code = getattr(last, "code", None)


class Connection:
    """The way to buckets of this process: one for all threads.

    Args:
        filesystem: gcsfs's file system, which has the loop, the session and the credentials.
    """

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    @property
    def anonymous(self) -> bool:
        """No credentials were found, so that buckets see a stranger."""
        return self._filesystem.credentials.credentials is None

    def ask(
        self,
        method: str,
        path: str,
        *names: str,
        content: bytes | None = None,
        document: object = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request, again after faults that pass.

        Args:
            method: HTTP method.
            path: Of the JSON API, `b/{}/o/{}`, or a whole URL.
            names: What its `{}` stand for.
            content: Body of the request.
            document: Body of the request, as JSON.
            headers: Of the request.
            query: Parameters.

        Raises:
            FileNotFoundError: There is no such bucket or object.
            FileExistsError: A condition of the request does not hold.
            GaveUpError: It failed for good.
        """
        size = len(content or b"")

        async def once() -> Answer:
            # aiohttp would send large bytes in one piece, and hold up everything else meanwhile.
            body_to_send = io.BytesIO(content) if content is not None and size > LARGE_BYTES else content
            async with self._send(
                method, path, names, headers, query, size, data=body_to_send, json=document
            ) as answer:
                body = await answer.read()
                check_status(answer.status, body, str(answer.url))
                check_no_page(answer.headers)
                return Answer(answer.status, answer.headers, body)

        return self._run(once, brief=size <= SLOWEST_BYTES)

    def download(self, path: str, *names: str, target: Path) -> None:
        """Write the bytes of an object to a file, again from its beginning after faults that pass.

        What arrives is compared with what the bucket states of it; what is the same twice is what the bucket holds.

        Raises:
            FileNotFoundError: There is no such bucket or object.
            GaveUpError: It failed for good.
            OSError: The file cannot be written.
        """

        seen: list[str] = []

        async def once() -> None:
            async with self._send("GET", path, names, None, {"alt": "media"}) as answer:
                if answer.status >= 400:
                    check_status(answer.status, await answer.read(), str(answer.url))
                check_no_page(answer.headers)
                stated = stated_digest(answer.headers)
                with target.open("wb") as file:
                    async for data in answer.content.iter_chunked(1 << 19):
                        file.write(data)
                        stated.update(data)
                found = stated.arrived()
                if stated.differs() and found not in seen:
                    seen.append(found)
                    raise OtherBytesError("other bytes arrived than the bucket says")

        self._run(once, brief=False)

    def upload_url(self, bucket: str) -> str:
        """Where objects of a bucket are uploaded to."""
        return f"{self._filesystem._location}/upload/storage/v1/b/{bucket}/o"

    def _send(
        self,
        method: str,
        path: str,
        names: tuple[str, ...],
        headers: Mapping[str, str] | None,
        query: Mapping[str, str] | None,
        size: int = 0,
        **body: Any,
    ) -> Any:
        opened = self._filesystem
        return opened.session.request(
            method,
            opened._format_path(path, names),
            params=opened._get_params(query or {}),
            headers=opened._get_headers(headers),
            timeout=_limits(size),
            **body,
        )

    def _run(self, once: Callable[[], Awaitable[T]], *, brief: bool) -> T:
        """Try until it succeeds or patience ends; of what is not brief the time in which bytes moved does not count."""
        from fsspec.asyn import sync

        patience = patience_s()

        async def patiently() -> T:
            loop = asyncio.get_running_loop()
            begun, spent, wait, tries = loop.time(), 0.0, FIRST_WAIT_S, 0
            while True:
                tries += 1
                started = loop.time()
                try:
                    await self._filesystem._set_session()
                    await asyncio.wait_for(
                        asyncio.to_thread(self._filesystem.credentials.maybe_refresh), SILENCE_S
                    )
                    return await once()
                except (FileNotFoundError, FileExistsError):
                    raise
                except _request_errors() as error:
                    if brief:
                        spent += loop.time() - started
                    elif isinstance(error, TimeoutError):
                        spent += SILENCE_S
                    refused = getattr(error, "code", None) == 401 and not self._renew(tries)
                    if spent >= patience or refused or not _may_pass(error):
                        raise GaveUpError(tries, loop.time() - begun, error) from error
                    if tries == WARNED_TRY:
                        LOG.warning(
                            "the bucket does not answer (%s); trying again for %.0f s",
                            error,
                            patience - spent,
                        )
                await asyncio.sleep(wait * random.uniform(0.8, 1.0))
                spent, wait = spent + wait, min(2 * wait, LONGEST_WAIT_S)

        answer: Any = sync(self._filesystem.loop, patiently)
        return answer

    def _renew(self, tries: int) -> bool:
        """Have the credentials renewed before the next try, once; whether there are any."""
        if self.anonymous or tries > 1:
            return False
        with suppress(AttributeError):
            self._filesystem.credentials.credentials.token = None
        return True


def patience_s() -> float:
    """How long requests are patient, which a user may say.

    Raises:
        SpecError: It is no number of seconds.
    """
    text = os.environ.get(PATIENCE_VARIABLE)
    try:
        seconds = float(text) if text else PATIENCE_S
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise SpecError(f"{PATIENCE_VARIABLE}={text}: expected a number of seconds of at least 0")
    return seconds


def patience_beyond_usual_s() -> float:
    """Seconds by which those that wait for a process wait longer, since it may wait for a bucket meanwhile."""
    return max(0.0, patience_s() - PATIENCE_S)


def connection() -> Connection:
    """The way to buckets of this process; each process has its own connections and looks for credentials.

    Raises:
        SpecError: The extra `gcs` is not installed, or the credentials that the user names cannot be used.
    """
    with _opening:
        return _open(os.getpid(), os.environ.get("STORAGE_EMULATOR_HOST"))


def prepare_other_libraries() -> None:
    """Have fsspec and tensorstore, which Orbax reads and writes with, talk to the bucket that we talk to.

    No listings are cached: tensorstore writes beside fsspec, which would not see it. With an emulator nobody looks for
    credentials.
    """
    import fsspec.config

    _leave_out_grpc()
    _make_gcsfs_patient()
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    options: dict[str, Any] = {"use_listings_cache": False, "requests_timeout": _limits()}
    if emulator:
        options["token"] = "anon"
        os.environ.setdefault("TENSORSTORE_GCS_HTTP_URL", emulator)
        os.environ.setdefault("GOOGLE_AUTH_TOKEN_FOR_TESTING", "none")
    for protocol in ("gcs", "gs"):
        fsspec.config.conf.setdefault(protocol, {}).update(options)


@cache
def _make_gcsfs_patient() -> None:
    """Have gcsfs ask for as long as we do where others ask through it: by itself it gives up after half a minute.

    It waits 1, 2, 4, ... and at most 32 s between tries, and logs the error that it raises, which is said elsewhere.
    """
    try:
        from gcsfs.core import GCSFileSystem
        from gcsfs.retry import retry_request
    except ImportError:
        return  # who asks for a bucket is told what is missing
    logging.getLogger("gcsfs").setLevel(logging.CRITICAL)
    opened: Any = GCSFileSystem
    ask = getattr(opened._request, "__wrapped__", None)
    if ask is None:
        return
    patience, waited, tries = patience_s(), 0.0, 1
    while waited < patience:
        waited, tries = waited + min(2.0 ** (tries - 1), 32.0), tries + 1
    patient: Any = retry_request
    opened._request = patient(retries=tries)(ask)


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


def _limits(size: int = 0) -> Any:
    """How long a connection may say nothing, and how long it may take to send so many bytes."""
    from aiohttp import ClientTimeout

    total = CONNECT_S + 2 * SILENCE_S + size / SLOWEST_BYTES if size else None
    return ClientTimeout(total=total, connect=CONNECT_S, sock_connect=CONNECT_S, sock_read=SILENCE_S)


def _leave_out_grpc() -> None:
    """Keep gcsfs from asking by gRPC of what kind a bucket is: that stalls for a minute where gRPC is blocked."""
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")


def close_connections() -> None:
    """Forget the connections; the next use opens others."""
    _open.cache_clear()


@cache
def _open(process: int, emulator: str | None) -> Connection:
    """The connection of a process; another one after a fork."""
    _leave_out_grpc()
    named = None if emulator else os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    try:
        from fsspec.asyn import sync
        from gcsfs.core import GCSFileSystem
    except ImportError as error:
        raise SpecError(needs_extra("a root on a bucket", "gcs")) from error
    if named:
        _check_credentials(named)
    logging.getLogger("gcsfs").addHandler(
        logging.NullHandler()
    )  # it logs each error it raises; we report them
    # The class itself, not fsspec.filesystem("gs"): that one asks for a bucket's kind by gRPC first.
    opened: Any = GCSFileSystem(
        token="anon" if emulator else "google_default" if named else None,
        endpoint_url=emulator,
        requests_timeout=_limits(),
        use_listings_cache=False,
        skip_instance_cache=True,
    )
    sync(opened.loop, opened._set_session)  # registers gcsfs's own way to close it, which comes too late
    atexit.register(_close, opened, process)
    return Connection(opened)


def _check_credentials(file: str) -> None:
    """The file that `GOOGLE_APPLICATION_CREDENTIALS` names holds credentials: without them gcsfs would go as nobody."""
    from google.auth import default
    from google.auth.exceptions import GoogleAuthError

    try:
        default()  # which reads that file first, and asks nobody
    except (GoogleAuthError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpecError(
            f"GOOGLE_APPLICATION_CREDENTIALS={file}: cannot be used ({' '.join(str(error).split())}); name a file of "
            "credentials, or unset it and log in: gcloud auth application-default login"
        ) from error


def _close(filesystem: Any, process: int) -> None:
    """Close the connections of this process; else aiohttp complains on standard error at its end."""
    from fsspec.asyn import sync

    session = filesystem._session
    if session is not None and not session.closed and process == os.getpid():
        with suppress(OSError, RuntimeError):
            sync(filesystem.loop, session.close, timeout=2.0)


def _request_errors() -> tuple[type[BaseException], ...]:
    """What sending a request, or finding credentials for it, raises; errors of a disk are not among them."""
    from aiohttp import ClientError
    from gcsfs.retry import HttpError, NonRetryableError
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    return (
        RefusedError,
        OtherBytesError,
        ClientError,
        ConnectionError,
        TimeoutError,
        GoogleAuthError,
        HttpError,
        NonRetryableError,
        RequestException,
    )


def _may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed a moment later."""
    from aiohttp import ClientError, InvalidURL
    from google.auth.exceptions import TransportError

    retryable: object = getattr(
        error.__cause__, "retryable", None
    )  # of credentials that could not be renewed
    if retryable is not None:
        return bool(retryable)
    if isinstance(error, InvalidURL):
        return False
    passing = (ClientError, ConnectionError, TimeoutError, TransportError, OtherBytesError)
    return isinstance(error, passing) or getattr(error, "code", None) in PASSING
