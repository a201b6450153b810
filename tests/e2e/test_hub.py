"""`--source hf` with a loopback server that answers like the Hugging Face hub."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from trm_data.kinds.maze.generate import generate_mazes
from trm_data.kinds.maze.solve import label_mazes
from trm_data.kinds.maze.source import encode_maze
from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.source import encode_grid
from trm_data.manifest import read_manifest
from trm_data.storage.root import resolve_root

pytest.importorskip("huggingface_hub", reason="needs the extra hf")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "sapientinc/sudoku-extreme"
MAZES = "sapientinc/maze-30x30-hard-1k"


def csv_bytes(stream: int, count: int, seed: int = 5) -> bytes:
    puzzles, solutions = generate(seed, stream, 0, count, 3, 3)
    rows = (f"s,{encode_grid(p)},{encode_grid(a)},7" for p, a in zip(puzzles, solutions, strict=True))
    return ("\n".join(["source,question,answer,rating", *rows]) + "\n").encode()


def maze_bytes(stream: int, count: int) -> bytes:
    mazes = generate_mazes(5, stream, 0, count, 30, 30, 40, 0.3, 0.5)
    labels = label_mazes(mazes, 30, 30).labels
    rows = (f"s,{encode_maze(m)},{encode_maze(a)},9" for m, a in zip(mazes, labels, strict=True))
    return ("\n".join(["source,question,answer,rating", *rows]) + "\n").encode()


@pytest.fixture
def hub() -> Iterator[str]:
    """The endpoint of a server with one dataset repository of two files."""
    repositories = {
        REPOSITORY: {"train.csv": csv_bytes(0, 8), "test.csv": csv_bytes(1, 5)},
        MAZES: {"train.csv": maze_bytes(0, 4), "test.csv": maze_bytes(1, 2)},
    }

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, *, body: bool) -> None:
            path = self.path.partition("?")[0]
            file = path.rsplit("/", 1)[-1]
            repository = next((name for name in repositories if f"datasets/{name}" in path), "")
            files = repositories.get(repository, {})
            if path.startswith("/api/datasets/") and repository:
                asked = path.rpartition("/revision/")[2] if "/revision/" in path else COMMIT
                info = {
                    "id": repository,
                    "sha": asked,
                    "cardData": {"license": "cc-by-4.0"},
                    "siblings": [],
                    "tags": [],
                }
                self.reply(json.dumps(info).encode(), "application/json", body)
            elif path == f"/datasets/{repository}/resolve/{COMMIT}/{file}" and file in files:
                self.reply(files[file], "text/csv", body)
            else:
                self.send_error(404)

        def reply(self, content: bytes, kind: str, body: bool) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if body:
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def build(root: Path, endpoint: str, *options: str, kind: str = "sudoku") -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("trm-data")
    command = [program, "build", kind, "--source", "hf", "--root", str(root)]
    environment = {
        **os.environ,
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(root / "hf"),
        "HF_HUB_DISABLE_XET": "1",
    }
    return subprocess.run([*command, *options], capture_output=True, text=True, env=environment, timeout=600)


def test_train_and_test_files_are_read_at_a_commit(hub: str, tmp_path: Path) -> None:
    done = build(tmp_path, hub, "--size", "6", "--aug", "2", "--val-size", "2", "--test-size", "5")
    assert done.returncode == 0, done.stderr
    manifest = read_manifest(resolve_root(tmp_path), "sudoku-extreme-6-aug-2")
    assert manifest.spec.source.name == f"{REPOSITORY}/train.csv@{COMMIT}"
    assert manifest.spec.test_source is not None
    assert manifest.spec.test_source.name == f"{REPOSITORY}/test.csv@{COMMIT}"
    assert {split: entry.num_examples for split, entry in manifest.splits.items()} == {
        "train": 18,
        "validation": 2,
        "test": 5,
    }


def test_mazes_have_a_repository_of_their_own(hub: str, tmp_path: Path) -> None:
    done = build(tmp_path, hub, "--size", "4", "--aug", "8", "--test-size", "2", kind="maze")
    assert done.returncode == 0, done.stderr
    manifest = read_manifest(resolve_root(tmp_path), "maze-30x30-hard-4-aug-7-rule")
    assert manifest.spec.source.name == f"{MAZES}/train.csv@{COMMIT}"
    assert "Cite: Maze-Hard" in (tmp_path / "datasets" / manifest.name / "README.md").read_text()
    assert {split: entry.num_examples for split, entry in manifest.splits.items()} == {"train": 32, "test": 2}


def test_a_hub_that_is_away_is_said_with_a_way_out(tmp_path: Path) -> None:
    failed = build(tmp_path, "http://127.0.0.1:9", "--size", "6")
    assert failed.returncode == 2
    assert "--source csv:train.csv" in failed.stderr
    assert "Traceback" not in failed.stderr
