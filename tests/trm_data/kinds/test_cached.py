"""Candidates of slow generators are made once: the rows are equal, and a damaged block is made again."""

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest

from trm_data.building.flow import build_dataset
from trm_data.engine.local import LocalEngine
from trm_data.kinds.candidates import BLOCK_CANDIDATES, Candidates, cache_folder, cached_block
from trm_data.kinds.maze.options import MazeOptions
from trm_data.sources.base import parse_source
from trm_data.specs import BuildRequest
from trm_data.storage.root import resolve_root


class Generator:
    """Generator that counts its calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def __call__(self, stream: int, bounds: tuple[int, int]) -> Candidates:
        self.asked.append((stream, bounds[0]))
        numbers = np.arange(*bounds)
        cells = np.full((len(numbers), 4), stream, np.uint8)
        cells[:, 0] = numbers
        hashes = np.array([f"{stream}-{number}" for number in numbers])
        ratings = {"rating": numbers / 4, "rating_source": np.full(len(numbers), "solver")}
        return Candidates(cells, cells + 1, numbers, hashes, np.ones(len(numbers), np.int64), ratings)


def same(one: Candidates, other: Candidates) -> bool:
    arrays = [
        [
            found.inputs,
            found.labels,
            found.source_rows,
            found.hashes,
            found.automorphisms,
            *found.facts.values(),
        ]
        for found in (one, other)
    ]
    equal = all(a.dtype == b.dtype and (a == b).all() for a, b in zip(*arrays, strict=True))
    return equal and one.facts.keys() == other.facts.keys()


def test_a_block_is_made_once_and_read_equal(tmp_path: Path) -> None:
    make = Generator()
    first = cached_block(make, tmp_path / "g", 2, 3)
    assert first.source_rows.tolist() == list(range(3 * BLOCK_CANDIDATES, 4 * BLOCK_CANDIDATES))
    assert same(cached_block(make, tmp_path / "g", 2, 3), first)
    cached_block(make, tmp_path / "g", 1, 3)
    assert make.asked == [(2, 3 * BLOCK_CANDIDATES), (1, 3 * BLOCK_CANDIDATES)]


@pytest.mark.parametrize("damage", ["flipped", "another block", "pickled"])
def test_a_damaged_block_is_made_again(tmp_path: Path, damage: str) -> None:
    make = Generator()
    whole = cached_block(make, tmp_path, 0, 0)
    (path,) = tmp_path.glob("*.block")
    content = path.read_bytes()
    if damage == "flipped":
        middle = len(content) // 4
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :])
    elif damage == "another block":
        cached_block(make, tmp_path, 0, 1)
        path.write_bytes((tmp_path / "0-00000001.block").read_bytes())
    else:
        sink = io.BytesIO()
        np.savez(sink, inputs=np.array([print], dtype=object))
        path.write_bytes(hashlib.sha256(sink.getvalue()).digest() + sink.getvalue())
    asked = len(make.asked)
    assert same(cached_block(make, tmp_path, 0, 0), whole)
    assert len(make.asked) == asked + 1


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert len(cached_block(Generator(), tmp_path / "file" / "below", 0, 0)) == BLOCK_CANDIDATES


def test_generators_that_differ_in_anything_are_kept_apart(tmp_path: Path) -> None:
    folders = [cache_folder(tmp_path, "maze", seed, {"rows": rows}) for seed in (0, 1) for rows in (5, 6)]
    assert len(set(folders)) == 4


def test_a_larger_dataset_goes_on_from_a_smaller_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import trm_data.kinds.maze.kind as maze

    made: list[int] = []
    generate = maze.generate_mazes

    def counted(*arguments: int) -> object:
        made.append(arguments[3])
        return generate(*arguments)

    monkeypatch.setattr(maze, "generate_mazes", counted)

    def build(root: str, size: int) -> str:
        request = BuildRequest(
            kind="maze",
            source=parse_source("generated"),
            size=size,
            aug=7,
            val_size=0,
            test_size=8,
            options=MazeOptions(rows=9, columns=9, min_path=14),
            name=f"mazes-{size}",
        )
        layout = resolve_root(tmp_path / root)
        return build_dataset(request, layout, engine=LocalEngine(1)).manifest.content_digest

    expected = build("alone", 40)
    total = sum(made)
    made.clear()
    build("nested", 20)
    assert build("nested", 40) == expected
    assert sum(made) == total, "every block is made once"
    (tmp_path / "nested" / "datasets" / "mazes-40" / "manifest.json").unlink()
    made.clear()
    assert build("nested", 40) == expected
    assert made == []
