"""An in-memory Hugging Face hub on the loopback: model repositories can be created, pushed to and read."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

LARGE = ".npz"
"""Files with this suffix use LFS, as binary files do on the real hub."""


@dataclass
class ModelHub:
    """Content of the server.

    Attributes:
        commits: Files of every commit of each repository, by name; the last commit is `main`.
        private: Repositories that were created as private.
        objects: Bytes uploaded by LFS, by sha256.
        asked: Requested files.
        endpoint: URL of the server.
    """

    commits: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    endpoint: str = ""

    def commit(self, repository: str, files: dict[str, bytes]) -> str:
        """Add a commit with these files on top of the earlier ones; return its id."""
        before = self.commits[repository]
        content = {**(list(before.values())[-1] if before else {}), **files}
        text = "".join(f"{name}{hashlib.sha256(data).hexdigest()}" for name, data in sorted(content.items()))
        oid = hashlib.sha1(f"{len(before)}{text}".encode()).hexdigest()
        before[oid] = content
        return oid

    def resolve(self, repository: str, revision: str) -> str | None:
        """Return the commit of a revision."""
        commits = self.commits.get(repository, {})
        return (
            list(commits)[-1] if revision == "main" and commits else revision if revision in commits else None
        )


class Handler(BaseHTTPRequestHandler):
    """Answers the hub requests that its client sends."""

    hub: ModelHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.get(body=False)

    def do_GET(self) -> None:
        self.get(body=True)

    def get(self, *, body: bool) -> None:
        path = unquote(self.path.partition("?")[0]).strip("/")
        parts = path.split("/")
        if parts[:2] == ["api", "models"]:
            repository, rest = "/".join(parts[2:4]), parts[4:]
            commit = self.hub.resolve(repository, rest[1] if rest[:1] == ["revision"] else "main")
            if commit is None:
                return self.missing("RevisionNotFound" if repository in self.hub.commits else "RepoNotFound")
            files = self.hub.commits[repository][commit]
            facts = {
                "id": repository,
                "sha": commit,
                "tags": [],
                "siblings": [{"rfilename": name} for name in files],
            }
            return self.reply(json.dumps(facts).encode(), body=body)
        if len(parts) > 4 and parts[2] == "resolve":
            repository, name = "/".join(parts[:2]), "/".join(parts[4:])
            commit = self.hub.resolve(repository, parts[3])
            content = None if commit is None else self.hub.commits[repository][commit].get(name)
            if content is None or commit is None:
                return self.missing("EntryNotFound")
            if body:
                self.hub.asked.append(name)
            etag = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": commit}
            return self.reply(content, kind="application/octet-stream", headers=etag, body=body)
        return self.missing("EntryNotFound")

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = unquote(self.path.partition("?")[0]).strip("/").split("/")
        if parts == ["api", "repos", "create"]:
            asked = json.loads(content)
            repository = (
                f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
            )
            self.hub.commits.setdefault(repository, {})
            if asked.get("private") or asked.get("visibility") == "private":
                self.hub.private.add(repository)
            return self.reply(json.dumps({"url": f"{self.hub.endpoint}/{repository}"}).encode())
        if parts == ["api", "validate-yaml"]:
            return self.reply(b'{"errors": [], "warnings": []}')
        if parts[-1] == "batch":
            return self.reply(self.uploads(json.loads(content)), kind="application/vnd.git-lfs+json")
        if parts[:2] == ["api", "models"] and "/".join(parts[2:4]) in self.hub.commits:
            repository = "/".join(parts[2:4])
            if parts[4] == "preupload":
                files = [
                    {
                        "path": file["path"],
                        "uploadMode": "lfs" if file["path"].endswith(LARGE) else "regular",
                        "shouldIgnore": False,
                    }
                    for file in json.loads(content)["files"]
                ]
                return self.reply(json.dumps({"files": files}).encode())
            if parts[4] == "commit":
                oid = self.hub.commit(repository, self.committed(content))
                url = f"{self.hub.endpoint}/{repository}/commit/{oid}"
                return self.reply(json.dumps({"commitUrl": url, "commitOid": oid, "success": True}).encode())
        return self.missing("RepoNotFound")

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        oid = self.path.rsplit("/", 1)[-1]
        assert hashlib.sha256(content).hexdigest() == oid
        self.hub.objects[oid] = content
        self.reply(b"{}")

    def uploads(self, asked: dict) -> bytes:
        """Return where to upload each missing object."""
        objects = []
        for item in asked["objects"]:
            actions = {"upload": {"href": f"{self.hub.endpoint}/lfs/{item['oid']}"}}
            objects.append({**item, **({} if item["oid"] in self.hub.objects else {"actions": actions})})
        return json.dumps({"transfer": "basic", "objects": objects}).encode()

    def committed(self, content: bytes) -> dict[str, bytes]:
        """Return the files of a commit, sent by the client as JSON lines."""
        files = {}
        for line in content.splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif item["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
        return files

    def missing(self, code: str) -> None:
        self.reply(b'{"error": "not found"}', status=404, headers={"X-Error-Code": code})

    def reply(
        self,
        content: bytes,
        *,
        kind: str = "application/json",
        status: int = 200,
        headers: dict[str, str] | None = None,
        body: bool = True,
    ) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)


@contextmanager
def serving() -> Iterator[ModelHub]:
    """Serve an empty hub at its `endpoint`."""
    hub = ModelHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OfThis", (Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
