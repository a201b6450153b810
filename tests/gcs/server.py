"""A Google Cloud Storage server on the loopback, in memory, with faults that tests switch on.

It serves the part of the JSON API that gcsfs uses: objects with generations, metagenerations, md5, crc32c and ETags;
`ifGenerationMatch`; ranged reads; multipart and resumable uploads; paged listings with `delimiter` and `matchGlob`;
delete, patch, rewrite and compose.

    with GcsServer("bucket") as server:
        os.environ["STORAGE_EMULATOR_HOST"] = server.url
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import random
import re
import socket
import struct
import threading
import time
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import google_crc32c

PAGE_ITEMS = 1000
CHUNK_BYTES = 1 << 16


@dataclass
class Object:
    """One generation of an object."""

    bucket: str
    name: str
    data: bytes
    generation: int
    content_type: str = "application/octet-stream"
    metadata: dict[str, str] = field(default_factory=dict)
    metageneration: int = 1

    def __post_init__(self) -> None:
        self.md5 = base64.b64encode(hashlib.md5(self.data).digest()).decode()
        self.crc32c = base64.b64encode(google_crc32c.Checksum(self.data).digest()).decode()

    @property
    def etag(self) -> str:
        return f"{self.generation:x}/{self.metageneration}"

    def resource(self) -> dict:
        return {
            "kind": "storage#object",
            "id": f"{self.bucket}/{self.name}/{self.generation}",
            "bucket": self.bucket,
            "name": self.name,
            "generation": str(self.generation),
            "metageneration": str(self.metageneration),
            "contentType": self.content_type,
            "size": str(len(self.data)),
            "md5Hash": self.md5,
            "crc32c": self.crc32c,
            "etag": self.etag,
            "metadata": self.metadata,
            "timeCreated": "2026-01-01T00:00:00.000Z",
            "updated": "2026-01-01T00:00:00.000Z",
        }


@dataclass
class Faults:
    """Faults of the next requests. Each fault decrements its count; 0 means never."""

    unavailable: int = 0
    """Number of requests answered with 503."""
    unavailable_share: float = 0.0
    """Share of all requests answered with 503, drawn at random."""
    unavailable_until: float = 0.0
    """Time on the monotonic clock (s) before which all requests are answered with 503."""
    hangs_until: float = 0.0
    """Time on the monotonic clock (s) before which requests are not answered."""
    denied: int = 0
    """Number of requests answered with 403."""
    denied_deletes: int = 0
    """Number of requests to delete an object answered with 403."""
    cut_downloads: int = 0
    """Number of reads of an object's bytes whose connection is reset in the middle."""
    shortened_downloads: int = 0
    """Number of reads of an object's bytes to which a proxy returns only half of the bytes, as a complete response."""
    flipped_downloads: int = 0
    """Number of reads of an object's bytes that arrive with one flipped bit."""
    cut_uploads: int = 0
    """Number of requests with an object's bytes whose connection is reset before all bytes are read."""
    lost_answers: int = 0
    """Number of writes that succeed, but whose connection is reset instead of a response."""
    slow: int = 0
    """Number of requests whose first byte is `slow_s` late."""
    slow_s: float = 0.0
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    """Responses (status and body) that replace the correct ones, in this order."""


class GcsServer:
    """The server, on a thread. Objects are `server.objects[bucket][name]`.

    Args:
        buckets: Names of the existing buckets.
    """

    def __init__(self, *buckets: str) -> None:
        self.objects: dict[str, dict[str, Object]] = {bucket: {} for bucket in buckets}
        self.faults = Faults()
        self.log: list[tuple[str, str]] = []
        """Method and object (or path) of every request."""
        self.written: list[str] = []
        """Name of every object at each time it was written whole."""
        self.states_hashes = True
        """Reads of an object's bytes state their digests."""
        self.strict = False
        """Uploads in parts whose lines end with a bare line feed are refused."""
        self.page = b""
        """What every request is answered with, as a page of something in between."""
        self.forgets_parts = 0
        """Parts of uploads of which only a beginning is kept."""
        self.requests = 0
        """Requests so far, whatever became of them."""
        self.lock = threading.RLock()
        self.uploads: dict[str, Upload] = {}
        self._stale: dict[str, dict[str, Object]] | None = None
        self._generations = itertools.count(time.time_ns() // 1000)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> GcsServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def freeze_listings(self) -> None:
        """Freeze listings at the current state."""
        with self.lock:
            self._stale = {bucket: dict(objects) for bucket, objects in self.objects.items()}

    def thaw_listings(self) -> None:
        """Make listings current again."""
        self._stale = None

    def listed(self, bucket: str) -> dict[str, Object]:
        return (self._stale if self._stale is not None else self.objects)[bucket]

    def names(self, bucket: str) -> list[str]:
        with self.lock:
            return sorted(self.objects[bucket])

    def flip_byte(self, bucket: str, name: str, position: int) -> None:
        """Damage an object silently: size, checksums and generation stay."""
        with self.lock:
            there = self.objects[bucket][name]
            data = bytearray(there.data)
            data[position] ^= 1
            there.data = bytes(data)

    def put(self, bucket: str, name: str, data: bytes, **fields: object) -> Object:
        """Write a new generation."""
        with self.lock:
            made = Object(bucket, name, data, next(self._generations), **fields)
            self.objects[bucket][name] = made
            self.written.append(name)
            return made

    def fails_now(self, fault: str) -> bool:
        """Decrement the count of a fault; return whether it happens now."""
        with self.lock:
            left = getattr(self.faults, fault)
            if left:
                setattr(self.faults, fault, left - 1)
            return bool(left)


@dataclass
class Upload:
    """A resumable upload in progress."""

    bucket: str
    resource: dict
    query: dict[str, str]
    data: bytearray = field(default_factory=bytearray)


class ResetError(Exception):
    """The connection must be reset."""


class RefusedError(Exception):
    """The response is an error."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Handler(BaseHTTPRequestHandler):
    """Answers requests; `store` is set by `_handler`."""

    store: GcsServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):  # a client that was killed
            super().handle()

    def answer(self) -> None:
        """Answer any request."""
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        try:
            self.store.requests += 1
            if self.store.fails_now("slow"):
                time.sleep(self.store.faults.slow_s)
            body = self.read_body()
            while time.monotonic() < self.store.faults.hangs_until:
                time.sleep(0.1)
            if random.random() < self.store.faults.unavailable_share:
                raise RefusedError(503, "backendError")
            if self.store.fails_now("unavailable") or time.monotonic() < self.store.faults.unavailable_until:
                raise RefusedError(503, "backendError")
            if self.store.fails_now("denied"):
                raise RefusedError(403, "forbidden")
            if self.command == "DELETE" and self.store.fails_now("denied_deletes"):
                raise RefusedError(403, "forbidden")
            if self.store.page:
                self.send(200, self.store.page, "text/html")
                return
            if self.store.faults.answers:
                self.send(*self.store.faults.answers.pop(0))
                return
            self.route(parts.path, query, body)
        except RefusedError as error:
            detail = {"code": error.status, "message": error.reason, "errors": [{"reason": error.reason}]}
            self.send(error.status, {"error": detail})
        except ResetError:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        size = int(self.headers.get("Content-Length") or 0)
        if size and "/upload/" in self.path and self.store.fails_now("cut_uploads"):
            self.rfile.read(size // 2)
            raise ResetError
        return self.rfile.read(size)

    def route(self, path: str, query: dict[str, str], body: bytes) -> None:
        if match := re.fullmatch(r"/upload/storage/v1/b/([^/]+)/o", path):
            self.upload(unquote(match[1]), query, body)
            return
        match = re.fullmatch(r"(?:/download)?/storage/v1/b/([^/]+)(?:/o(?:/(.+))?)?", path)
        if match is None:
            raise RefusedError(501, f"this server knows no {self.command} {path}")
        bucket, name = unquote(match[1]), match[2]
        if bucket not in self.store.objects:
            raise RefusedError(404, "The specified bucket does not exist.")
        if name is None:
            if path.endswith("/o"):
                self.list_objects(bucket, query)
            else:
                self.send(200, {"kind": "storage#bucket", "name": bucket})
        elif copy := re.fullmatch(r"(.+)/(?:rewriteTo|copyTo)/b/([^/]+)/o/(.+)", name):
            self.copy(bucket, unquote(copy[1]), unquote(copy[2]), unquote(copy[3]), query)
        elif name.endswith("/compose") and self.command == "POST":
            self.compose(bucket, unquote(name.removesuffix("/compose")), query, json.loads(body))
        else:
            self.one_object(bucket, unquote(name), query, body)

    def one_object(self, bucket: str, name: str, query: dict[str, str], body: bytes) -> None:
        store = self.store
        with store.lock:
            store.log.append((self.command, name))
            there = store.objects[bucket].get(name)
            if there is None or query.get("generation", str(there.generation)) != str(there.generation):
                raise RefusedError(404, f"No such object: {bucket}/{name}")
            check_generation(query, there)
            if self.command == "DELETE":
                del store.objects[bucket][name]
            elif self.command == "PATCH":
                there.metadata.update(json.loads(body).get("metadata") or {})
                there.metageneration += 1
        if self.command == "DELETE":
            self.done(204, b"")
        elif self.command == "PATCH":
            self.done(200, there.resource())
        elif query.get("alt") == "media":
            self.send_media(there)
        else:
            self.send(200, there.resource())

    def send_media(self, there: Object) -> None:
        data, status = there.data, 200
        headers = {
            "ETag": there.etag,
            "X-Goog-Generation": str(there.generation),
        }
        if self.store.states_hashes:
            headers["X-Goog-Hash"] = f"crc32c={there.crc32c}"
            headers["x-goog-hash"] = f"md5={there.md5}"  # a separate header, as GCS sends it
            headers["X-Goog-Stored-Content-Length"] = str(len(data))
        if match := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")):
            size = len(data)
            first = int(match[1]) if match[1] else max(0, size - int(match[2]))
            last = min(size - 1, int(match[2])) if match[1] and match[2] else size - 1
            if first >= size:
                raise RefusedError(416, "requestedRangeNotSatisfiable")
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
            data, status = data[first : last + 1], 206
        if data and self.store.fails_now("flipped_downloads"):
            data = bytes([data[0] ^ 1]) + data[1:]
        if data and self.store.fails_now("shortened_downloads"):
            data = data[: len(data) // 2]
        if len(data) > 1 and self.store.fails_now("cut_downloads"):
            self.head(status, there.content_type, len(data), headers)
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            raise ResetError
        self.send(status, data, there.content_type, headers)

    def list_objects(self, bucket: str, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        glob = glob_pattern(query["matchGlob"]) if "matchGlob" in query else None
        most = min(int(query.get("maxResults") or PAGE_ITEMS), PAGE_ITEMS)
        after = query.get("pageToken", "")
        items: list[dict] = []
        prefixes: list[str] = []
        last = ""
        answer: dict = {"kind": "storage#objects"}
        with self.store.lock:
            self.store.log.append(("LIST", prefix))
            for name, there in sorted(self.store.listed(bucket).items()):
                key, cut = name, name.find(delimiter, len(prefix)) if delimiter else -1
                if cut >= 0:
                    key = name[: cut + len(delimiter)]
                if not name.startswith(prefix) or (glob and not glob.fullmatch(name)):
                    continue
                if (after and key <= after) or key == last:
                    continue
                if len(items) + len(prefixes) == most:
                    answer["nextPageToken"] = last
                    break
                last = key
                if cut >= 0:
                    prefixes.append(key)
                else:
                    items.append(there.resource())
        self.send(200, {**answer, "items": items, "prefixes": prefixes})

    def copy(self, bucket: str, name: str, to_bucket: str, to_name: str, query: dict[str, str]) -> None:
        with self.store.lock:
            there = self.store.objects[bucket].get(name)
            if there is None:
                raise RefusedError(404, f"No such object: {bucket}/{name}")
            made = self.write(to_bucket, to_name, there.data, query, {"metadata": dict(there.metadata)})
        size = str(len(made.data))
        self.done(200, {"done": True, "objectSize": size, "resource": made.resource()})

    def compose(self, bucket: str, name: str, query: dict[str, str], request: dict) -> None:
        with self.store.lock:
            parts = [self.store.objects[bucket].get(part["name"]) for part in request["sourceObjects"]]
            if None in parts:
                raise RefusedError(404, "a source object is missing")
            data = b"".join(part.data for part in parts if part)
            made = self.write(bucket, name, data, query, request.get("destination") or {})
        self.done(200, made.resource())

    def upload(self, bucket: str, query: dict[str, str], body: bytes) -> None:
        if "upload_id" in query:
            self.continue_upload(query["upload_id"], body)
            return
        if query["uploadType"] == "media":
            self.done(200, self.write(bucket, query["name"], body, query, {}).resource())
        elif query["uploadType"] == "multipart":
            resource, data = split_multipart(self.headers["Content-Type"], body, strict=self.store.strict)
            self.done(200, self.write(bucket, resource["name"], data, query, resource).resource())
        else:
            resource = {**json.loads(body or b"{}"), "name": query.get("name") or json.loads(body)["name"]}
            with self.store.lock:
                check_generation(query, self.store.objects.get(bucket, {}).get(resource["name"]))
            upload_id = uuid.uuid4().hex
            self.store.uploads[upload_id] = Upload(bucket, resource, query)
            location = (
                f"{self.store.url}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={upload_id}"
            )
            self.send(200, b"", headers={"Location": location})

    def continue_upload(self, upload_id: str, body: bytes) -> None:
        going = self.store.uploads.get(upload_id)
        if going is None:
            raise RefusedError(404, "no such upload")
        if self.command == "DELETE":
            del self.store.uploads[upload_id]
            self.send(499, b"")
            return
        if self.store.forgets_parts and going.data:
            self.store.forgets_parts -= 1
            del going.data[2**18 :]
            self.send(308, b"", headers={"Range": f"bytes=0-{len(going.data) - 1}"})
            return
        total = None
        if match := re.fullmatch(r"bytes (?:\*|(\d+)-\d+)/(\*|\d+)", self.headers.get("Content-Range", "")):
            if match[1] is not None and int(match[1]) > len(going.data):
                raise RefusedError(503, "the upload offset exceeds what was uploaded")
            if match[1] is not None:
                going.data[int(match[1]) :] = body
            total = None if match[2] == "*" else int(match[2])
        else:
            going.data += body
            total = len(going.data)
        if total is None or len(going.data) < total:
            self.send(308, b"", headers={"Range": f"bytes=0-{len(going.data) - 1}"} if going.data else {})
            return
        made = self.write(
            going.bucket, going.resource["name"], bytes(going.data), going.query, going.resource
        )
        del self.store.uploads[upload_id]
        self.done(200, made.resource())

    def write(self, bucket: str, name: str, data: bytes, query: dict[str, str], resource: dict) -> Object:
        with self.store.lock:
            if bucket not in self.store.objects:
                raise RefusedError(404, "The specified bucket does not exist.")
            self.store.log.append(("WRITE", name))
            check_generation(query, self.store.objects[bucket].get(name))
            return self.store.put(bucket, name, data, metadata=dict(resource.get("metadata") or {}))

    def done(self, status: int, body: dict | bytes) -> None:
        """Answer a successful write, unless the response must get lost."""
        if self.store.fails_now("lost_answers"):
            raise ResetError
        self.send(status, body)

    def send(
        self,
        status: int,
        body: dict | bytes,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        self.head(status, content_type, len(data), headers or {})
        if status != 204:
            self.wfile.write(data)

    def head(self, status: int, content_type: str, size: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {"Content-Type": content_type, "Content-Length": str(size), **headers}.items():
            self.send_header(key, value)
        self.end_headers()


def check_generation(query: dict[str, str], there: Object | None) -> None:
    """Refuse if the generation differs from the client's expectation; 0 means no object."""
    expected = query.get("ifGenerationMatch")
    if expected is not None and int(expected) != (there.generation if there else 0):
        raise RefusedError(412, "conditionNotMet")


def split_multipart(content_type: str, body: bytes, *, strict: bool) -> tuple[dict, bytes]:
    """Return resource and data of a multipart upload; a strict server requires line ends as in RFC 2046."""
    boundary = re.search(r'boundary="?([^";]+)', content_type)
    assert boundary is not None
    edge = b"--" + boundary[1].strip("'").encode()
    if strict and (body.count(b"\r\n" + edge) != 2 or body.count(edge + b"\r\n") != 2):
        raise RefusedError(400, "Malformed multipart body.")
    parts = body.split(edge)[1:-1]
    first, second = (re.split(rb"\r?\n\r?\n", part, maxsplit=1)[1] for part in parts)
    return json.loads(first), second.removesuffix(b"\n").removesuffix(b"\r")


def glob_pattern(glob: str) -> re.Pattern[str]:
    """Return the regular expression of a glob: `*` matches anything but `/`, `**` anything."""
    parts = re.split(r"(\*\*|\*)", glob)
    return re.compile("".join({"*": "[^/]*", "**": ".*"}.get(part, re.escape(part)) for part in parts))


def _handler(store: GcsServer) -> type[Handler]:
    return type("BoundHandler", (Handler,), {"store": store})
