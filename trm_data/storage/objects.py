"""Objects under a URL `gs://bucket/prefix`: the only module that asks a bucket for something.

Every object is written create-only and compared with what was sent, or in the place of the very generation that was
seen (of an uploaded file that generation is deleted first). So of two writers one learns of the other, and neither
overwrites what it has not seen. Neighbour: `connection` sends the requests, again after faults that pass; what
remains ends as a `BucketError` here.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import uuid
from base64 import b64decode
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trm_data.errors import BucketError, BuildError
from trm_data.storage.answers import Answer, stated_digest
from trm_data.storage.connection import GaveUpError, connection
from trm_data.storage.store import Check, check_inside, no_check

ATTEMPTS = 4
"""Times an object is written, or a small one read, before what comes out is called wrong."""
CHUNK_BYTES = 16 * 2**20
"""Of an upload, in one request; a multiple of 256 KiB."""
SMALL_BYTES = 5 * 2**20
"""Files below this are uploaded in one request."""
UNFINISHED = 308
"""Status of an upload in parts of which more is to come."""
NO_GENERATION = "0"
"""As a condition: only where there is no such object."""


@dataclass(frozen=True)
class StoredObject:
    """What the bucket says of an object.

    Attributes:
        path: Name under the URL.
        size_bytes: Size.
        md5: Of its bytes, hexadecimal; the bucket computed it.
        sha256: Of its bytes, as whoever uploaded it with `upload` stated it; empty for other objects, and for those
            whose bytes were replaced under what was stated.
        proved: The object states the md5 that the bucket computed, so its bytes are those that `sha256` was stated of.
        generation: Differs for every object that ever had this name.
        metageneration: Counts the changes of its metadata.
    """

    path: str
    size_bytes: int
    md5: str
    sha256: str
    proved: bool
    generation: str
    metageneration: str


class Bucket:
    """Objects under a URL.

    Args:
        url: `gs://bucket/prefix`; the prefix may be missing.

    Raises:
        SpecError: The extra `gcs` is not installed.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._bucket, _, prefix = url.removeprefix("gs://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._connection = connection()

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """From its URL: another process has connections of its own."""
        return Bucket, (self.url,)

    def where(self, path: str) -> str:
        """URL of an object, for messages."""
        return f"{self.url}/{path}"

    def read(self, path: str) -> bytes | None:
        """A small object; None if there is none.

        What arrives is compared with what the bucket says of it, and read again where it differs; what is the same
        each time is what the bucket holds. Where the bucket says nothing of it, it is read twice.

        Raises:
            BucketError: The bucket cannot be reached, or refuses, or answers something else each time.
        """
        seen: list[bytes] = []
        while len(seen) < ATTEMPTS:
            try:
                with self._reported(f"read {path}"):
                    _, headers, content = self._ask("GET", path, query={"alt": "media"})
            except FileNotFoundError:
                return None
            arrived = stated_digest(headers).fits(content)
            if arrived or (arrived is None and content in seen):
                return content
            seen.append(content)
        if len(set(seen)) == 1:
            return seen[0]
        raise BucketError(
            f"{self.where(path)}: other bytes arrive each time than the bucket says ({ATTEMPTS} times); check the "
            "network"
        )

    def download(self, path: str, target: Path) -> bool:
        """Write an object to a file; False if there is none. Whether it is the right one is for the caller to check.

        Raises:
            BucketError: The bucket cannot be reached, or refuses.
        """
        names = (self._bucket, self._object(path))
        try:
            with self._reported(f"read {path}"):
                self._connection.download("b/{}/o/{}", *names, target=target)
        except FileNotFoundError:
            return False
        return True

    def stat(self, path: str) -> StoredObject | None:
        """What the bucket says of an object, asked of itself and of no listing; None if there is none.

        Raises:
            BucketError: The bucket cannot be reached, or refuses.
        """
        try:
            with self._reported(f"look at {path}"):
                return self._stored(json.loads(self._ask("GET", path).body))
        except FileNotFoundError:
            return None

    def objects(self, folder: str, pattern: str = "**") -> list[StoredObject]:
        """The objects in a folder, by their names, as far as the bucket's listing is up to date.

        Args:
            folder: Ends with `/`.
            pattern: What the rest of the name is like; `*` stands for anything but `/`, `**` alone for everything.

        Raises:
            BucketError: There is no such bucket, it cannot be reached, or refuses.
        """
        found: list[StoredObject] = []
        asked = {"prefix": self._prefix + folder}
        if pattern != "**":
            asked["matchGlob"] = self._prefix + folder + pattern
        while True:
            with self._reported(f"list {folder}", missing=True):
                page = json.loads(self._connection.ask("GET", "b/{}/o", self._bucket, query=asked).body)
                items = [
                    item for item in page.get("items", []) if not item["name"].endswith("/")
                ]  # folders of others
                found += [self._stored(item) for item in items]
                if "nextPageToken" not in page:
                    return sorted(found, key=lambda item: item.path)
                asked["pageToken"] = page["nextPageToken"]

    def create(self, path: str, content: bytes) -> bool:
        """Write a small object if there is none of that name; False if there is one with other bytes.

        Raises:
            BucketError: The bucket cannot be reached, or refuses.
        """
        return self._replace(path, content, NO_GENERATION)

    def write(self, path: str, content: bytes, check: Check = no_check) -> None:
        """Write a small object, in the place of one that is there: in one step, so that there is always one of them.

        Args:
            path: Name of the object.
            content: Its bytes.
            check: Called before it is written: whether it still may be.

        Raises:
            BucketError: The bucket cannot be reached, refuses, or others write the same object all the time.
        """
        for _ in range(ATTEMPTS):
            there = self.stat(path)
            check()
            if self._replace(path, content, NO_GENERATION if there is None else there.generation):
                return
        raise BucketError(
            f"{self.where(path)}: something else writes it all the time; stop that and try again"
        )

    def _replace(self, path: str, content: bytes, generation: str) -> bool:
        """Write a small object in the place of this very generation; False if another one is there by now."""
        query = {"uploadType": "media", "name": self._object(path), "ifGenerationMatch": generation}
        try:
            with self._reported(f"write {path}", missing=True):
                written = self._stored(json.loads(self._post(content, query).body))
                if written.md5 != hashlib.md5(content, usedforsecurity=False).hexdigest():
                    raise ValueError(f"it stored other bytes than were sent, of md5 {written.md5!r}")
        except FileExistsError:
            # Perhaps by ourselves: an answer that was lost on the way looks the same.
            return self.read(path) == content
        return True

    def upload(self, path: str, source: Path, sha256: str, check: Check = no_check) -> bool:
        """Upload a file and see that it arrived, in the place of an object with other bytes.

        Args:
            path: Name of the object.
            source: The file.
            sha256: What its bytes must have, hexadecimal; the object states it from then on.
            check: Called before anything is written or deleted: whether it still may be.

        Returns:
            Whether it was uploaded; False if the object was there already.

        Raises:
            BuildError: The file is not what `sha256` says.
            BucketError: The bucket cannot be reached, refuses, or stores other bytes than it was sent.
        """
        size_bytes, md5 = _checked_md5(source, sha256)
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
            f"{self.where(path)}: the bucket holds other bytes than were sent, {ATTEMPTS} times; "
            "does something else write there?"
        )

    def delete(self, path: str, generation: str | None = None) -> bool:
        """Delete an object, only of this generation if one is given; whether it was there.

        Raises:
            BucketError: The bucket cannot be reached, or refuses.
        """
        condition = {} if generation is None else {"ifGenerationMatch": generation}
        try:
            with self._reported(f"delete {path}"):
                if self._ask("DELETE", path, query=condition).body.strip():
                    raise ValueError("something else was said than that it is deleted")
        except (FileNotFoundError, FileExistsError):  # the latter is the failed condition
            return False
        return True

    def touch(self, path: str, generation: str, note: str) -> bool:
        """Change an object's metadata, so that others see a sign of life; False if that generation is gone.

        Raises:
            BucketError: The bucket cannot be reached, or refuses.
        """
        changed = {"metadata": {"note": note}}
        try:
            with self._reported(f"touch {path}"):
                asked = {"ifGenerationMatch": generation}
                self._stored(json.loads(self._ask("PATCH", path, document=changed, query=asked).body))
        except (FileNotFoundError, FileExistsError):
            return False
        return True

    def _put(self, path: str, source: Path, notes: dict[str, str], check: Check) -> None:
        """Write an object with notes where there is none."""
        small = source.stat().st_size < SMALL_BYTES
        # It may be there by another writer, or by ourselves before an answer was lost: `upload` looks.
        with suppress(FileExistsError, _ForgottenUploadError), self._reported(f"write {path}", missing=True):
            if small:
                self._put_small(path, source.read_bytes(), notes)
            else:
                self._put_parts(path, source, notes, check)

    def _put_small(self, path: str, content: bytes, notes: dict[str, str]) -> None:
        """Write an object with its notes in one request, in parts that end as RFC 2046 has it.

        gcsfs would end the lines around the content with a bare line feed, which strict servers refuse, and a content
        that ends with a carriage return would lose it.
        """
        boundary = uuid.uuid4().hex
        about = json.dumps({"name": self._object(path), "metadata": notes}).encode()
        parts = ((b"application/json; charset=UTF-8", about), (b"application/octet-stream", content))
        edge = b"--" + boundary.encode()
        body = b"".join(
            edge + b"\r\nContent-Type: " + kind + b"\r\n\r\n" + part + b"\r\n" for kind, part in parts
        )
        self._post(
            body + edge + b"--\r\n",
            {"uploadType": "multipart", "ifGenerationMatch": NO_GENERATION},
            {"Content-Type": f'multipart/related; boundary="{boundary}"'},
        )

    def _put_parts(self, path: str, source: Path, notes: dict[str, str], check: Check) -> None:
        """Write an object with its notes in several requests; what the bucket has not kept of one is sent again."""
        size = source.stat().st_size
        asked = {"uploadType": "resumable", "name": self._object(path), "ifGenerationMatch": NO_GENERATION}
        url = self._connection.upload_url(self._bucket)
        kind = {"X-Upload-Content-Type": "application/octet-stream"}
        started = self._connection.ask("POST", url, document={"metadata": notes}, headers=kind, query=asked)
        location, begin, furthest, stood_still = started.headers["Location"], 0, 0, 0
        with source.open("rb") as file:
            while begin < size:
                check()
                file.seek(begin)
                content = file.read(CHUNK_BYTES)
                about = {"Content-Range": f"bytes {begin}-{begin + len(content) - 1}/{size}"}
                try:
                    answer = self._connection.ask("PUT", location, content=content, headers=about)
                except FileNotFoundError as error:
                    raise _ForgottenUploadError from error
                except GaveUpError as error:
                    if error.code == 410:
                        raise _ForgottenUploadError from error
                    raise
                if answer.status != UNFINISHED:
                    return
                kept = re.fullmatch(r"bytes=0-(\d+)", answer.headers.get("Range", ""))
                begin = int(kept[1]) + 1 if kept else 0
                stood_still = 0 if begin > furthest else stood_still + 1
                furthest = max(furthest, begin)
                if stood_still > ATTEMPTS:
                    raise _ForgottenUploadError

    def _post(
        self, content: bytes, query: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> Answer:
        url = self._connection.upload_url(self._bucket)
        return self._connection.ask("POST", url, content=content, headers=headers, query=query)

    def _no_bucket(self) -> BucketError:
        return BucketError(f"{self.url}: there is no bucket {self._bucket}, or you may not see it")

    def _object(self, path: str) -> str:
        return self._prefix + check_inside(path)

    def _ask(
        self, method: str, path: str, *, document: object = None, query: Mapping[str, str] | None = None
    ) -> Answer:
        names = (self._bucket, self._object(path))
        return self._connection.ask(method, "b/{}/o/{}", *names, document=document, query=query)

    def _stored(self, value: dict[str, Any]) -> StoredObject:
        notes = value.get("metadata") or {}
        md5 = b64decode(value.get("md5Hash", "")).hex()
        stated = notes.get("md5", "")
        return StoredObject(
            path=value["name"].removeprefix(self._prefix),
            size_bytes=int(value["size"]),
            md5=md5,
            sha256=notes.get("sha256", "") if stated in ("", md5) else "",
            proved=bool(stated) and stated == md5,
            generation=str(value["generation"]),
            metageneration=str(value["metageneration"]),
        )

    @contextmanager
    def _reported(self, what: str, *, missing: bool = False) -> Generator[None, None, None]:
        """End what is asked for inside as a `BucketError`; `missing` says that nothing found means no bucket."""
        try:
            yield
        except FileNotFoundError as error:
            if missing:
                raise self._no_bucket() from error
            raise
        except GaveUpError as error:
            who = ""
            if error.code in (401, 403) and self._connection.anonymous:
                who = "; no credentials were found, so the bucket was asked as nobody"
            raise BucketError(
                f"{self.url}: could not {what} ({error}{who}); check the network and your right to it "
                "(gcloud auth application-default login), then try again"
            ) from error
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT) or isinstance(error, FileExistsError):
                raise
            raise BucketError(f"{self.url}: could not {what} ({error})") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise BucketError(
                f"{self.url}: could not {what}: the answer is none of a bucket ({reason}); is something between here "
                "and the bucket, such as a proxy or a login page?"
            ) from error


class _ForgottenUploadError(Exception):
    """The bucket has forgotten an upload in parts, as it may."""


def _checked_md5(path: Path, sha256: str) -> tuple[int, str]:
    """Size and md5 of a file that has this sha256."""
    size_bytes, sha, md5 = 0, hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            size_bytes += len(chunk)
            sha.update(chunk)
            md5.update(chunk)
    if sha.hexdigest() != sha256:
        raise BuildError(
            f"{path}: changed while it was being uploaded (sha256 differs); nothing else may write there"
        )
    return size_bytes, md5.hexdigest()
