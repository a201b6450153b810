"""Roots on a bucket, `gs://bucket/prefix`: the only module that talks to Google Cloud Storage.

`Bucket` sends requests with google-cloud-storage, which is imported when the first bucket is opened. Every write
creates a new object or replaces the generation that was read before. So two writers notice each other, and neither
overwrites what it has not seen. `BucketStore` is the store on top: it reads files through this machine's cache. It
writes files locally, checks them and uploads them.
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
import os
import re
import shutil
import time
from base64 import b64decode
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from typing_extensions import override

from trm_data.errors import BucketError, BuildError, CorruptDatasetError, SpecError, needs_extra
from trm_data.storage.atomic import file_digest, file_sha256
from trm_data.storage.cache import adopt, cached_file, machine_folder
from trm_data.storage.lease import LEASE_FILE, bucket_lease
from trm_data.storage.store import (
    Check,
    Lease,
    Objects,
    Store,
    Stored,
    check_inside,
    no_check,
)

CONNECT_S = 20.0
SILENCE_S = 20.0
"""Timeout of a connection that sends nothing, in seconds; the request is then sent again."""
SLOWEST_BYTES = 65_536
"""Minimum upload speed in bytes per second; a slower connection counts as hanging."""
PATIENCE_VARIABLE = "TRM_BUCKET_PATIENCE_S"
PATIENCE_S = 100.0
"""Default deadline for the retries of a request, in seconds; in an upload in parts, for each part."""
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 8.0
"""Maximum wait between two tries, in seconds: much less than a lease (`lease.LEASE_S`)."""
PASSING = (408, 429, 500, 502, 503, 504)
"""HTTP statuses that are retried. google-auth renews credentials after 401."""
WARNED_TRY = 4
"""Number of failed tries after which a warning is logged."""
ATTEMPTS = 4
"""Maximum number of writes of an object, or reads of a small object, before its bytes count as wrong."""
PART_BYTES = 8 * 2**20
"""Size of a part of an upload, and of the largest file uploaded in one request, in bytes."""
RANGE_BYTES = 32 * 2**20
"""Size of the ranges in which a file is downloaded, in bytes."""
MESSAGE_CHARACTERS = 300
BINARY = "application/octet-stream"
NO_GENERATION = "0"
"""Condition of a write: the object does not exist."""
UNFINISHED = 308
"""HTTP status of an upload in parts that is not complete."""
FORGOTTEN = (404, 410)
"""HTTP statuses of an upload in parts that the bucket no longer knows."""
FORM_ERRORS = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Exceptions raised by reading a response of unexpected form."""
OUT_OF_REACH = (
    "UNAVAILABLE",
    "DEADLINE_EXCEEDED",
    "RESOURCE_EXHAUSTED",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "ABORTED",
)
"""First words of tensorstore's errors about failed requests."""

LOG = logging.getLogger(__name__)


def patience_s() -> float:
    """Return the deadline of the retries of a request: `TRM_BUCKET_PATIENCE_S`, else 100 s."""
    text = os.environ.get(PATIENCE_VARIABLE)
    try:
        seconds = float(text) if text else PATIENCE_S
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise SpecError(f"{PATIENCE_VARIABLE}={text}: expected a number of seconds of at least 0")
    return seconds


def patience_beyond_usual_s() -> float:
    """Return the seconds to add to the timeouts of processes that may wait for a bucket."""
    return max(0.0, patience_s() - PATIENCE_S)


class Bucket(Objects):
    """Objects under a URL, over google-cloud-storage.

    Args:
        url: `gs://bucket/prefix`; the prefix may be missing.

    Raises:
        SpecError: The extra `gcs` is not installed, or the credentials that the user names cannot be used.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        name, _, prefix = url.removeprefix("gs://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        client, self._anonymous = _client(os.getpid(), os.environ.get("STORAGE_EMULATOR_HOST"))
        self._bucket: Any = client.bucket(name)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Pickle the URL only: each process opens its own connections."""
        return Bucket, (self.url,)

    @override
    def where(self, path: str) -> str:
        return f"{self.url}/{path}"

    @override
    def read(self, path: str) -> bytes | None:
        import google_crc32c

        seen: list[bytes] = []
        while len(seen) < ATTEMPTS:
            blob, buffer = self._blob(path), io.BytesIO()
            try:
                with self._request(f"read {path}") as options:
                    blob.download_to_file(buffer, checksum=None, **options)
                    if blob.crc32c is None:  # the server sent no digest with the bytes
                        blob.reload(**options)
                    stated = b64decode(blob.crc32c or "")
            except FileNotFoundError:
                return None
            content = buffer.getvalue()
            if google_crc32c.Checksum(content).digest() == stated:
                return content
            seen.append(content)
        if len(set(seen)) == 1:  # the bucket holds these bytes; the caller detects the damage
            return seen[0]
        raise BucketError(
            f"{self.where(path)}: the received bytes differ from the bucket's digest ({ATTEMPTS} tries). Check the "
            f"network"
        )

    @override
    def download(self, path: str, target: Path) -> bool:
        from google.api_core.exceptions import RequestRangeNotSatisfiable

        begin, more = 0, True
        with target.open("wb") as file:
            while more:
                blob, end = self._blob(path), begin + RANGE_BYTES
                try:
                    with self._request(f"read {path}") as options, suppress(RequestRangeNotSatisfiable):
                        blob.download_to_file(file, start=begin, end=end - 1, checksum=None, **options)
                        if blob.generation is None:
                            raise ValueError("the bytes have no generation")
                except FileNotFoundError:
                    return False
                begin, more = file.tell(), file.tell() == end
        return True

    @override
    def stat(self, path: str) -> Stored | None:
        blob = self._blob(path)
        try:
            with self._request(f"look at {path}") as options:
                blob.reload(**options)
                return self._stored(blob)
        except FileNotFoundError:
            return None

    @override
    def objects(self, folder: str, pattern: str = "**") -> list[Stored]:
        prefix = self._prefix + folder
        with self._request(f"list {folder}", missing=True) as options:
            found = self._bucket.list_blobs(
                prefix=prefix, match_glob=None if pattern == "**" else prefix + pattern, **options
            )
            # Names that end with `/` are folder markers of other programs.
            stored = [self._stored(blob) for blob in found if not blob.name.endswith("/")]
        return sorted(stored, key=lambda item: item.name)

    @override
    def create(self, path: str, content: bytes) -> bool:
        return self._replace(path, content, NO_GENERATION)

    @override
    def write(self, path: str, content: bytes, check: Check = no_check) -> None:
        for _ in range(ATTEMPTS):
            there = self.stat(path)
            check()
            if self._replace(path, content, NO_GENERATION if there is None else there.generation):
                return
        raise BucketError(f"{self.where(path)}: another program keeps writing it. Stop it and try again")

    def _replace(self, path: str, content: bytes, generation: str) -> bool:
        """Write a small object in place of this generation; return False if the generation has changed."""
        blob = self._blob(path)
        try:
            with self._request(f"write {path}", missing=True, size=len(content)) as options:
                blob.upload_from_string(
                    content, BINARY, if_generation_match=generation, checksum=None, **options
                )
                if self._stored(blob).md5 != hashlib.md5(content, usedforsecurity=False).hexdigest():
                    raise ValueError("the bucket stored other bytes than sent")
        except FileExistsError:
            # Perhaps our own write succeeded: a lost response looks the same.
            return self.read(path) == content
        return True

    @override
    def upload(self, path: str, source: Path, sha256: str, check: Check = no_check) -> bool:
        if file_sha256(source) != sha256:
            raise BuildError(
                f"{source}: changed during the upload (sha256 differs). Nothing else may write there"
            )
        size_bytes, md5 = source.stat().st_size, file_digest(source, "md5")
        for attempt in range(ATTEMPTS + 1):
            there = self.stat(path)
            if there is not None:
                if (there.size_bytes, there.md5, there.sha256) == (size_bytes, md5, sha256):
                    return attempt > 0
                check()
                self.delete(path, there.generation)
            if attempt < ATTEMPTS:
                check()
                self._put(path, source, {"sha256": sha256, "md5": md5}, check)
        raise BucketError(
            f"{self.where(path)}: the bucket stored other bytes than sent, {ATTEMPTS} times. Does another program "
            f"write there?"
        )

    def _put(self, path: str, source: Path, notes: dict[str, str], check: Check) -> None:
        """Write an object with metadata if it does not exist; `upload` checks whether it arrived."""
        blob, size = self._blob(path), source.stat().st_size
        blob.metadata = notes
        conditions = {"if_generation_match": NO_GENERATION, "checksum": None}
        with (
            suppress(FileExistsError),
            self._request(f"write {path}", missing=True, size=min(size, PART_BYTES)) as options,
        ):
            if size <= PART_BYTES:
                blob.upload_from_string(source.read_bytes(), BINARY, **conditions, **options)
            else:
                url = blob.create_resumable_upload_session(BINARY, size, **conditions, **options)
                _put_parts(url, source, size, check, **options)

    @override
    def delete(self, path: str, generation: str | None = None) -> bool:
        try:
            with self._request(f"delete {path}") as options:
                self._blob(path).delete(if_generation_match=generation, **options)
        except (FileNotFoundError, FileExistsError):  # the latter is the failed condition
            return False
        return True

    @override
    def touch(self, path: str, generation: str, note: str) -> bool:
        blob = self._blob(path)
        blob.metadata = {"note": note}
        try:
            with self._request(f"touch {path}") as options:
                blob.patch(if_generation_match=generation, **options)
                self._stored(blob)
        except (FileNotFoundError, FileExistsError):
            return False
        return True

    def _blob(self, path: str) -> Any:
        return self._bucket.blob(self._prefix + check_inside(path))

    def _stored(self, blob: Any) -> Stored:
        if None in (blob.generation, blob.size):
            raise ValueError("it states no generation or no size")
        notes, md5 = blob.metadata or {}, b64decode(blob.md5_hash or "").hex()
        stated = notes.get("md5", "")
        return Stored(
            name=blob.name.removeprefix(self._prefix),
            size_bytes=blob.size,
            md5=md5,
            sha256=notes.get("sha256", "") if stated in ("", md5) else "",
            digest_verified=bool(stated) and stated == md5,
            generation=str(blob.generation),
            changes=str(blob.metageneration),
        )

    @contextmanager
    def _request(
        self, what: str, *, missing: bool = False, size: int = 0
    ) -> Generator[dict[str, Any], None, None]:
        """Yield the options of a request (`retry` and `timeout`); convert its errors to `BucketError`.

        Args:
            what: Description of the request, for the message.
            missing: A 404 means that the bucket does not exist.
            size: Bytes sent in one request.
        """
        from google.api_core.exceptions import NotFound, PreconditionFailed
        from google.api_core.retry import Retry
        from requests.exceptions import JSONDecodeError

        begun, tries, patience = time.monotonic(), 1, patience_s()

        def failed(error: Exception) -> None:
            nonlocal tries
            tries += 1
            reason, _ = _reason(error)  # also reads the response, so that the connection can be reused
            if tries == WARNED_TRY + 1:
                left = max(0.0, patience - (time.monotonic() - begun))
                LOG.warning("the bucket does not answer (%s); trying again for %.0f s", reason, left)

        retry = Retry(_may_pass, FIRST_WAIT_S, LONGEST_WAIT_S, 2.0, timeout=patience, on_error=failed)
        try:
            yield {"retry": retry, "timeout": (CONNECT_S + size / SLOWEST_BYTES, SILENCE_S)}
        except NotFound as error:
            if missing:
                raise BucketError(
                    f"{self.url}: bucket {self._bucket.name} does not exist, or you have no access to it"
                ) from error
            raise FileNotFoundError(what) from error
        except PreconditionFailed as error:
            raise FileExistsError(what) from error
        except (*_request_errors(), *FORM_ERRORS) as error:
            reason, code = _reason(error)
            if not isinstance(error, _request_errors()) or isinstance(error, JSONDecodeError):
                raise BucketError(
                    f"{self.url}: could not {what}: unexpected response, not from Google Cloud Storage ({reason}). Is "
                    "a proxy or login page intercepting the request?"
                ) from error
            asked = f"; asked {tries} times in {time.monotonic() - begun:.0f} s" if tries > 1 else ""
            who = ""
            if code in (401, 403) and self._anonymous:
                who = "; no credentials were found, so the bucket was asked as nobody"
            raise BucketError(
                f"{self.url}: could not {what} ({reason}{asked}{who}); check the network and your permissions "
                f"(gcloud auth application-default login), then try again"
            ) from error


def _put_parts(url: str, source: Path, size: int, check: Check, *, retry: Any, timeout: Any) -> None:
    """Upload a file in parts to a resumable upload URL, each from the offset that the bucket reports.

    The library's own loop cannot resume after the retry of a part that failed.
    """
    import requests
    from google.api_core.exceptions import from_http_response

    begin, furthest, stood_still = 0, 0, 0
    with requests.Session() as session, source.open("rb") as file:

        @retry
        def send(part: bytes, where: str) -> requests.Response:
            answer = session.put(url, data=part, headers={"Content-Range": where}, timeout=timeout)
            if answer.status_code >= 400 and answer.status_code not in FORGOTTEN:
                raise from_http_response(answer)
            return answer

        while begin < size and stood_still <= ATTEMPTS:
            check()
            file.seek(begin)
            part = file.read(PART_BYTES)
            answer = send(part, f"bytes {begin}-{begin + len(part) - 1}/{size}")
            if answer.status_code != UNFINISHED:
                return
            kept = re.fullmatch(r"bytes=0-(\d+)", answer.headers.get("Range", ""))
            begin = int(kept[1]) + 1 if kept else 0
            stood_still = 0 if begin > furthest else stood_still + 1
            furthest = max(furthest, begin)


@cache
def _client(process: int, emulator: str | None) -> tuple[Any, bool]:
    """Return the client of a process (a new one after a fork), and whether it is anonymous."""
    try:
        from google.auth import default
        from google.auth.credentials import AnonymousCredentials
        from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
        from google.cloud.storage import Client
    except ImportError as error:
        raise SpecError(needs_extra("a root on a bucket", "gcs")) from error
    # Otherwise the library requests the bucket's metadata for traces, in a separate thread.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    named = None if emulator else os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    credentials: Any = AnonymousCredentials()
    if not emulator:
        try:
            credentials, _ = default(scopes=Client.SCOPE)  # queries only the machine it runs on
        except (GoogleAuthError, OSError, *FORM_ERRORS) as error:
            if named or not isinstance(error, DefaultCredentialsError):
                what = f"GOOGLE_APPLICATION_CREDENTIALS={named}" if named else "the credentials of this user"
                raise SpecError(
                    f"{what}: cannot be used ({' '.join(str(error).split())}); name a file of credentials, or unset it "
                    "and log in: gcloud auth application-default login"
                ) from error
    return Client(project=None, credentials=credentials), isinstance(credentials, AnonymousCredentials)


def _request_errors() -> tuple[type[Exception], ...]:
    """Return the exception types that a request raises, without disk errors."""
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import InvalidResponse
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    errors = (GoogleAPIError, GoogleAuthError, InvalidResponse, RequestException, HTTPError)
    return (*errors, ConnectionError, TimeoutError)


def _may_pass(error: BaseException) -> bool:
    """Return whether a retry of the request may succeed."""
    import requests.exceptions as http
    from google.auth.exceptions import GoogleAuthError, TransportError
    from urllib3.exceptions import HTTPError

    if isinstance(error, GoogleAuthError):
        return error.retryable or isinstance(error, TransportError)
    network = (ConnectionError, http.ConnectionError, http.ChunkedEncodingError, http.Timeout, HTTPError)
    return isinstance(error, network) or _status(error) in PASSING


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of the response that caused an error."""
    return getattr(getattr(error, "response", None), "status_code", None) or getattr(error, "code", None)


def _reason(error: BaseException) -> tuple[str, int | None]:
    """Return the error of the last try in one line, and its HTTP status."""
    from google.api_core.exceptions import RetryError, from_http_response
    from google.auth.exceptions import InvalidOperation
    from requests.exceptions import Timeout

    if isinstance(error, RetryError):
        error = error.cause or error
    if any(isinstance(one, (TimeoutError, Timeout)) for one in _chain(error)):
        return f"no answer within {SILENCE_S:g} s", None
    # The library tries to renew credentials after a 401; anonymous credentials cannot be renewed.
    code = 401 if isinstance(error, InvalidOperation) else _status(error)
    with suppress(*FORM_ERRORS):
        response = getattr(error, "response", None)
        error = error if response is None else from_http_response(response)
    message = " ".join(str(getattr(error, "message", error)).split())[:MESSAGE_CHARACTERS]
    return f"{message or type(error).__name__}{f', {code}' if code else ''}", code


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def unreachable(error: BaseException) -> bool:
    """Return whether an error of a library that reads a bucket is about the connection, not about a file's content."""
    libraries = ("aiohttp", "gcsfs", "google", "requests", "urllib3")
    return any(
        isinstance(one, (ConnectionError, TimeoutError))
        or str(one).startswith(OUT_OF_REACH)
        or (type(one).__module__.split(".")[0] in libraries and not isinstance(one, FileNotFoundError))
        for one in _chain(error)
    )


def prepare_other_libraries() -> None:
    """Configure fsspec and tensorstore, which Orbax uses, to access the same bucket.

    They have their own retry rules. The listing cache of fsspec is off, because it would miss what tensorstore writes.
    With an emulator neither looks for credentials.
    """
    import fsspec.config
    from aiohttp import ClientTimeout

    # Otherwise gcsfs asks for the bucket type over gRPC, which stalls for a minute if gRPC is blocked.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    logging.getLogger("gcsfs").setLevel(logging.CRITICAL)  # it logs each error that it raises
    limits = ClientTimeout(total=None, connect=CONNECT_S, sock_connect=CONNECT_S, sock_read=SILENCE_S)
    options: dict[str, Any] = {"use_listings_cache": False, "requests_timeout": limits}
    if emulator := os.environ.get("STORAGE_EMULATOR_HOST"):
        options["token"] = "anon"
        os.environ.setdefault("TENSORSTORE_GCS_HTTP_URL", emulator)
        os.environ.setdefault("GOOGLE_AUTH_TOKEN_FOR_TESTING", "none")
    for protocol in ("gcs", "gs"):
        fsspec.config.conf.setdefault(protocol, {}).update(options)


@dataclass(frozen=True)
class BucketStore(Store):
    """Files under `gs://bucket/prefix`.

    Attributes:
        url: The root.
        folder: This machine's folder for it; each machine or process has its own.
    """

    url: str
    folder: Path
    max_concurrent_requests = 8  # with the heartbeat of a lease, below the 10 connections that requests keeps
    local = False

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return bucket_store, (self.url,)

    @cached_property
    def _bucket(self) -> Objects:
        return Bucket(self.url)

    @property
    @override
    def place(self) -> str:
        return self.url

    @property
    @override
    def machine(self) -> Path:
        return self.folder

    @override
    def where(self, name: str) -> str:
        return f"{self.url}/{name}"

    @override
    def uri(self, name: str) -> str:
        prepare_other_libraries()
        return self.where(name)

    @override
    def read(self, name: str) -> bytes | None:
        return self._bucket.read(name)

    @override
    def write(self, name: str, content: bytes, check: Check = no_check) -> None:
        """Write the object, and delete this machine's unfinished file of the name."""
        self._bucket.write(name, content, check)
        self.working(name).unlink(missing_ok=True)

    @override
    def create(self, name: str, content: bytes) -> bool:
        return self._bucket.create(name, content)

    @override
    def delete(self, name: str, check: Check = no_check) -> bool:
        """Delete only the generation that exists now."""
        there = self._bucket.stat(name)
        if there is None:
            return False
        check()
        return self._bucket.delete(name, there.generation)

    @override
    def delete_folder(self, folder: str, check: Check = no_check) -> None:
        """Delete only the listed generation of each file."""
        shutil.rmtree(self.working(folder), ignore_errors=True)

        def delete(there: Stored) -> None:
            check()
            self._bucket.delete(there.name, there.generation)

        found = [one for one in self._bucket.objects(f"{folder}/") if one.name != f"{folder}/{LEASE_FILE}"]
        self.each(delete, found)

    @override
    def size_bytes(self, folder: str) -> int:
        unfinished = [path.stat().st_size for path in self.working(folder).rglob("*") if path.is_file()]
        return sum(there.size_bytes for there in self._bucket.objects(f"{folder}/")) + sum(unfinished)

    @override
    def listed(self, folder: str, pattern: str = "**") -> list[Stored]:
        return self._bucket.objects(f"{folder}/", pattern)

    @override
    def stat(self, name: str) -> Stored | None:
        return self._bucket.stat(name)

    @override
    def fetch(self, name: str, size_bytes: int, sha256: str, *, fresh: bool = False) -> Path:
        fetch = partial(self._bucket.download, name)
        return cached_file(sha256, size_bytes, fetch, self.where(name), fresh=fresh)

    @override
    def current(self, name: str) -> Path | None:
        """Fetch the file unless this machine has these bytes."""
        there = self._bucket.stat(name)
        if there is None:
            return None
        if there.sha256:
            return self.fetch(name, there.size_bytes, there.sha256)
        if not there.md5:
            raise BucketError(f"{self.where(name)}: the bucket has no md5 of it. Copy it there again")
        fetch = partial(self._bucket.download, name)
        return cached_file(there.md5, there.size_bytes, fetch, self.where(name), algorithm="md5")

    @override
    def damage(self, name: str, size_bytes: int, sha256: str) -> str:
        there = self._bucket.stat(name)
        if there is None:
            return f"{self.where(name)}: is missing"
        if (there.size_bytes, there.sha256) == (size_bytes, sha256):
            try:
                if (
                    there.digest_verified
                    or file_digest(self.fetch(name, size_bytes, sha256), "md5") == there.md5
                ):
                    return ""
            except CorruptDatasetError as error:
                return str(error)
        return f"{self.where(name)}: has other bytes than the manifest says"

    @override
    def working(self, name: str) -> Path:
        return self.folder / check_inside(name)

    @override
    def finish(self, name: str, sha256: str, check: Check = no_check) -> None:
        """Upload the file, and move the local copy into the cache, so that later reads need no download."""
        source = self.working(name)
        self._bucket.upload(name, source, sha256, check)
        adopt(source, sha256)

    @override
    def lease(self, folder: str, what: str) -> AbstractContextManager[Lease]:
        return bucket_lease(self._bucket, f"{folder}/{LEASE_FILE}", what)


def bucket_store(url: str) -> BucketStore:
    """Return the store of a root on a bucket, with this machine's folder for it."""
    return BucketStore(url, machine_folder(url))
