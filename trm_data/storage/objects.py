"""Objects under a URL `gs://bucket/prefix`: the only module that talks to a bucket; `connection` is how.

Every object is written create-only and compared with what was sent, or in the place of the very generation that was
seen (of an uploaded file that generation is deleted first). So of two writers one learns of the other, and neither
overwrites what it has not seen.
Passing faults are tried again, a bounded number of times; what remains ends as a `BucketError`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import time
import uuid
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from trm_data.errors import BucketError, BuildError
from trm_data.storage.connection import filesystem, may_pass, request_errors
from trm_data.storage.store import check_inside

ATTEMPTS = 4
"""Times an operation is begun; each request of it is tried again by gcsfs, six times within about half a minute."""
FIRST_WAIT_S = 0.5
CHUNK_BYTES = 16 * 2**20
"""Of an upload, in one request."""
SMALL_BYTES = 5 * 2**20
"""Files below this are uploaded in one request."""
NO_GENERATION = "0"
"""As a condition: only where there is no such object."""

T = TypeVar("T")


@dataclass(frozen=True)
class StoredObject:
    """What the bucket says of an object.

    Attributes:
        path: Name under the URL.
        size_bytes: Size.
        md5: Of its bytes, hexadecimal; the bucket computed it.
        sha256: Of its bytes, as whoever uploaded it with `upload` stated it; empty for other objects.
        generation: Differs for every object that ever had this name.
        metageneration: Counts the changes of its metadata.
    """

    path: str
    size_bytes: int
    md5: str
    sha256: str
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
        self._filesystem = filesystem()

    def where(self, path: str) -> str:
        """URL of an object, for messages."""
        return f"{self.url}/{path}"

    def read(self, path: str) -> bytes | None:
        """A small object; None if there is none.

        Raises:
            BucketError: The bucket cannot be reached, or refuses.
        """
        try:
            return self._try(f"read {path}", lambda: self._filesystem.cat_file(self._full(path)))
        except FileNotFoundError:
            return None

    def download(self, path: str, target: Path) -> bool:
        """Write an object to a file; False if there is none. What arrived is for the caller to check.

        Raises:
            BucketError: The bucket cannot be reached, or refuses.
        """
        try:
            get_file = self._filesystem.get_file
            self._try(f"read {path}", lambda: get_file(self._full(path), str(target), concurrency=1))
        except FileNotFoundError:
            return False
        return True

    def stat(self, path: str) -> StoredObject | None:
        """What the bucket says of an object, asked of itself and of no listing; None if there is none.

        Raises:
            BucketError: The bucket cannot be reached, or refuses.
        """
        try:
            value = self._try(f"look at {path}", lambda: self._call("GET", "b/{}/o/{}", path, json_out=True))
        except FileNotFoundError:
            return None
        return self._stored(value)

    def names(self, folder: str, pattern: str = "**") -> list[str]:
        """Names under the URL of the objects in a folder, as far as the bucket's listing is up to date.

        Args:
            folder: Ends with `/`.
            pattern: What the rest of the name is like; `*` stands for anything but `/`.

        Raises:
            BucketError: There is no such bucket, it cannot be reached, or refuses.
        """
        found: list[str] = []
        asked = {"prefix": self._prefix + folder, "matchGlob": self._prefix + folder + pattern}
        while True:
            page = self._try(
                f"list {folder}", lambda: self._call("GET", "b/{}/o", json_out=True, **asked), missing=True
            )
            found += [item["name"].removeprefix(self._prefix) for item in page.get("items", [])]
            if "nextPageToken" not in page:
                return sorted(found)
            asked["pageToken"] = page["nextPageToken"]

    def create(self, path: str, content: bytes) -> bool:
        """Write a small object if there is none of that name; False if there is one with other bytes.

        Raises:
            BucketError: The bucket cannot be reached, or refuses.
        """
        return self._replace(path, content, NO_GENERATION)

    def write(self, path: str, content: bytes) -> None:
        """Write a small object, in the place of one that is there: in one step, so that there is always one of them.

        Raises:
            BucketError: The bucket cannot be reached, refuses, or others write the same object all the time.
        """
        for _ in range(ATTEMPTS):
            there = self.stat(path)
            written = (
                self.create(path, content)
                if there is None
                else self._replace(path, content, there.generation)
            )
            if written:
                return
        raise BucketError(
            f"{self.where(path)}: something else writes it all the time; stop that and try again"
        )

    def _replace(self, path: str, content: bytes, generation: str) -> bool:
        """Write a small object in the place of this very generation; False if another one is there by now."""
        asked = {"uploadType": "media", "name": self._object(path), "ifGenerationMatch": generation}
        try:
            self._try(f"write {path}", lambda: self._post(content, **asked), missing=True)
        except FileExistsError:
            # Perhaps by ourselves: an answer that was lost on the way looks the same.
            return self.read(path) == content
        return True

    def upload(self, path: str, source: Path, sha256: str) -> bool:
        """Upload a file and see that it arrived, in the place of an object with other bytes.

        Args:
            path: Name of the object.
            source: The file.
            sha256: What its bytes must have, hexadecimal; the object states it from then on.

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
                self.delete(path, there.generation)
            if attempt < ATTEMPTS:
                self._put(path, source, sha256)
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
            self._try(f"delete {path}", lambda: self._call("DELETE", "b/{}/o/{}", path, **condition))
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
            self._try(
                f"touch {path}",
                lambda: self._call("PATCH", "b/{}/o/{}", path, ifGenerationMatch=generation, json=changed),
            )
        except (FileNotFoundError, FileExistsError):
            return False
        return True

    def _put(self, path: str, source: Path, sha256: str) -> None:
        def put() -> None:
            if source.stat().st_size < SMALL_BYTES:
                self._put_small(path, source.read_bytes(), sha256)
                return
            self._filesystem.put_file(
                str(source),
                self._full(path),
                mode="create",
                metadata={"sha256": sha256},
                chunksize=CHUNK_BYTES,
                content_type="application/octet-stream",
            )

        # It may be there by another writer, or by ourselves before an answer was lost: `upload` looks.
        with suppress(FileExistsError):
            try:
                self._try(f"write {path}", put)
            except FileNotFoundError as error:
                if "upload_id=" not in str(error):  # else the bucket forgot an upload in parts, as it may
                    raise self._no_bucket() from error

    def _put_small(self, path: str, content: bytes, sha256: str) -> None:
        """Write an object with its metadata in one request.

        gcsfs would end the lines around the content with a bare line feed, and a content that ends with a carriage
        return would lose it.
        """
        boundary = uuid.uuid4().hex
        about = json.dumps({"name": self._object(path), "metadata": {"sha256": sha256}}).encode()
        parts = ((b"application/json; charset=UTF-8", about), (b"application/octet-stream", content))
        edge = b"--" + boundary.encode()
        body = b"".join(
            edge + b"\r\nContent-Type: " + kind + b"\r\n\r\n" + part + b"\r\n" for kind, part in parts
        )
        self._post(
            body + edge + b"--\r\n",
            uploadType="multipart",
            ifGenerationMatch=NO_GENERATION,
            headers={"Content-Type": f'multipart/related; boundary="{boundary}"'},
        )

    def _post(self, content: bytes, **asked: Any) -> None:
        from fsspec.asyn import sync

        opened = self._filesystem
        url = f"{opened._location}/upload/storage/v1/b/{self._bucket}/o"
        sync(opened.loop, opened._call, "POST", url, data=content, **asked)

    def _no_bucket(self) -> BucketError:
        return BucketError(f"{self.url}: there is no bucket {self._bucket}, or you may not see it")

    def _full(self, path: str) -> str:
        return f"{self._bucket}/{self._object(path)}"

    def _object(self, path: str) -> str:
        return self._prefix + check_inside(path)

    def _call(self, method: str, template: str, path: str = "", **arguments: Any) -> Any:
        from fsspec.asyn import sync

        names = [self._bucket] if not path else [self._bucket, self._object(path)]
        return sync(self._filesystem.loop, self._filesystem._call, method, template, *names, **arguments)

    def _stored(self, value: dict[str, Any]) -> StoredObject:
        return StoredObject(
            path=value["name"].removeprefix(self._prefix),
            size_bytes=int(value["size"]),
            md5=b64decode(value.get("md5Hash", "")).hex(),
            sha256=(value.get("metadata") or {}).get("sha256", ""),
            generation=str(value["generation"]),
            metageneration=str(value["metageneration"]),
        )

    def _try(self, what: str, action: Callable[[], T], *, missing: bool = False) -> T:
        """Run an action, again after faults that pass; `missing` says that nothing found means no bucket."""
        for attempt in range(ATTEMPTS):
            try:
                return action()
            except FileExistsError:
                raise
            except FileNotFoundError as error:
                if missing:
                    raise self._no_bucket() from error
                raise
            except request_errors() as error:
                if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise
                if attempt + 1 == ATTEMPTS or not may_pass(error):
                    reason = str(error) or type(error).__name__
                    raise BucketError(
                        f"{self.url}: could not {what} ({reason}); check the network and your right to it "
                        "(gcloud auth application-default login), then try again"
                    ) from error
                time.sleep(FIRST_WAIT_S * 2**attempt)
        raise AssertionError


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
