"""Users' own tables: three formats give the same dataset; bad rows and files are named; nothing is unpickled."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trm_data.building.flow import build_dataset
from trm_data.errors import BadRowError, DataError, SourceError, SpecError
from trm_data.kinds.table.options import BuildTable
from trm_data.loader.dataset import open_dataset
from trm_data.storage.root import Layout, resolve_root
from trm_data.verify.flow import verify_dataset

GRIDS = np.random.default_rng(0).integers(1, 5, (30, 3, 4))


@pytest.fixture
def layout(tmp_path) -> Layout:
    return resolve_root(tmp_path / "root")


def write(path, inputs, labels) -> str:
    """Write the same table in the format of the file extension."""
    if path.suffix == ".npz":
        np.savez(path, inputs=inputs, labels=labels)
    elif path.suffix == ".npy":
        np.save(path, np.stack([inputs, labels], axis=1))
    elif path.name.endswith("json.csv"):
        with path.open("w", newline="") as file:
            lines = zip(inputs.tolist(), labels.tolist(), strict=True)
            csv.writer(file).writerows([["inputs", "labels"], *lines])  # a list in Python syntax is also JSON
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"inputs": inputs.tolist(), "labels": labels.tolist()}), path)
    else:
        rows = [
            " ".join(map(str, left.ravel())) + "," + " ".join(map(str, right.ravel()))
            for left, right in zip(inputs, labels, strict=True)
        ]
        path.write_text("\n".join(["inputs,labels", *rows]) + "\n")
    return str(path)


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".parquet", ".csv", "-json.csv"])
def test_every_format_gives_the_same_dataset(tmp_path, layout: Layout, suffix: str) -> None:
    train = write(tmp_path / f"train{suffix}", GRIDS[:20], GRIDS[:20, ::-1])
    test = write(tmp_path / f"test{suffix}", GRIDS[20:], GRIDS[20:, ::-1])
    command = BuildTable(train=train, test=test, name="own", grid="3x4")
    manifest = build_dataset(command.request(), layout).manifest
    assert (manifest.grid_rows, manifest.grid_columns, manifest.vocabulary_size) == (3, 4, 5)
    assert {split: entry.num_examples for split, entry in manifest.splits.items()} == {
        "train": 20,
        "test": 10,
    }
    assert verify_dataset(layout, "own").problems == []
    test_rows = open_dataset("own", layout.machine, "test").read(np.arange(10))
    found = {row.tobytes() for row in test_rows["inputs"]}
    assert found == {grid.astype(np.uint8).tobytes() for grid in GRIDS[20:]}


@pytest.mark.parametrize("shape", [(3, 2), (3, 4), (3, 3, 2, 2)])
def test_an_npy_file_of_another_shape(tmp_path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "t.npy", np.ones(shape, int))
    with pytest.raises(SourceError, match=r"t\.npy: has shape .*; expected \[N, 2, R, C\]"):
        BuildTable(train=str(tmp_path / "t.npy")).request()


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("[1, 2.5]", "inputs: a cell is not a number"),
        ("[[1], 2]", "expected a list of integers"),
        ("[1", "is not JSON"),
        ("[" * 20_000, "is not JSON"),
    ],
)
def test_cells_that_are_no_list_of_numbers(tmp_path, cell: str, message: str) -> None:
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["inputs", "labels"], [cell, "[1, 2]"]])
    with pytest.raises(SourceError, match=message):
        BuildTable(train=str(tmp_path / "t.csv")).request()


def test_symmetric_images_are_augmentations_and_stay_in_one_split(tmp_path, layout: Layout) -> None:
    flipped = np.concatenate([GRIDS[:10], GRIDS[:2, ::-1]])
    train = write(tmp_path / "t.npz", flipped, flipped)
    command = BuildTable(train=train, dihedral=True, aug=3, test_size=4, name="own", on_bad_row="skip")
    result = build_dataset(command.request(), layout)
    assert result.rejects == 2
    assert result.manifest.splits["train"].num_puzzles == 4 * 6
    assert verify_dataset(layout, "own").problems == []


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        (np.full((2, 2, 2), 300), np.ones((2, 2, 2), int), "value 300 at cell 1; expected 0 to 255"),
        (np.arange(8).reshape(2, 2, 2) - 1, np.ones((2, 2, 2), int), "value -1 at cell 1"),
        (np.arange(8).reshape(2, 2, 2), np.zeros((2, 2, 2), int), "labels: has only PAD"),
        (np.ones((2, 2, 2), int), np.ones((2, 2, 2), int), "the same input as row 1"),
    ],
)
def test_bad_rows(tmp_path, layout: Layout, inputs, labels, message: str) -> None:
    train = write(tmp_path / "t.npz", inputs, labels)
    with pytest.raises((BadRowError, SpecError), match=message):
        build_dataset(BuildTable(train=train, vocabulary=9, grid="2x2").request(), layout)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"inputs": np.ones((2, 4), int)}, "has no array 'labels'"),
        ({"inputs": np.ones((2, 4)), "labels": np.ones((2, 4))}, "has type float64"),
        ({"inputs": np.ones((2, 4), int), "labels": np.ones((2, 5), int)}, r"has shape \(2, 5\)"),
        ({"inputs": np.array([{}, {}], object), "labels": np.ones((2, 4), int)}, "without pickle"),
    ],
)
def test_arrays_that_are_no_table(tmp_path, arrays: dict, message: str) -> None:
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(SourceError, match=message):
        BuildTable(train=str(tmp_path / "t.npz")).request()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "inputs\n1 2\n", "t.csv:1: has no column 'labels'"),
        ("t.csv", "inputs,labels\n", "has no rows"),
        ("t.csv", "inputs,labels\n1 x,1 2\n", "has no rows|not a number"),
        ("t.parquet", "no parquet", "is not a Parquet file"),
        ("t.npz", "no zip", "is not an npz file"),
        ("t.json", json.dumps({}), "expected .parquet, .csv, .npz or .npy"),
    ],
)
def test_files_that_are_no_table(tmp_path, layout: Layout, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        build_dataset(BuildTable(train=str(tmp_path / name)).request(), layout)


def test_columns_of_other_names_make_the_same_rows(tmp_path, layout: Layout) -> None:
    lists = {"question": GRIDS.tolist(), "answer": GRIDS[::-1].tolist()}
    pq.write_table(pa.table(lists), tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", question=GRIDS, answer=GRIDS[::-1])
    lines = [f'"{one}","{other}"' for one, other in zip(lists["question"], lists["answer"], strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["question,answer", *lines]))
    np.savez(tmp_path / "plain.npz", inputs=GRIDS, labels=GRIDS[::-1])
    wanted = build_dataset(
        BuildTable(train=str(tmp_path / "plain.npz"), name="plain").request(), layout
    ).manifest
    for name in ("t.parquet", "t.npz", "t.csv"):
        fields = BuildTable(
            train=str(tmp_path / name), name=name[2:], columns="inputs=question,labels=answer"
        )
        built = build_dataset(fields.request(), layout).manifest
        assert built.content_digest == wanted.content_digest
        assert built.spec.source.columns == "inputs=question,labels=answer"
        with pytest.raises(SourceError, match=r"has no (column|array) 'inputs'.*found question, answer"):
            BuildTable(train=str(tmp_path / name)).request()
    with pytest.raises(
        SpecError, match=r"--columns question=inputs: one or several of inputs=NAME, labels=NAME"
    ):
        BuildTable(train=str(tmp_path / "t.csv"), columns="question=inputs").request()
    np.save(tmp_path / "t.npy", np.stack([GRIDS, GRIDS], axis=1))
    with pytest.raises(SourceError, match=r"an \.npy file has no names"):
        BuildTable(train=str(tmp_path / "t.npy"), columns="inputs=a").request()


@pytest.mark.parametrize("between", [",", ";", "\t", "|"])
def test_columns_of_a_csv_are_separated_as_spreadsheets_do(tmp_path, layout: Layout, between: str) -> None:
    rows = [("inputs", "note", "labels"), ("1 2", "a, b", "2 1"), ("[2, 1]", "c", "[1, 2]")]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=between).writerows(rows)
    built = build_dataset(BuildTable(train=str(tmp_path / "t.csv")).request(), layout).manifest
    assert (built.splits["train"].num_examples, built.sequence_length) == (2, 2)


def test_a_row_of_more_fields_than_the_header_is_no_row(tmp_path, layout: Layout) -> None:
    (tmp_path / "t.csv").write_text("inputs,labels\n1 2,2 1\n[3, 4],[4, 3]\n")
    with pytest.raises(
        BadRowError, match=r"t\.csv:3: has 4 fields, its header 2; a cell with ',' in it needs quotes"
    ):
        build_dataset(BuildTable(train=str(tmp_path / "t.csv")).request(), layout)


def test_lines_of_a_csv_are_named(tmp_path, layout: Layout) -> None:
    (tmp_path / "t.csv").write_text("inputs,labels\n1 2,2 1\n1 2 3,1 2 3\n")
    with pytest.raises(BadRowError, match=r"t\.csv:3: inputs: has shape \(3,\), the first row \(2,\)"):
        build_dataset(BuildTable(train=str(tmp_path / "t.csv")).request(), layout)


def test_augmentations_need_the_symmetries(tmp_path, layout: Layout) -> None:
    train = write(tmp_path / "t.npz", GRIDS, GRIDS)
    with pytest.raises(SpecError, match="--aug 3: a table without --dihedral has 0"):
        build_dataset(BuildTable(train=train, aug=3).request(), layout)


def test_a_file_is_read_to_its_end_however_many_rows_are_equivalent(
    tmp_path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of misses is only for generators, which have no end."""
    monkeypatch.setattr("trm_data.kinds.choosing.MISSES_ALLOWED", 1)
    monkeypatch.setattr("trm_data.kinds.choosing.MOST_ASKED", 1)
    images = np.concatenate([GRIDS[:8], GRIDS[:8, ::-1], GRIDS[:8, :, ::-1], GRIDS[:8, ::-1, ::-1]])
    train = write(tmp_path / "t.npz", images, images)
    command = BuildTable(train=train, dihedral=True, name="own", on_bad_row="skip")
    assert build_dataset(command.request(), layout).manifest.splits["train"].num_groups == 8


def test_labels_that_are_not_learned_are_said(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    BuildTable(train=write(tmp_path / "a.npz", GRIDS, GRIDS % 2), name="own").request()
    share = 100 * (GRIDS % 2 == 0).mean()
    assert (
        f"a.npz: {share:.0f}% of the cells of its labels are 0 (PAD): neither learned nor scored"
        in caplog.text
    )
    assert "nothing is held out; --val-size N and --test-size N keep" in caplog.text
    caplog.clear()
    BuildTable(train=str(tmp_path / "a.npz"), name="own", test_size=2).request()
    BuildTable(
        train=write(tmp_path / "b.npz", GRIDS, GRIDS), name="own", test=str(tmp_path / "a.npz")
    ).request()
    assert "held out" not in caplog.text
    assert "b.npz" not in caplog.text
