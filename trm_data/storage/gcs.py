"""Roots on a bucket, `gs://bucket/prefix`: the only module that talks to Google Cloud Storage.

`BucketStore` sends requests with google-cloud-storage, which is imported when the first bucket is used. Every write
creates a new object or replaces the generation that was read before. So two writers notice each other, and neither
overwrites what it has not seen. Files are read through this machine's cache; they are written locally, checked and
uploaded.
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
import os
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
"""Size of a part of an upload, in bytes; a multiple of 256 KiB."""
RANGE_BYTES = 32 * 2**20
"""Size of the ranges in which a file is downloaded, in bytes."""
MESSAGE_CHARACTERS = 300
BINARY = "application/octet-stream"
NO_GENERATION = "0"
"""Condition of a write: the object does not exist."""
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


@dataclass(frozen=True)
class BucketStore(Store):
    """Files under `gs://bucket/prefix`: objects, written and read with google-cloud-storage.

    A write creates a new object or replaces a known generation. Every request raises `BucketError` if the bucket is
    unreachable or refuses, or if something else responds.

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
    def _bucket(self) -> Any:
        return self._client[0].bucket(self.url.removeprefix("gs://").partition("/")[0])

    @property
    def _client(self) -> tuple[Any, bool]:
        """The client of this process, and whether it is anonymous."""
        return _client(os.getpid(), os.environ.get("STORAGE_EMULATOR_HOST"))

    @property
    def _prefix(self) -> str:
        prefix = self.url.removeprefix("gs://").partition("/")[2]
        return f"{prefix}/" if prefix else ""

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
        import google_crc32c

        seen: list[bytes] = []
        while len(seen) < ATTEMPTS:
            blob, buffer = self._blob(name), io.BytesIO()
            try:
                with self._request(f"read {name}") as options:
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
            f"{self.where(name)}: the received bytes differ from the bucket's digest ({ATTEMPTS} tries). Check the "
            f"network"
        )

    def download(self, name: str, target: Path) -> bool:
        """Write an object to a file; return False if there is no object. The caller checks the bytes."""
        from google.api_core.exceptions import RequestRangeNotSatisfiable

        begin, more = 0, True
        with target.open("wb") as file:
            while more:
                blob, end = self._blob(name), begin + RANGE_BYTES
                try:
                    with self._request(f"read {name}") as options, suppress(RequestRangeNotSatisfiable):
                        blob.download_to_file(file, start=begin, end=end - 1, checksum=None, **options)
                        if blob.generation is None:
                            raise ValueError("the bytes have no generation")
                except FileNotFoundError:
                    return False
                begin, more = file.tell(), file.tell() == end
        return True

    @override
    def stat(self, name: str) -> Stored | None:
        blob = self._blob(name)
        try:
            with self._request(f"look at {name}") as options:
                blob.reload(**options)
                return self._stored(blob)
        except FileNotFoundError:
            return None

    @override
    def listed(self, folder: str, pattern: str = "**") -> list[Stored]:
        """List the files below a folder; a bucket's listing may lag behind."""
        prefix = f"{self._prefix}{folder}/"
        with self._request(f"list {folder}", missing=True) as options:
            found = self._bucket.list_blobs(
                prefix=prefix, match_glob=None if pattern == "**" else prefix + pattern, **options
            )
            # Names that end with `/` are folder markers of other programs.
            stored = [self._stored(blob) for blob in found if not blob.name.endswith("/")]
        return sorted(stored, key=lambda item: item.name)

    @override
    def create(self, name: str, content: bytes) -> bool:
        return self._replace(name, content, NO_GENERATION)

    @override
    def write(self, name: str, content: bytes, check: Check = no_check) -> None:
        """Write the object, and delete this machine's unfinished file of the name."""
        for _ in range(ATTEMPTS):
            there = self.stat(name)
            check()
            if self._replace(name, content, NO_GENERATION if there is None else there.generation):
                self.working(name).unlink(missing_ok=True)
                return
        raise BucketError(f"{self.where(name)}: another program keeps writing it. Stop it and try again")

    def _replace(self, name: str, content: bytes, generation: str) -> bool:
        """Write a small object in place of this generation; return False if the generation has changed."""
        blob = self._blob(name)
        try:
            with self._request(f"write {name}", missing=True, size=len(content)) as options:
                blob.upload_from_string(
                    content, BINARY, if_generation_match=generation, checksum=None, **options
                )
                if self._stored(blob).md5 != hashlib.md5(content, usedforsecurity=False).hexdigest():
                    raise ValueError("the bucket stored other bytes than sent")
        except FileExistsError:
            # Perhaps our own write succeeded: a lost response looks the same.
            return self.read(name) == content
        return True

    def upload(self, name: str, source: Path, sha256: str, check: Check = no_check) -> bool:
        """Upload a file, replacing an object with other bytes, and verify the upload.

        Args:
            name: Name of the object.
            source: The file.
            sha256: Expected digest of the file, hexadecimal; stored in the object's metadata.
            check: Called before anything is written or deleted.

        Returns:
            Whether it was uploaded; False if the object already existed with these bytes.

        Raises:
            BuildError: The file does not match `sha256`.
        """
        if file_sha256(source) != sha256:
            raise BuildError(
                f"{source}: changed during the upload (sha256 differs). Nothing else may write there"
            )
        size_bytes, md5 = source.stat().st_size, file_digest(source, "md5")
        for attempt in range(ATTEMPTS + 1):
            there = self.stat(name)
            if there is not None:
                if (there.size_bytes, there.md5, there.sha256) == (size_bytes, md5, sha256):
                    return attempt > 0
                check()
                self.delete_generation(name, there.generation)
            if attempt < ATTEMPTS:
                check()
                self._put(name, source, {"sha256": sha256, "md5": md5})
        raise BucketError(
            f"{self.where(name)}: the bucket stored other bytes than sent, or none, {ATTEMPTS} times. Does another "
            "program write there?"
        )

    def _put(self, name: str, source: Path, notes: dict[str, str]) -> None:
        """Write an object with metadata if it does not exist; `upload` checks whether it arrived, and repeats it.

        The library raises ValueError if the bucket kept less than a whole part.
        """
        blob = self._blob(name)
        blob.metadata, blob.chunk_size = notes, PART_BYTES
        with (
            suppress(FileExistsError, FileNotFoundError),  # the latter: the bucket has forgotten the upload
            self._request(f"write {name}", size=PART_BYTES) as options,
            suppress(ValueError),
        ):
            blob.upload_from_filename(
                source, BINARY, if_generation_match=NO_GENERATION, checksum=None, **options
            )

    @override
    def delete(self, name: str, check: Check = no_check) -> bool:
        """Delete only the generation that exists now."""
        there = self.stat(name)
        if there is None:
            return False
        check()
        return self.delete_generation(name, there.generation)

    def delete_generation(self, name: str, generation: str) -> bool:
        """Delete one generation of an object; return whether it existed."""
        try:
            with self._request(f"delete {name}") as options:
                self._blob(name).delete(if_generation_match=generation, **options)
        except (FileNotFoundError, FileExistsError):  # the latter is the failed condition
            return False
        return True

    def touch(self, name: str, generation: str, note: str) -> bool:
        """Change an object's metadata as a heartbeat for others; return False if that generation is gone."""
        blob = self._blob(name)
        blob.metadata = {"note": note}
        try:
            with self._request(f"touch {name}") as options:
                blob.patch(if_generation_match=generation, **options)
                self._stored(blob)
        except (FileNotFoundError, FileExistsError):
            return False
        return True

    def _blob(self, name: str) -> Any:
        return self._bucket.blob(self._prefix + check_inside(name))

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
            if code in (401, 403) and self._client[1]:
                who = "; no credentials were found, so the bucket was asked as nobody"
            raise BucketError(
                f"{self.url}: could not {what} ({reason}{asked}{who}); check the network and your permissions "
                f"(gcloud auth application-default login), then try again"
            ) from error

    @override
    def delete_folder(self, folder: str) -> None:
        """Delete only the listed generation of each file."""
        shutil.rmtree(self.working(folder), ignore_errors=True)
        found = [one for one in self.listed(folder) if one.name != f"{folder}/{LEASE_FILE}"]
        self.each(lambda there: self.delete_generation(there.name, there.generation), found)

    @override
    def fetch(self, name: str, size_bytes: int, sha256: str, *, fresh: bool = False) -> Path:
        fetch = partial(self.download, name)
        return cached_file(sha256, size_bytes, fetch, self.where(name), fresh=fresh)

    @override
    def current(self, name: str) -> Path | None:
        """Fetch the file unless this machine has these bytes."""
        there = self.stat(name)
        if there is None:
            return None
        if there.sha256:
            return self.fetch(name, there.size_bytes, there.sha256)
        if not there.md5:
            raise BucketError(f"{self.where(name)}: the bucket has no md5 of it. Copy it there again")
        fetch = partial(self.download, name)
        return cached_file(there.md5, there.size_bytes, fetch, self.where(name), algorithm="md5")

    @override
    def damage(self, name: str, size_bytes: int, sha256: str) -> str:
        there = self.stat(name)
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
        self.upload(name, source, sha256, check)
        adopt(source, sha256)

    @override
    def lease(self, folder: str, what: str) -> AbstractContextManager[Lease]:
        return bucket_lease(self, f"{folder}/{LEASE_FILE}", what)


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


def bucket_store(url: str) -> BucketStore:
    """Return the store of a root on a bucket, with this machine's folder for it."""
    return BucketStore(url, machine_folder(url))
