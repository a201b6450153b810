"""Grids and blocks survive encoding and decoding; a build imports no pandas."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trm_data.encode import (
    block_schema,
    decode_block,
    encode_block,
)
from trm_data.errors import CorruptDatasetError
from trm_data.kinds.sudoku.source import check_digits, choose_digits, decode_grid, encode_grid
from trm_data.records import Rows

FAKE = """\
import os, pathlib, sys
pathlib.Path(os.environ["IMPORTED"]).write_text(" ".join(sys.argv))
raise ImportError("not installed")
"""


def _importable(folder: Path, *names: str) -> dict[str, str]:
    """Return an environment in which imports of the given modules are recorded."""
    for name in names:
        (folder / f"{name}.py").write_text(FAKE)
    return {**os.environ, "PYTHONPATH": str(folder), "IMPORTED": str(folder / "imported")}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.integration
def test_a_build_imports_no_pandas(tmp_path: Path, workers: int) -> None:
    environment = _importable(tmp_path, "pandas")
    command = f"build sudoku --size 20 --aug 3 --val-size 5 --test-size 5 --root {tmp_path / 'root'}"
    program = "import sys; from trm_data.cli import main; main(sys.argv[1:])"
    arguments = [*command.split(), "--workers", str(workers), "--shard-examples", "30"]
    subprocess.run([sys.executable, "-c", program, *arguments], env=environment, check=True)
    assert not (tmp_path / "imported").exists()


def test_pandas_would_be_noticed(tmp_path: Path) -> None:
    environment = _importable(tmp_path, "pandas")
    program = "import pyarrow; pyarrow.array([1])"
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert (tmp_path / "imported").exists()


@st.composite
def grids(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    side = draw(st.sampled_from([4, 6, 9, 12, 16]))
    return draw(hnp.arrays(np.uint8, side * side, elements=st.integers(0, side))), side


@given(grids())
def test_grid_text_round_trip(grid: tuple[np.ndarray, int]) -> None:
    values, side = grid
    text = encode_grid(values)
    assert len(text) == side * side
    np.testing.assert_array_equal(decode_grid(text, side), values)


def test_digits_above_nine_are_letters() -> None:
    assert encode_grid(np.array([0, 1, 9, 10, 16], np.uint8)) == ".19ag"
    assert decode_grid("G" + "0" * 255, 16)[0] == 16


@pytest.mark.parametrize(
    ("text", "side", "message"),
    [
        ("." * 80, 9, "expected 81 characters, got 80"),
        ("." * 80 + "x", 9, "'x' at position 81"),
        ("." * 80 + "a", 9, "'a' at position 81: expected 1 to 9"),
        ("5" + "." * 15, 4, "'5' at position 1: expected 1 to 4"),
        ("é" + "." * 15, 4, "'é' at position 1"),
    ],
)
def test_bad_text_says_where(text: str, side: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_grid(text, side)


@settings(deadline=None)  # the first block imports pyarrow
@given(count=st.integers(1, 40), cells=st.integers(1, 90), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_block_round_trip(count: int, cells: int, seed: int, data: st.DataObject) -> None:
    random = np.random.default_rng(seed)

    def integers() -> np.ndarray:
        return random.integers(0, 2**31 - 1, count, dtype=np.int32)

    def tokens() -> np.ndarray:
        return random.integers(0, 256, (count, cells), dtype=np.uint8)

    rows = Rows(tokens(), tokens(), integers(), integers(), integers(), integers())
    schema = block_schema(cells)
    start = data.draw(st.integers(0, count - 1))
    stop = data.draw(st.integers(start + 1, count))
    record = encode_block(rows.slice(start, stop), schema)
    back = decode_block(record, schema)
    for name, column in rows.slice(start, stop).columns().items():
        np.testing.assert_array_equal(getattr(back, name), column)


def test_a_record_that_is_no_block_is_refused() -> None:
    with pytest.raises(CorruptDatasetError, match="Arrow"):
        decode_block(b"not arrow at all", block_schema(4))
    zeros = np.zeros(1, np.int32)
    rows = Rows(np.zeros((1, 9), np.uint8), np.zeros((1, 9), np.uint8), zeros, zeros, zeros, zeros)
    with pytest.raises(CorruptDatasetError, match="columns"):
        decode_block(encode_block(rows, block_schema(9)), block_schema(4))


def test_zero_is_a_digit_where_the_top_digit_is_nowhere() -> None:
    """Only if there is also another blank character; otherwise 0 is the blank."""
    assert choose_digits([("0123" + "." * 12, "")], 4) == "0123"
    assert choose_digits([("1230" + "0" * 12, "")], 4) == ""
    assert choose_digits([("0123" + "." * 12, ""), ("4" + "." * 15, "")], 4) == ""
    assert choose_digits([("." * 15 + "1", "0123" * 4)], 4) == "0123"
    assert choose_digits([("1234" + "." * 12, "")], 4) == ""


def test_a_file_that_does_not_tell_whether_zero_is_a_digit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"--symbols 1234 or --symbols 0123"):
        choose_digits([("01.0" + "." * 12, "")], 4)


def test_letters_without_digits_stand_for_the_digits() -> None:
    assert choose_digits([("ABP" + "." * 253, "")], 16) == "abcdefghijklmnop"
    assert choose_digits([("ABG" + "." * 253, "")], 16) == ""
    assert choose_digits([("1BG" + "." * 253, "")], 16) == ""
    assert choose_digits([("AI" + "." * 79, "")], 9) == "abcdefghi"


def test_named_digits_are_read_in_both_cases_unless_they_are_two() -> None:
    assert decode_grid("fF0." + "." * 252, 16, "0123456789ABCDEF")[:4].tolist() == [16, 16, 1, 0]
    assert decode_grid("aAbB" + "." * 12, 4, "aAbB")[:4].tolist() == [1, 2, 3, 4]
    for wrong in ("0123456789", "001", "abc "):
        with pytest.raises(ValueError, match="expected 4 different ones"):
            check_digits(wrong, 4)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_body_is_refused_before_it_takes_memory(codec: str) -> None:
    cells, numbers = np.zeros((200, 81), np.uint8), np.zeros(200, np.int32)
    schema = block_schema(81)
    plain = encode_block(Rows(cells, cells, numbers, numbers, numbers, numbers), schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(pa.ipc.open_stream(plain).read_next_batch())
    before = pa.total_allocated_bytes()
    with pytest.raises(CorruptDatasetError, match="Arrow stream"):
        decode_block(sink.getvalue().to_pybytes(), schema)
    assert pa.total_allocated_bytes() == before
