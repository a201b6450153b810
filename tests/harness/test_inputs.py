"""Readers of damaged files read them or report the damage; they never fail otherwise."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness.figures import record
from tests.trm_eval.conftest import Evaluated, trained
from trm_data.encode import block_schema, decode_block
from trm_data.errors import DataError
from trm_data.export import export_dataset
from trm_data.kinds.arc.source import read_tasks
from trm_data.kinds.maze.source import read_mazes
from trm_data.kinds.sudoku.source import read_puzzles
from trm_data.kinds.table.source import read_table
from trm_data.manifest import find_manifest, read_manifest
from trm_data.named import names_of
from trm_data.shards.reader import read_rows
from trm_data.shards.writer import sidecar_from_bytes
from trm_data.sources.base import LocalSource, parse_source
from trm_data.sources.published import read_imported
from trm_data.specs import SourceSpec, check_name
from trm_data.storage.atomic import with_digest
from trm_data.storage.root import resolve_root, store_of
from trm_data.storage.store import check_inside
from trm_eval.errors import EvalError
from trm_train.errors import TrainError
from trm_train.metrics import of_today
from trm_train.runs.record import find_record
from trm_train.runs.status import read_status

__all__ = ["trained"]

TOKENS = (
    b"",
    b"0",
    b"-1",
    b"1e999",
    b"NaN",
    b"null",
    b"[]",
    b"{}",
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\x00",
    b"\xff",
    b"../",
)
TOKENS += (
    b"[" * 200,
    b"[" * 100_000,
    b"9" * 40,
    "ü".encode(),
    b"\xed\xa0\x80",
    b"true",
    b"#",
    b"\xef\xbb\xbf",
    b"1" * 5000,
)


INPUTS = int(os.environ.get("TRM_INPUTS", "1000000"))
GUIDED = 20_000
"""Number of inputs per reader that are chosen by coverage."""


@dataclass(frozen=True)
class Reader:
    """A reader of files.

    Attributes:
        seed: A valid input.
        read: Reads an input; raises only errors that a user can act on.
        share: Relative share of all inputs; lower for readers that start threads or read much.
    """

    seed: bytes
    read: Callable[[bytes], object]
    share: float = 1.0


def damaged(seed: bytes, draws: random.Random) -> bytes:
    """Return the input with one to four changes."""
    data = bytearray(seed)
    for _ in range(draws.choice((1, 1, 2, 4))):
        place = draws.randrange(len(data) + 1)
        kind = draws.randrange(6)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << draws.randrange(8)
        elif kind == 1:
            data[place : place + draws.randrange(1, 9)] = draws.choice(TOKENS)
        elif kind == 2:
            data[place:place] = draws.choice(TOKENS)
        elif kind == 3:
            del data[place:]
        elif kind == 4:
            other = draws.randrange(len(data) + 1)
            data[place : place + 16] = data[other : other + 16]
        else:
            del data[place : place + draws.randrange(1, 33)]
    return bytes(data)


def readers(run: Evaluated, folder: Path) -> dict[str, Reader]:
    """Return all readers, each with a valid input."""
    dataset = run.layout.dataset("small").here
    shard = sorted(dataset.glob("train-*.array_record"))[0]
    block = _first_record(shard)
    entry = read_manifest(run.layout, "small").splits["train"].shards[0]
    records, examples = entry.num_records, entry.num_examples

    def through(name: str, read: Callable[[], object]) -> Callable[[bytes], object]:
        """Return a reader that gets its input through a file."""
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)

        def reader(content: bytes) -> object:
            path.write_bytes(content)
            return read()

        return reader

    def source(kind: Any, name: str) -> LocalSource:
        return LocalSource(SourceSpec(kind=kind, name=name), name, folder / name)

    layout = resolve_root(folder / "root")
    at = layout.runs.within(run.folder.path.removeprefix("runs/"))
    record_at = f"root/{at.path}"
    status = Path(run.folder.uri("status.json")).read_bytes()
    for npy in ("npy", "arrays"):
        export_dataset(run.layout, "small", folder / npy, "npy")
    array = folder / "arrays" / "train" / "all__inputs.npy"
    question = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
    answer = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
    maze_question, maze_answer = "S" + " " * 7 + "G", "S" + "o" * 7 + "G"
    task = {
        "train": [{"input": [[0, 1], [2, 3]], "output": [[1]]}],
        "test": [{"input": [[4]], "output": [[5]]}],
    }
    npz = folder / "seed.npz"
    np.savez(npz, inputs=np.ones((3, 2, 2), np.int64), labels=np.ones((3, 2, 2), np.int64))
    table = pa.table({"inputs": [[1, 2], [2, 1]], "labels": [[1, 1], [2, 2]]})
    pq.write_table(table, folder / "seed.parquet")
    metrics = next(Path(run.layout.place).glob("runs/**/metrics/*.parquet")).read_bytes()
    puzzles_csv = f"source,question,answer,rating\na,{question},{answer},3\nb,{question[::-1]},,\n".encode()
    csv, txt, mazes = source("csv", "p.csv"), source("txt", "p.txt"), source("csv", "m.csv")
    zipped, boxes = source("txt", "p.txt.gz"), source("table", "t.csv")
    arrays, columns = source("table", "t.npz"), source("table", "t.parquet")
    packed = through("q.txt.gz", lambda: read_puzzles(source("txt", "q.txt.gz"), 9))
    (folder / "solved").mkdir()
    unsolved = {"a": {"train": task["train"], "test": [{"input": [[4]]}]}}
    (folder / "solved" / "arc-agi_training_challenges.json").write_text(json.dumps(unsolved))

    return {
        "manifest": Reader(
            (dataset / "manifest.json").read_bytes(),
            through("root/datasets/small/manifest.json", lambda: find_manifest(layout.dataset("small"))),
        ),
        "sidecar": Reader(Path(f"{shard}.json").read_bytes(), sidecar_from_bytes),
        "block": Reader(block, lambda record: decode_block(record, block_schema(36))),
        "shard": Reader(
            shard.read_bytes(),
            through(
                "s.array_record",
                lambda: read_rows(
                    folder / "s.array_record", sequence_length=36, num_records=records, num_examples=examples
                ),
            ),
            0.05,
        ),
        "run record": Reader(
            Path(run.folder.uri("config.json")).read_bytes(),
            through(f"{record_at}/config.json", lambda: find_record(at)),
        ),
        "run record, format 1": Reader(
            _without_digest(run), through(f"{record_at}/config.json", lambda: find_record(at))
        ),
        "run record, with a new digest": Reader(
            _without_digest(run),
            _digested_anew(through(f"{record_at}/config.json", lambda: find_record(at)), 2),
        ),
        "run status, with a new digest": Reader(
            status, _digested_anew(through(f"{record_at}/status.json", lambda: read_status(at)))
        ),
        "run status": Reader(status, through(f"{record_at}/status.json", lambda: read_status(at))),
        "metric part": Reader(
            metrics, lambda content: of_today(pq.read_table(pa.BufferReader(content))), 0.2
        ),
        "csv": Reader(puzzles_csv, through("p.csv", lambda: read_puzzles(csv, 9))),
        "txt": Reader(
            f"{question}\n# a\n{question[::-1]} # b\n".encode(),
            through("p.txt", lambda: read_puzzles(txt, 9)),
        ),
        "gzip": Reader(
            gzip.compress(question.encode()), through("p.txt.gz", lambda: read_puzzles(zipped, 9))
        ),
        "text in gzip": Reader(
            question.encode(),
            lambda content: packed(gzip.compress(content, mtime=0)),
        ),
        "maze csv": Reader(
            f"question,answer\n{maze_question},{maze_answer}\n".encode(),
            through("m.csv", lambda: read_mazes(mazes, 3, 3)),
        ),
        "table csv": Reader(
            b"inputs,labels\n1 2 3,1 2 3\n3 2 1,3 2 1\n", through("t.csv", lambda: read_table(boxes))
        ),
        "table npz": Reader(npz.read_bytes(), through("t.npz", lambda: read_table(arrays)), 0.3),
        "table parquet": Reader(
            (folder / "seed.parquet").read_bytes(), through("t.parquet", lambda: read_table(columns)), 0.2
        ),
        "arc": Reader(
            json.dumps({"00d62c1b": task}).encode(),
            through(
                "kaggle/arc-agi_training_challenges.json",
                lambda: read_tasks("kaggle", folder / "kaggle", ["training"]),
            ),
        ),
        "arc solutions": Reader(
            b'{"a": [[[5]]]}',
            through(
                "solved/arc-agi_training_solutions.json",
                lambda: read_tasks("kaggle", folder / "solved", ["training"]),
            ),
        ),
        "arc repo": Reader(
            json.dumps(task).encode(),
            through("repo/training/00d62c1b.json", lambda: read_tasks("repo", folder / "repo", ["training"])),
        ),
        "npy layout": Reader(
            (folder / "npy" / "train" / "dataset.json").read_bytes(),
            through("npy/train/dataset.json", lambda: read_imported(folder / "npy")),
            0.3,
        ),
        "npy array": Reader(
            array.read_bytes(),
            through("arrays/train/all__inputs.npy", lambda: read_imported(folder / "arrays")),
            0.1,
        ),
        "name": Reader(
            b"sudoku-extreme-1k-aug-1000", lambda content: _names(content.decode("utf-8", "surrogateescape"))
        ),
    }


def _without_digest(run: Evaluated) -> bytes:
    """Return the record of a run in format 1."""
    value = json.loads(Path(run.folder.uri("config.json")).read_bytes())
    del value["digest"]
    return json.dumps({**value, "format_version": 1}).encode()


def _digested_anew(read: Callable[[bytes], object], version: int | None = None) -> Callable[[bytes], object]:
    """Return a reader that corrects the digest of a changed file, to reach the checks behind the digest."""

    def reader(content: bytes) -> object:
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(content)
            if isinstance(value, dict):
                value |= {} if version is None else {"format_version": version}
                content = json.dumps(with_digest(value)).encode("utf-8", "surrogatepass")
        return read(content)

    return reader


def _names(text: str) -> None:
    """Try a text as the name of a dataset, a source, a root and a file, independently."""
    for take in (check_name, names_of, parse_source, check_inside):
        with contextlib.suppress(DataError):
            take(text)
    with contextlib.suppress(DataError):
        store_of(f"gs://{text}")


def _first_record(shard: Path) -> bytes:
    from array_record.python.array_record_module import ArrayRecordReader

    reader = ArrayRecordReader(str(shard))
    try:
        return reader.read([0])[0]
    finally:
        reader.close()


EXPECTED = (DataError, TrainError, EvalError)
METRICS_EXPECTED = (*EXPECTED, pa.ArrowException, UnicodeDecodeError, KeyError, OSError)
"""Readers of a metric part have compared its digest, and report these exceptions as damage."""


@pytest.mark.filterwarnings("ignore")  # from numpy and zipfile, about damaged content
@pytest.mark.parametrize("inputs", [4_000, pytest.param(INPUTS, marks=pytest.mark.slow)])
def test_damaged_inputs_are_read_or_refused(trained: Evaluated, tmp_path: Path, inputs: int) -> None:
    known = readers(trained, tmp_path)
    total = sum(reader.share for reader in known.values())
    draws, refused, done, slowest = random.Random(inputs), 0, 0, 0.0
    for name, reader in known.items():
        reader.read(reader.seed)
        expected = METRICS_EXPECTED if name == "metric part" else EXPECTED
        for _ in range(-(-int(inputs * reader.share) // int(total))):
            content = damaged(reader.seed, draws)
            begun = time.perf_counter()
            try:
                reader.read(content)
            except expected:
                refused += 1
            except BaseException as error:
                (tmp_path / "input").write_bytes(content)
                raise AssertionError(f"{name}: {type(error).__name__} of {content[:300]!r}") from error
            slowest = max(slowest, time.perf_counter() - begun)
            done += 1
    assert done >= inputs * 0.95
    assert slowest < 20, "an input that keeps a reader busy"
    print(done, refused, slowest)
    record("inputs", {"inputs": done, "readers": len(known), "refused": refused, "crashes": 0})


@pytest.mark.slow
def test_inputs_that_coverage_guides(trained: Evaluated, tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="needs atheris: pip install atheris")
    guided = Path(__file__).with_name("guided.py")
    names = [name for name, reader in readers(trained, tmp_path / "names").items() if reader.share == 1.0]
    for name in names:
        arguments = [
            trained.layout.place,
            tmp_path / name.replace(" ", "-"),
            name,
            f"-runs={GUIDED}",
            "-verbosity=0",
        ]
        (tmp_path / name.replace(" ", "-")).mkdir()
        done = subprocess.run(
            [sys.executable, guided, *map(str, arguments)], capture_output=True, text=True, timeout=3600
        )
        assert done.returncode == 0, (name, done.stdout[-2000:], done.stderr[-3000:])
    record("guided inputs", {"inputs": GUIDED * len(names), "readers": len(names), "crashes": 0})
