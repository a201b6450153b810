"""Import and export: round trips give equal rows for every format and kind; mismatched folders are named."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.conftest import run_here
from tests.trm_data.loader.test_virtual import arc_request
from trm_data import export
from trm_data.building.flow import build_dataset
from trm_data.catalog.query import query_catalog
from trm_data.cli import main
from trm_data.errors import SourceError, SpecError
from trm_data.export import export_dataset
from trm_data.kinds.imported.options import imported_options
from trm_data.kinds.registry import load_kind, make_fields
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import Manifest, read_manifest
from trm_data.records import SourceFile
from trm_data.sources.base import SourceRef
from trm_data.specs import BuildRequest
from trm_data.storage.atomic import file_sha256
from trm_data.storage.root import Layout, resolve_root
from trm_data.verify.flow import verify_dataset

FIXTURES = Path(__file__).resolve().parents[3] / "shared" / "fixtures" / "published_layout"


@pytest.fixture
def layout(tmp_path) -> Layout:
    return resolve_root(tmp_path / "root")


def import_folder(folder: Path, layout: Layout, name: str) -> Manifest:
    request = BuildRequest(
        kind="finished",
        source=SourceRef("published", str(folder)),
        test_size=None,
        options=imported_options(folder),
        name=name,
    )
    return build_dataset(request, layout).manifest


@pytest.fixture
def published(tmp_path, layout: Layout) -> Path:
    """Write an ARC dataset in the published layout."""
    build_dataset(arc_request(tmp_path, name="arc"), layout)
    return export_dataset(layout, "arc", tmp_path / "published", "npy")[0].parents[0]


@pytest.mark.parametrize("form", ["npy", "parquet", "hf"])
@pytest.mark.parametrize("kind", ["sudoku", "arc", "virtual"])
def test_round_trips_are_equal(tmp_path, layout: Layout, request_small, form: str, kind: str) -> None:
    request = request_small(name="made") if kind == "sudoku" else arc_request(tmp_path, name="made")
    if kind == "virtual":
        request = dataclasses.replace(request, augment="virtual")
    build_dataset(request, layout)
    export_dataset(layout, "made", tmp_path / "out", form)
    imported = import_folder(tmp_path / "out", layout, "back")
    assert verify_dataset(layout, "back").problems == []
    for split in imported.splits:
        made, back = (open_dataset(name, layout.machine, split) for name in ("made", "back"))
        rows = np.arange(len(made))
        assert len(back) == len(made)
        for name, values in made.read(rows).items():
            np.testing.assert_array_equal(back.read(rows)[name], values)
        np.testing.assert_array_equal(made.groups.num_examples, back.groups.num_examples)
        np.testing.assert_array_equal(made.groups.num_augmentations, back.groups.num_augmentations)
    export_dataset(layout, "back", tmp_path / "again", form)
    again = import_folder(tmp_path / "again", layout, "twice")
    assert again.content_digest == imported.content_digest
    assert again.identifiers_digest == imported.identifiers_digest


@pytest.mark.parametrize("kind", ["sudoku", "arc"])
def test_the_published_layout_comes_back_file_by_file(tmp_path, layout: Layout, kind: str) -> None:
    if not FIXTURES.is_dir():
        pytest.skip(
            f"needs the published builders' outputs in ../shared/fixtures, and {FIXTURES} is not there"
        )
    import_folder(FIXTURES / kind, layout, "published")
    assert verify_dataset(layout, "published").problems == []
    export_dataset(layout, "published", tmp_path / "out", "npy")
    for path in sorted(FIXTURES.joinpath(kind).rglob("*.*")):
        ours = tmp_path / "out" / path.relative_to(FIXTURES / kind)
        if path.suffix == ".npy":
            np.testing.assert_array_equal(np.load(ours), np.load(path))
        else:
            assert json.loads(ours.read_text()) == json.loads(path.read_text())
    if kind == "arc":
        names = query_catalog(
            layout,
            "SELECT name FROM identifiers JOIN augmentations USING (dataset, identifier) "
            "WHERE split = 'train' AND group_index = 0 ORDER BY augmentation",
        ).rows
        assert names[0] == ("6150a2bd",)
        assert names[1] == ("6150a2bd|||t4|||0614732958",)


def replace_array(folder: Path, name: str, change) -> None:
    path = folder / "train" / f"all__{name}.npy"
    np.save(path, change(np.load(path)), allow_pickle=True)


def set_at(values: np.ndarray, place, value) -> np.ndarray:
    values = values.copy()
    values[place] = value
    return values


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("inputs", lambda a: a[:-1], r"inputs \(\d+, 900\) and labels"),
        ("inputs", lambda a: a.astype(np.float32), "has type float32; expected integers"),
        ("inputs", lambda a: a.astype(object), "without pickle"),
        ("inputs", lambda a: set_at(a, (0, 0), 12), "has values 0 to 12; expected 0 to 11"),
        ("puzzle_indices", lambda a: set_at(a, 0, 1), "goes from 1 to"),
        ("puzzle_indices", lambda a: set_at(a, 2, 0), "must rise"),
        ("group_indices", lambda a: set_at(a, -1, a[-1] + 1), "the number of puzzles"),
        ("puzzle_identifiers", lambda a: a[:-1], "puzzle identifiers for"),
        ("puzzle_identifiers", lambda a: set_at(a, 0, 10**6), "all__puzzle_identifiers.npy: has values"),
    ],
)
def test_arrays_that_do_not_fit(published: Path, name: str, change, message: str) -> None:
    replace_array(published, name, change)
    with pytest.raises(SourceError, match=message):
        imported_options(published)


def test_puzzles_of_a_group_with_other_numbers_of_rows(published: Path) -> None:
    path = published / "train" / "all__puzzle_indices.npy"
    bounds = np.load(path)
    bounds[1] += 1
    np.save(path, bounds)
    with pytest.raises(SourceError, match="the augmentations of a group must have equally many"):
        imported_options(published)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train/dataset.json", "{", "cannot be read as JSON"),
        ("train/dataset.json", '{"sets": ["a", "b"]}', "only \\['all'\\]"),
        ("train/dataset.json", '{"sets": ["all"], "seq_len": true}', "seq_len is True"),
        ("identifiers.json", '["<blank>"]', "has 1 entries, expected"),
        ("test_puzzles.json", '{"\\ud800": 1}', "lone surrogate"),
        (
            "train/dataset.json",
            '{"sets": ["all"], "seq_len": 900, "vocab_size": 12, "num_puzzle_identifiers": 1000000000000}',
            "num_puzzle_identifiers",
        ),
        ("train/all__inputs.npy", "nothing", "without pickle"),
    ],
)
def test_files_that_do_not_fit(published: Path, file: str, content: str, message: str) -> None:
    (published / file).write_text(content)
    with pytest.raises(SourceError, match=message):
        imported_options(published)


def test_an_export_that_names_more_identifiers_or_tokens_than_can_be(
    tmp_path: Path, layout: Layout, request_small
) -> None:
    build_dataset(request_small(name="made"), layout)
    out = tmp_path / "out"
    export_dataset(layout, "made", out, "parquet")
    facts = json.loads((out / "export.json").read_text())
    for name, message in (
        ("num_identifiers", "num_puzzle_identifiers 1000000000000"),
        ("vocabulary_size", "vocab_size 1000000000000"),
    ):
        (out / "export.json").write_text(json.dumps(facts | {name: 10**12}))
        with pytest.raises(SourceError, match=message):
            imported_options(out)


def test_parquet_that_holds_far_more_than_its_bytes_is_not_read(
    tmp_path: Path, layout: Layout, request_small, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_dataset(request_small(name="made"), layout)
    out = tmp_path / "out"
    export_dataset(layout, "made", out, "parquet")
    path = next(out.glob("train-*.parquet"))
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(0, 1)] * 20_000).combine_chunks(), path, compression="zstd")
    monkeypatch.setattr("trm_data.sources.unpack.ALWAYS_READ", 1 << 10)
    monkeypatch.setattr(pq, "read_table", None)
    with pytest.raises(SourceError, match="decompresses to more than"):
        imported_options(out)
    one = table.slice(0, 1)
    long = pa.array([[1] * 1_000_000], pa.list_(pa.uint8()))  # one row, but far more cells than it says
    pq.write_table(
        one.set_column(one.schema.get_field_index("inputs"), "inputs", long), path, compression="zstd"
    )
    with pytest.raises(SourceError, match="decompresses to more than"):
        imported_options(out)


def test_a_missing_array_and_an_empty_folder(published: Path, tmp_path) -> None:
    (published / "train" / "all__labels.npy").unlink()
    with pytest.raises(SourceError, match=r"all__labels\.npy: no such file"):
        imported_options(published)
    with pytest.raises(SourceError, match="no such folder"):
        imported_options(tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"has neither train/dataset\.json"):
        imported_options(tmp_path / "empty")


def test_an_export_never_overwrites(layout: Layout, request_small, tmp_path) -> None:
    build_dataset(request_small(), layout)
    (tmp_path / "out").mkdir()
    with pytest.raises(SpecError, match="already exists"):
        export_dataset(layout, "small", tmp_path / "out", "npy")
    assert not list((tmp_path / "out").iterdir())


def test_imported_rows_cannot_be_augmented(published: Path, layout: Layout) -> None:
    request = BuildRequest(
        kind="finished",
        source=SourceRef("published", str(published)),
        aug=3,
        options=imported_options(published),
        name="x",
    )
    with pytest.raises(SpecError, match="cannot be augmented"):
        build_dataset(request, layout)
    shutil.rmtree(published)


FACTS = "SELECT dataset, split, group_index, rating, clues, path_length, walls FROM puzzles ORDER BY ALL"


def maze_request() -> BuildRequest:
    fields = make_fields(
        "maze",
        {"grid": "7x9", "min_path": 4, "size": 6, "aug": 3, "val_size": 0, "test_size": 4, "name": "made"},
    )
    return fields.request()


@pytest.mark.parametrize("form", ["npy", "parquet"])
@pytest.mark.parametrize("kind", ["sudoku", "maze", "arc"])
def test_an_import_has_the_rules_of_its_kind(
    tmp_path: Path, layout: Layout, request_small, kind: str, form: str
) -> None:
    request = {
        "sudoku": lambda: request_small(name="made"),
        "maze": maze_request,
        "arc": lambda: arc_request(tmp_path, name="made"),
    }[kind]()
    build_dataset(request, layout)
    export_dataset(layout, "made", tmp_path / "out", form)
    given: list[str] = []
    for name in ("stated", "asked"):  # kind stated by export.json, or given on the command line
        done = run_here(
            main, "import", str(tmp_path / "out"), "--name", name, *given, "--root", str(layout.place)
        )
        assert done.returncode == 0, done.stderr
        given = ["--kind", kind]
        if form == "npy" and kind != "maze":  # a grid that is not square
            (tmp_path / "out" / "export.json").unlink(missing_ok=True)
    made = open_dataset("made", layout.machine, "train")
    for name in ("stated", "asked"):
        assert verify_dataset(layout, name).problems == []
        back = open_dataset(name, layout.machine, "train")
        assert str(back.puzzle(0)) == str(made.puzzle(0))
        found = {
            of: query_catalog(layout, f"SELECT * FROM ({FACTS}) WHERE dataset = '{of}'").rows
            for of in ("made", name)
        }
        assert [row[1:] for row in found["made"]] == [row[1:] for row in found[name]]
    kind_of = load_kind("finished")
    spec, rows = read_manifest(layout, "asked").spec, made.read(np.arange(len(made)))
    expected = load_kind(kind).score(
        read_manifest(layout, "made").spec, rows["inputs"], rows["labels"], rows["labels"]
    )
    assert str(kind_of.score(spec, rows["inputs"], rows["labels"], rows["labels"])) == str(expected)


def test_an_import_that_breaks_the_rules_of_its_kind(
    tmp_path: Path, layout: Layout, request_small, published: Path
) -> None:
    build_dataset(request_small(name="made"), layout)
    out = tmp_path / "out"
    export_dataset(layout, "made", out, "npy")
    labels = out / "test" / "all__labels.npy"
    np.save(labels, set_at(np.load(labels), (0, 0), np.load(labels)[0, 1]))
    facts = json.loads((out / "export.json").read_text())
    facts["files"]["test/all__labels.npy"] = file_sha256(labels)  # as if it had been exported this way
    (out / "export.json").write_text(json.dumps(facts))
    root = ("--root", str(layout.place))
    refused = run_here(main, "import", str(out), *root)
    assert refused.returncode == 2
    assert "test group 0: its label is not the puzzle's only solution (--kind rows imports" in refused.stderr
    assert run_here(main, "import", str(out), "--kind", "rows", *root).returncode == 0
    for kind, message in (
        ("sudoko", "no kind 'sudoko'; did you mean 'sudoku'?"),
        ("table", "its options do not follow from the rows' shape; expected arc, maze, sudoku"),
        ("finished", "expected a kind, or 'rows'"),
        ("sudoku", "rows are squares of side 4, 6, 8, 9, 10, 12, 15, 16, these are 30x30"),
        ("maze", "its rows are 30x30 with 6 tokens, these are 30x30 with 12 tokens"),
    ):
        refused = run_here(main, "import", str(published), "--kind", kind, "--name", "x", *root)
        assert refused.returncode == 2
        assert message in refused.stderr


def exported_sudoku(layout: Layout, request: BuildRequest, folder: Path) -> Path:
    build_dataset(request, layout)
    return export_dataset(layout, request.name or "", folder, "npy")[0].parents[0]


@pytest.mark.parametrize(
    ("array", "problem"), [("labels", "only solution"), ("both", "image of its original")]
)
def test_every_augmentation_of_an_import_is_checked(
    layout: Layout, request_small, tmp_path: Path, array: str, problem: str
) -> None:
    """Group 2, augmentation 5 has a label with two digits exchanged, or is another puzzle with its own label."""
    folder = exported_sudoku(layout, request_small(), tmp_path / "out")
    row = 2 * 10 + 5
    for name in ("labels",) if array == "labels" else ("inputs", "labels"):
        path = folder / "train" / f"all__{name}.npy"
        rows = np.load(path)
        rows[row] = rows[100] if array == "both" else np.where(rows[row] < 4, 5 - rows[row], rows[row])
        np.save(path, rows)
    options = imported_options(folder, "sudoku")
    request = BuildRequest(
        kind="finished",
        source=SourceRef("published", str(folder)),
        test_size=None,
        name="back",
        options=options,
    )
    with pytest.raises(SpecError, match=f"train group 2, augmentation 5: .*{problem}"):
        build_dataset(request, layout)


def test_an_import_whose_splits_share_puzzles_says_so(layout: Layout, request_small, tmp_path: Path) -> None:
    folder = exported_sudoku(layout, request_small(), tmp_path / "out")
    for name in ("inputs", "labels"):
        train, test = (np.load(folder / split / f"all__{name}.npy") for split in ("train", "test"))
        test[3] = train[47]  # an augmentation of group 4
        np.save(folder / "test" / f"all__{name}.npy", test)
    options = imported_options(folder, "sudoku")
    request = BuildRequest(
        kind="finished",
        source=SourceRef("published", str(folder)),
        test_size=None,
        name="back",
        options=options,
    )
    result = build_dataset(request, layout)
    assert [("test group 3" in text, "train group 4" in text) for text in result.warnings] == [(True, True)]
    plain = dataclasses.replace(request, name="plain", options=imported_options(folder, "rows"))
    (text,) = build_dataset(plain, layout).warnings
    assert "train row 47 and test row 3" in text


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("sudoku", {"box_rows": "2", "box_columns": None}),
        ("sudoku", {"box_rows": 2, "box_columns": 3, "rating_bins": ["x"]}),
        ("sudoku", {"box_rows": 7, "box_columns": 3}),
        ("finished", {"of": "sudoku", "of_options": "[" * 100_000}),
        ("finished", {"of": "sudoku", "of_options": "[1]"}),
    ],
)
def test_an_edited_export_is_data(
    tmp_path: Path, layout: Layout, request_small, kind: str, options: dict
) -> None:
    build_dataset(request_small(name="made"), layout)
    out = tmp_path / "out"
    export_dataset(layout, "made", out, "npy")
    facts = json.loads((out / "export.json").read_text())
    facts["spec"] |= {"kind": kind, "options": options}
    (out / "export.json").write_text(json.dumps(facts))
    refused = run_here(main, "import", str(out), "--name", "x", "--root", str(layout.place))
    assert (refused.returncode, refused.stdout) == (2, ""), refused.stderr
    assert "Traceback" not in refused.stderr
    assert (
        run_here(main, "import", str(out), "--kind", "rows", "--name", "x", "--root", layout.place).returncode
        == 0
    )


@pytest.mark.parametrize("form", ["npy", "hf"])
def test_a_changed_file_of_an_exported_folder_is_not_imported(
    tmp_path: Path, layout: Layout, request_small, form: str
) -> None:
    build_dataset(request_small(name="made"), layout)
    out = tmp_path / "out"
    export_dataset(layout, "made", out, form)
    victim = next(path for path in sorted(out.rglob("*")) if path.suffix in (".npy", ".parquet"))
    before = victim.read_bytes()
    victim.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    imported = run_here(main, "import", str(out), "--name", "damaged", "--root", str(layout.place))
    assert imported.returncode == 2
    assert f"{victim}: has other bytes than were exported" in imported.stderr
    assert "damaged" not in layout.dataset_names()


def test_the_card_for_the_hub_says_licence_tags_size_and_how_to_load(
    tmp_path: Path, layout: Layout, request_small
) -> None:
    build_dataset(request_small(name="made"), layout)
    export_dataset(layout, "made", tmp_path / "out", "hf")
    card = (tmp_path / "out" / "README.md").read_text()
    front = yaml.safe_load(card.split("---")[1])
    assert front["license"] == "apache-2.0"
    assert front["tags"] == ["sudoku", "puzzles", "tiny-recursive-model"]
    assert [each["split"] for each in front["configs"][0]["data_files"]] == ["train", "validation", "test"]
    for each in front["configs"][0]["data_files"]:  # the files that the hub would load
        files = sorted((tmp_path / "out").glob(each["path"]))
        assert (
            sum(pq.read_metadata(file).num_rows for file in files)
            == {
                "train": 240,
                "validation": 8,
                "test": 12,
            }[each["split"]]
        )
    assert 'load_dataset("OWNER/made", split="train")' in card
    assert "trm-data import DIR" in card

    (tmp_path / "rows.csv").write_text("source,question,answer,rating\n" + rows_of(layout))
    source = SourceRef("csv", str(tmp_path / "rows.csv"))
    build_dataset(request_small(name="own", source=source, val_size=0, test_size=0, size=4), layout)
    export_dataset(layout, "own", tmp_path / "own", "hf")
    card = (tmp_path / "own" / "README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["license"] == "unknown"
    assert "| rows.csv | 8 | not stated |" in card  # not as generated puzzles


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (("CC-BY-4.0",), "cc-by-4.0"),
        (("Apache-2.0", "MIT"), "other"),
        (("free for all",), "other"),
        ((), "apache-2.0"),
    ],
)
def test_the_licence_for_the_hub_is_that_of_the_sources(
    small_layout: Layout, stated: tuple[str, ...], said: str
) -> None:
    sources = [SourceFile(f"{number}.csv", "0" * 64, 1, licence) for number, licence in enumerate(stated)]
    card = export._hub_card(read_manifest(small_layout, "small"), sources)
    assert yaml.safe_load(card.split("---")[1])["license"] == said
    for licence in filter(None, stated):
        assert f"| {licence} |" in card


def rows_of(layout: Layout) -> str:
    """Return eight puzzles of the dataset `made` as lines of CSV."""
    dataset = open_dataset("made", layout, "test")
    rows = dataset.read(np.arange(8))

    def text(tokens: np.ndarray) -> str:
        return "".join("." if token == 1 else str(token - 1) for token in tokens)

    return "".join(
        f"here,{text(given)},{text(solved)},0\n"
        for given, solved in zip(rows["inputs"], rows["labels"], strict=True)
    )
