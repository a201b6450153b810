"""Arrow columns equal those of pyarrow for the same values, without pyarrow's extra imports.

Grids and blocks survive encoding and decoding.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.extra import numpy as npst

from trm_data import encode
from trm_data.encode import (
    BlockDecoder,
    BlockEncoder,
    block_schema,
    constant_column,
    decode_block,
    encode_block,
    numbers_column,
    numbers_of,
    table_of,
    texts_column,
    to_batch,
)
from trm_data.errors import CorruptDatasetError
from trm_data.kinds.sudoku.source import check_digits, choose_digits, decode_grid, encode_grid
from trm_data.records import Rows

NUMBERS = st.sampled_from([np.uint8, np.int8, np.int32, np.int64, np.float32, np.float64])
FAKE = """\
import os, pathlib, sys
pathlib.Path(os.environ["IMPORTED"]).write_text(" ".join(sys.argv))
raise ImportError("not installed")
"""


@given(st.data(), NUMBERS)
def test_numbers_are_pyarrows_and_come_back(data: st.DataObject, kind: type) -> None:
    values = data.draw(npst.arrays(kind, st.integers(0, 20)))
    column = numbers_column(values)
    assert column.type == pa.array(values).type
    assert column.null_count == 0
    np.testing.assert_array_equal(numbers_of(column), values)
    start = len(values) // 2
    np.testing.assert_array_equal(numbers_of(column.slice(start)), values[start:])


def test_what_would_be_read_as_other_numbers_is_refused() -> None:
    for values in (np.arange(3, dtype=">i4"), np.zeros((2, 3), np.int32)):
        with pytest.raises(ValueError, match="in native order"):
            numbers_column(values)


def test_numbers_that_are_not_side_by_side_are_copied() -> None:
    values = np.arange(10, dtype=np.int32)[::3]
    assert numbers_column(values).to_pylist() == [0, 3, 6, 9]


@given(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5))))
def test_texts_are_pyarrows(values: list[str | None]) -> None:
    column = texts_column(values)
    column.validate(full=True)
    assert column.equals(pa.array(values, pa.string()))


def test_a_table_takes_arrays_lists_and_columns() -> None:
    table = table_of(
        {
            "number": np.array([1, 2], np.int32),
            "text": ["a", None],
            "nothing": [None, None],
            "count": [3, 4],
            "score": [0.5, None],
            "truth": np.array([True, False]),
            "same": constant_column("x", 2),
        }
    )
    types = [str(field.type) for field in table.schema]
    texts = "dictionary<values=string, indices=int8, ordered=0>"
    assert types == ["int32", "string", "string", "int64", "double", "bool", texts]
    assert list(table.to_pylist()[1].values()) == [2, None, None, 4, None, False, "x"]
    assert table_of({"none": []}).num_rows == 0


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
    record = encode_block(to_batch(rows, schema).slice(start, stop - start))
    back = decode_block(record, schema)
    for name, column in rows.slice(start, stop).columns().items():
        np.testing.assert_array_equal(getattr(back, name), column)
    whole = Rows.concatenate([rows] * (3 * 256 // count + 1))
    for first in (0, 256, 512):  # the bytes of a full block do not depend on its batch
        block = encode_block(to_batch(whole, schema).slice(first, 256))
        assert block == encode_block(to_batch(whole.slice(first, first + 256), schema))


def test_a_record_that_is_no_block_is_refused() -> None:
    with pytest.raises(CorruptDatasetError, match="Arrow"):
        decode_block(b"not arrow at all", block_schema(4))
    zeros = np.zeros(1, np.int32)
    rows = Rows(np.zeros((1, 9), np.uint8), np.zeros((1, 9), np.uint8), zeros, zeros, zeros, zeros)
    with pytest.raises(CorruptDatasetError, match="columns"):
        decode_block(encode_block(to_batch(rows, block_schema(9))), block_schema(4))


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_body_is_refused_before_it_takes_memory(codec: str) -> None:
    cells, numbers = np.zeros((200, 81), np.uint8), np.zeros(200, np.int32)
    rows, schema = Rows(cells, cells, numbers, numbers, numbers, numbers), block_schema(81)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(to_batch(rows, schema))
    before = pa.total_allocated_bytes()
    with pytest.raises(CorruptDatasetError, match="Arrow stream"):
        decode_block(sink.getvalue().to_pybytes(), schema)
    assert pa.total_allocated_bytes() == before


@pytest.mark.parametrize("cells", [1, 16, 36, 81, 900, 4096])
def test_full_blocks_are_copied_into_the_bytes_that_arrow_writes(cells: int) -> None:
    encoder, schema = BlockEncoder(cells), block_schema(cells)
    assert encoder._frame
    random = np.random.default_rng(cells)
    tokens = random.integers(0, 256, (2, 300, cells)).astype(np.uint8)
    numbers = random.integers(-(2**31), 2**31, (4, 300)).astype(np.int32)
    rows = Rows(*tokens, *numbers)
    for start, stop in ((0, 256), (44, 300), (0, 255), (7, 8)):
        part = rows.slice(start, stop)
        assert encoder.encode(part) == encode_block(to_batch(part, schema))


@pytest.mark.parametrize("cells", [1, 36, 81, 900, 4096])
def test_records_are_read_as_arrow_reads_them(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, schema = BlockDecoder(cells), block_schema(cells)
    random = np.random.default_rng(cells)
    tokens = random.integers(0, 256, (2, 300, cells)).astype(np.uint8)
    rows = Rows(*tokens, *random.integers(-(2**31), 2**31, (4, 300)).astype(np.int32))
    by_arrow: list[int] = []

    def decode(record: bytes, schema: object) -> Rows:
        read = decode_block(record, schema)  # type: ignore[arg-type]
        by_arrow.append(len(read))
        return read

    monkeypatch.setattr(encode, "decode_block", decode)
    for start, stop in ((44, 300), (0, 255), (7, 8)):
        record = encode_block(to_batch(rows.slice(start, stop), schema))
        read, expected = decoder.decode(record), decode_block(record, schema)
        for name, column in expected.columns().items():
            np.testing.assert_array_equal(getattr(read, name), column)
            assert not getattr(read, name).flags.writeable
    assert by_arrow == [255, 1]


def _outcome(decode: Callable[[bytes], Rows], record: bytes) -> dict[str, list[object]] | str:
    try:
        return {name: column.tolist() for name, column in decode(record).columns().items()}
    except CorruptDatasetError as error:
        return str(error)


def test_a_full_record_with_another_frame_is_read_by_arrow() -> None:
    decoder, schema = BlockDecoder(9), block_schema(9)
    cells, numbers = np.ones((256, 9), np.uint8), np.arange(256, dtype=np.int32)
    record = encode_block(to_batch(Rows(cells, cells, numbers, numbers, numbers, numbers), schema))
    random = np.random.default_rng(0)
    frame = len(record) - 256 * (2 * 9 + 4 * 4) - 8
    contents = [record, record[:-1], record + b"\0", b""]
    for place in [*random.integers(0, frame, 200), *range(len(record) - 8, len(record))]:
        changed = bytearray(record)
        changed[place] ^= 1 << int(random.integers(8))
        contents.append(bytes(changed))
    for content in contents:
        assert _outcome(decoder.decode, content) == _outcome(lambda each: decode_block(each, schema), content)


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
