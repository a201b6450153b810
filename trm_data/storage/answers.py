"""What a bucket's answer means: its errors, pages that are none of a bucket's, and what it states of bytes.

Neighbour: `connection` asks, and asks again.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

MESSAGE_CHARACTERS = 300
"""Of an answer, in an error."""


class Answer(NamedTuple):
    """What a bucket answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class RefusedError(Exception):
    """A bucket's answer that says no.

    Args:
        code: HTTP status.
        message: What the answer says.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message}, {code}" if message else f"status {code}")
        self.code = code


class OtherBytesError(Exception):
    """An answer that was changed on its way, or that does not have the digest that the bucket states."""


class StatedDigest:
    """Length and digest that an answer states of an object's bytes, and those of the bytes that arrive.

    Args:
        size: Length, if it is stated.
        name: Of the digest, `md5`, or `crc32c` for objects that were put together from others; empty for none.
        digest: As it is stated.
    """

    def __init__(self, size: int | None, name: str, digest: bytes) -> None:
        self._size, self._name, self._digest, self._count = size, name, digest, 0
        self._sum: Any = hashlib.md5(usedforsecurity=False)
        if name == "crc32c":
            import google_crc32c

            self._sum = google_crc32c.Checksum()

    def update(self, content: bytes) -> None:
        """More bytes arrived."""
        self._sum.update(content)
        self._count += len(content)

    def arrived(self) -> str:
        """The digest of what arrived."""
        return f"{self._count} {self._sum.digest().hex()}"

    def differs(self) -> bool:
        """Whether what arrived is not what was stated."""
        if self._size is not None and self._size != self._count:
            return True
        return bool(self._name) and self._sum.digest() != self._digest

    def fits(self, content: bytes) -> bool | None:
        """Whether a whole content is what was stated; None where nothing was stated of it."""
        self.update(content)
        if self.differs():
            return False
        return True if self._name else None


def stated_digest(headers: Mapping[str, str]) -> StatedDigest:
    """What an answer states of an object's bytes; nothing of one that is stored compressed and arrives as it was."""
    getall: Callable[[str, list[str]], list[str]] | None = getattr(headers, "getall", None)
    lines = getall("X-Goog-Hash", []) if getall is not None else [headers.get("X-Goog-Hash", "")]
    parts = [part.strip() for line in lines for part in line.split(",")]
    stated = dict(part.split("=", 1) for part in parts if "=" in part)
    size = headers.get("X-Goog-Stored-Content-Length", "")
    if headers.get("X-Goog-Stored-Content-Encoding", "identity") != "identity":
        return StatedDigest(None, "", b"")
    name = next((name for name in ("md5", "crc32c") if name in stated), "")
    try:
        digest = b64decode(stated.get(name, ""), validate=True)
    except ValueError:
        name, digest = "", b""
    return StatedDigest(int(size) if size.isdecimal() else None, name, digest)


def check_status(status: int, body: bytes, url: str) -> None:
    """See what an answer means; its body may have any form.

    Raises:
        FileNotFoundError: There is no such bucket or object.
        FileExistsError: A condition of the request does not hold.
        RefusedError: It is any other error.
    """
    if status < 400:
        return
    if status == 404:
        raise FileNotFoundError(url)
    if status == 412:
        raise FileExistsError(url)
    message = body.decode("utf-8", "replace")
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        error = json.loads(body)["error"]
        message = str(error["message"] if isinstance(error, dict) else error)
    raise RefusedError(status, " ".join(message.split())[:MESSAGE_CHARACTERS])


def check_no_page(headers: Mapping[str, str]) -> None:
    """An answer comes from a bucket, and is no page that something between here and there answers with.

    Raises:
        RefusedError: It is a page.
    """
    if headers.get("Content-Type", "").startswith("text/html") and not any(
        name.lower().startswith("x-goog-") for name in headers
    ):
        raise RefusedError(
            200, "the answer is a web page and none of a bucket; is a proxy or a login page in between?"
        )
