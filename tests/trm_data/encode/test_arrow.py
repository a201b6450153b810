"""Arrow columns equal those of pyarrow for the same values, without pyarrow's extra imports."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from trm_data import encode
from trm_data.encode import constant_column, numbers_column, numbers_of, table_of, texts_column

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


def test_many_texts_are_given_to_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    values = ["a", None, "bc"]
    monkeypatch.setattr(encode, "FEW", 2)
    assert texts_column(values).equals(pa.array(values, pa.string()))


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
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {
        "number": "int32",
        "text": "string",
        "nothing": "string",
        "count": "int64",
        "score": "double",
        "truth": "bool",
        "same": "dictionary<values=string, indices=int8, ordered=0>",
    }
    assert table.to_pylist()[1] == {
        "number": 2,
        "text": None,
        "nothing": None,
        "count": 4,
        "score": None,
        "truth": False,
        "same": "x",
    }
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


@pytest.mark.parametrize("kind", ["sudoku", "maze", "arc"])
@pytest.mark.integration
def test_workers_get_ready_without_blas_and_c(kind: str) -> None:
    def loaded(module: str) -> list[Any]:
        names = "('scipy.linalg', 'cffi')"
        program = f"import sys, {module} as warm; warm.warm(); print([name for name in {names} if name in sys.modules])"
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return ast.literal_eval(found.stdout)

    assert loaded(f"trm_data.kinds.{kind}.warm") == []
