"""Readers raise only our own errors, whatever the content of a file.

Valid files are cut, overwritten, repeated and mixed at random; `make test-long` does this 120,000 times in all.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trm_data.encode import BlockDecoder, block_schema, encode_block, to_batch
from trm_data.errors import DataError
from trm_data.kinds.arc.source import read_tasks
from trm_data.kinds.maze.source import read_mazes
from trm_data.kinds.sudoku.source import read_puzzles
from trm_data.kinds.table.source import read_table
from trm_data.manifest import manifest_from_json
from trm_data.records import Rows
from trm_data.sources.base import LocalSource
from trm_data.sources.published import read_imported
from trm_data.specs import SourceSpec

TASK = {
    "train": [{"input": [[1, 2], [0, 9]], "output": [[3]]}],
    "test": [{"input": [[5]], "output": [[6, 7]]}],
}
INTERESTING = [
    b"",
    b"\x00",
    b"\xff\xfe",
    b"-1",
    b"1e999",
    b"NaN",
    b'"',
    b",",
    b"\n",
    b"\r",
    b"[",
    b"]" * 50,
    b"{",
]
INTERESTING += [
    b"[" * 5_000,
    b"9" * 5_000,
    b"null",
    b"true",
    "é🙂".encode(),
    b"10",
    b"31",
    b"0x1",
    b"\x1f\x8b",
]


def source(path: Path, kind: str) -> LocalSource:
    return LocalSource(SourceSpec(kind=kind, name=path.name, sha256=""), shown=path.name, path=path)


def write_npz(path: Path) -> None:
    np.savez(path, inputs=np.ones((3, 2, 2), np.uint8), labels=np.ones((3, 2, 2), np.uint8))


def write_published(folder: Path) -> None:
    (folder / "train").mkdir(parents=True)
    facts = {"sets": ["all"], "seq_len": 4, "vocab_size": 5, "num_puzzle_identifiers": 2}
    (folder / "train" / "dataset.json").write_text(json.dumps(facts))
    arrays = {
        "inputs": np.ones((6, 4), np.uint8),
        "labels": np.ones((6, 4), np.uint8),
        "puzzle_identifiers": np.array([1, 1, 0], np.int32),
        "puzzle_indices": np.array([0, 2, 4, 6], np.int32),
        "group_indices": np.array([0, 2, 3], np.int32),
    }
    for name, array in arrays.items():
        np.save(folder / "train" / f"all__{name}.npy", array)
    (folder / "identifiers.json").write_text('["<blank>", "a"]')


def seeds(tmp_path: Path) -> dict[str, tuple[list[Path], Callable[[], object]]]:
    """Return, for every reader, valid files and the call that reads them."""
    sudoku = tmp_path / "sudoku.csv"
    sudoku.write_text("source,question,answer,rating\nx,12..34..21..43..,,5\nx,....1234........,,\n")
    lines = tmp_path / "sudoku.txt.gz"
    lines.write_bytes(gzip.compress(b"# comment\n12..34..21..43..\n1...............\n"))
    maze = tmp_path / "maze.csv"
    maze.write_text("source,question,answer,rating\nx,S   #   G,Soo #   G,4\nx,S #   # G,,\n")
    table = tmp_path / "table.csv"
    table.write_text("inputs,labels\n1 2 3,3 2 1\n4 5 6,6 5 4\n")
    npz = tmp_path / "table.npz"
    write_npz(npz)
    published = tmp_path / "published"
    write_published(published)
    kaggle = tmp_path / "arc-agi_training_challenges.json"
    kaggle.write_text(json.dumps({"a": {"train": TASK["train"], "test": [{"input": [[5]]}]}}))
    (tmp_path / "arc-agi_training_solutions.json").write_text(json.dumps({"a": [[[6, 7]]]}))
    repo = tmp_path / "repo" / "training"
    repo.mkdir(parents=True)
    (repo / "t.json").write_text(json.dumps(TASK))
    return {
        "sudoku csv": ([sudoku], lambda: read_puzzles(source(sudoku, "csv"), 4)),
        "sudoku txt.gz": ([lines], lambda: read_puzzles(source(lines, "txt"), 4)),
        "maze csv": ([maze], lambda: read_mazes(source(maze, "csv"), 3, 3)),
        "table csv": ([table], lambda: read_table(source(table, "table"))),
        "table npz": ([npz], lambda: read_table(source(npz, "table"))),
        "published npy": (
            [path for path in sorted(published.rglob("*")) if path.is_file()],
            lambda: read_imported(published),
        ),
        "arc kaggle": (
            [kaggle, tmp_path / "arc-agi_training_solutions.json"],
            lambda: read_tasks("kaggle", tmp_path, ["training"]),
        ),
        "arc repo": ([repo / "t.json"], lambda: read_tasks("repo", tmp_path / "repo", ["training"])),
    }


READERS = [
    "sudoku csv",
    "sudoku txt.gz",
    "maze csv",
    "table csv",
    "table npz",
    "published npy",
    "arc kaggle",
    "arc repo",
]


def mutated(content: bytes, random: np.random.Generator) -> bytes:
    """Return the content with some random changes."""
    for _ in range(int(random.integers(1, 4))):
        size = len(content)
        start = int(random.integers(0, size + 1))
        stop = min(size, start + int(random.integers(0, 12)))
        choice = int(random.integers(0, 6))
        if choice == 0:  # cut short
            content = content[:start]
        elif choice == 1:  # leave out
            content = content[:start] + content[stop:]
        elif choice == 2:  # repeat
            content = content[:stop] + content[start:stop] * int(random.integers(1, 5)) + content[stop:]
        elif choice == 3:  # flip bits
            changed = bytearray(content)
            for place in random.integers(0, max(size, 1), 3).tolist():
                if place < size:
                    changed[place] ^= int(random.integers(1, 256))
            content = bytes(changed)
        elif choice == 4:  # insert special bytes
            content = (
                content[:start] + INTERESTING[int(random.integers(0, len(INTERESTING)))] + content[stop:]
            )
        else:  # move
            content = content[stop:] + content[start:stop] + content[:start]
    return content


def fuzz(tmp_path: Path, reader: str, rounds: int, seed: int) -> int:
    """Return how often the reader refused its input; any other error is raised."""
    files, read = seeds(tmp_path)[reader]
    read()
    valid = {file: file.read_bytes() for file in files}
    random = np.random.default_rng(seed)
    refused = 0
    for _ in range(rounds):
        file = files[int(random.integers(0, len(files)))]
        content = mutated(valid[file], random)
        if file.name.endswith(".gz") and random.integers(0, 2):
            content = gzip.compress(mutated(gzip.decompress(valid[file]), random), mtime=0)
        file.write_bytes(content)
        try:
            read()
        except DataError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} from {file.name}: {content!r}") from error
        file.write_bytes(valid[file])
    return refused


@pytest.mark.parametrize("reader", READERS)
def test_readers(tmp_path: Path, reader: str) -> None:
    assert fuzz(tmp_path, reader, 400, 1) > 20


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_readers_at_length(tmp_path: Path, reader: str) -> None:
    assert fuzz(tmp_path, reader, 14_000, 2) > 500


def test_blocks_and_manifests() -> None:
    """Files written by us are also untrusted."""
    numbers = np.arange(3, dtype=np.int32)
    cells = np.ones((3, 4), np.uint8)
    schema = block_schema(4)
    block = encode_block(to_batch(Rows(cells, cells, numbers, numbers, numbers, numbers), schema))
    random, decoder = np.random.default_rng(3), BlockDecoder(4)
    for _ in range(2_000):
        try:
            decoder.decode(mutated(block, random))
        except DataError:
            continue
    for value in ({}, {"format_version": 1}, {"format_version": "1"}, {"format_version": 1, "spec": []}):
        with pytest.raises(DataError):
            manifest_from_json(value)
