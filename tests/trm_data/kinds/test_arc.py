"""ARC datasets: splits, identifiers, the catalog's symmetries, nested subsets, leaks, tasks without solutions."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import error_of, run_here
from trm_data.building.flow import build_dataset
from trm_data.catalog.query import query_catalog
from trm_data.cli import main
from trm_data.errors import SourceError, SpecError
from trm_data.kinds.arc.encode import decode_row, encode_pair
from trm_data.kinds.arc.kind import ArcKind
from trm_data.kinds.arc.options import ArcOptions
from trm_data.kinds.arc.symmetry import ArcSymmetry
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import read_manifest
from trm_data.sources.base import parse_source
from trm_data.specs import BuildRequest, DatasetSpec, SourceSpec
from trm_data.storage.root import Layout, resolve_root
from trm_data.verify.flow import verify_dataset


def grid(seed: int, rows: int, columns: int) -> list[list[int]]:
    """Return a random grid of all colours."""
    return np.random.default_rng(seed).integers(0, 10, (rows, columns)).tolist()


def task(seed: int, *, solved: bool = True) -> dict:
    pairs = [{"input": grid(seed + i, 3 + i, 4), "output": grid(seed + 50 + i, 2, 5 + i)} for i in range(3)]
    test = [{"input": grid(seed + 20 + i, 5, 3)} for i in range(2)]
    for i, pair in enumerate(test if solved else []):
        pair["output"] = grid(seed + 90 + i, 4, 4)
    return {"train": pairs, "test": test}


@pytest.fixture
def folder(tmp_path):
    """6 training and 4 evaluation tasks, one file each."""
    for subset, seeds in (("training", range(6)), ("evaluation", range(10, 14))):
        (tmp_path / "arc" / subset).mkdir(parents=True)
        for seed in seeds:
            write(tmp_path / "arc" / subset / f"task{seed:02}.json", task(100 * seed))
    return tmp_path / "arc"


def write(path, value) -> None:
    path.write_text(json.dumps(value))


@pytest.fixture
def layout(tmp_path) -> Layout:
    return resolve_root(tmp_path / "root")


def request(folder, **changes) -> BuildRequest:
    options = ArcOptions(subsets=("training", "evaluation"), **changes.pop("options", {}))
    fields = {"aug": 6, "seed": 1, "name": "arc", **changes}
    source = parse_source(f"repo:{folder}", allowed=("repo",))
    return BuildRequest(kind="arc", source=source, test_size=None, options=options, **fields)


@pytest.mark.integration
def test_splits_and_identifiers(folder, layout: Layout) -> None:
    manifest = build_dataset(request(folder), layout).manifest
    train, test = manifest.splits["train"], manifest.splits["test"]
    assert (train.num_groups, train.num_puzzles, train.num_examples) == (10, 70, 7 * (6 * 5 + 4 * 3))
    assert (test.num_groups, test.num_puzzles, test.num_examples) == (4, 28, 7 * 4 * 2)
    assert manifest.num_identifiers == 71
    rows = np.arange(train.num_examples)
    identifiers = open_dataset("arc", layout.machine).read(rows)["puzzle_identifiers"]
    assert sorted(set(identifiers.tolist())) == list(range(1, 71))
    evaluated = query_catalog(
        layout,
        "SELECT task, augmentation, identifier, count(DISTINCT element) FROM augmentations "
        "JOIN puzzles USING (dataset, split, group_index) GROUP BY ALL HAVING count(*) = 2",
    ).rows
    assert len(evaluated) == 28  # an evaluation task has the same identifiers and symmetries in both splits
    assert {row[3] for row in evaluated} == {1}
    assert verify_dataset(layout, "arc").problems == []


def test_the_catalog_undoes_every_row(folder, layout: Layout) -> None:
    """Cropping by the offsets and undoing dihedral and colours gives the original grids."""
    build_dataset(request(folder), layout)
    for split in ("train", "test"):
        dataset = open_dataset("arc", layout.machine, split)
        batch = dataset.read(np.arange(len(dataset)))
        found = query_catalog(
            layout,
            "SELECT task, example, dihedral, colours, row_offset, column_offset, element FROM examples "
            "JOIN augmentations USING (dataset, split, group_index, augmentation) "
            "JOIN puzzles USING (dataset, split, group_index) "
            f"WHERE split = '{split}' ORDER BY group_index, augmentation, example",
        ).rows
        assert len(found) == len(dataset)
        moved = 0
        for row, (name, example, dihedral, colours, row_offset, column_offset, element) in enumerate(found):
            symmetry = ArcSymmetry(dihedral, tuple(map(int, colours)))
            assert ArcSymmetry.from_index(element) == symmetry
            original = task(100 * int(name.removeprefix("task")))
            training = int(name.removeprefix("task")) < 10
            pairs = original["train"] + original["test"] if training else original[split]
            for column, key in (("inputs", "input"), ("labels", "output")):
                image = decode_row(batch[column][row].astype(np.uint8), row_offset, column_offset)
                assert symmetry.inverse().apply(image).tolist() == pairs[example][key]
            moved += bool(row_offset or column_offset)
        assert (moved > len(found) / 2) == (split == "train")
        assert not moved or split == "train"


def test_one_example_of_every_augmentation_stays_where_it_is(folder, layout: Layout) -> None:
    build_dataset(request(folder), layout)
    found = query_catalog(
        layout,
        "SELECT min(row_offset + column_offset) FROM examples WHERE split = 'train' "
        "GROUP BY group_index, augmentation",
    ).rows
    assert {row[0] for row in found} == {0}


def test_smaller_sets_and_fewer_augmentations_are_the_beginning(folder, layout: Layout) -> None:
    build_dataset(request(folder, name="all", aug=20), layout)
    build_dataset(request(folder, name="part", aug=3, size=4), layout)
    query = (
        "SELECT task, augmentation, dihedral, colours FROM augmentations JOIN puzzles USING "
        "(dataset, split, group_index) WHERE split = 'train' AND dataset = '{}' ORDER BY group_index, augmentation"
    )
    part = query_catalog(layout, query.format("part")).rows
    everything = query_catalog(layout, query.format("all")).rows
    names = list(dict.fromkeys(row[0] for row in everything))
    assert list(dict.fromkeys(row[0] for row in part)) == names[:4]
    assert part == [row for row in everything if row[0] in names[:4] and row[1] <= 3]


def test_a_name_says_which_subset_is_tested_on_where_it_is_not_the_published_one(folder) -> None:
    assert request(folder, name=None, seed=0).names() == ("arc1-aug-6",)
    other = request(folder, name=None, seed=0, options={"evaluation": "training"})
    assert other.names() == ("arc1-aug-6-evaluation-training", "arc1-aug-6")


def test_leaks_between_the_versions_are_refused(folder, layout: Layout) -> None:
    options = ArcOptions(version=2, subsets=("training2", "evaluation", "concept"), evaluation="evaluation")
    spec = DatasetSpec(kind="arc", source=SourceSpec(kind="repo"), options=options)
    with pytest.raises(SpecError, match="376 of the 400 ARC-1 evaluation tasks"):
        ArcKind().check_spec(spec)
    options = dataclasses.replace(options, subsets=("evaluation", "evaluation2"), evaluation="evaluation2")
    with pytest.raises(SpecError, match="6 tasks of evaluation2"):
        ArcKind().check_spec(dataclasses.replace(spec, options=options))
    options = dataclasses.replace(options, subsets=("training",), evaluation="evaluation")
    with pytest.raises(SpecError, match="must have evaluation"):
        ArcKind().check_spec(dataclasses.replace(spec, options=options))


def test_any_subset_can_be_the_test_split(tmp_path, layout: Layout) -> None:
    (tmp_path / "given").mkdir()
    tasks = {f"task{seed}": task(100 * seed, solved=seed == 1) for seed in range(3)}
    write(tmp_path / "given" / "arc-agi_test_challenges.json", tasks)
    words = ["--subsets", "test", "--evaluation", "test", "--source", f"kaggle:{tmp_path / 'given'}"]
    done = run_here(main, "build", "arc", *words, "--name", "given", "--quiet", "--root", layout.place)
    assert done.returncode == 0, done.stderr
    manifest = read_manifest(layout, "given")
    assert {split: entry.num_groups for split, entry in manifest.splits.items()} == {"train": 3, "test": 3}
    command = manifest.spec.options.build_command("given", manifest.spec)
    assert "--subsets test --evaluation test" in command
    plain = dataclasses.replace(manifest.spec.options, subsets=("evaluation",), evaluation="evaluation")
    assert "--evaluation" not in plain.build_command("given", manifest.spec)


def test_a_leak_that_is_not_known_fails_the_check(folder, layout: Layout) -> None:
    """A training task has the test pair of an evaluation task, recoloured and rotated."""
    leaked = task(1000)["test"][0]
    cycled = np.array([0, 2, 3, 4, 5, 6, 7, 8, 9, 1])
    turned = {key: np.rot90(cycled[np.array(value)]).tolist() for key, value in leaked.items()}
    other = task(300)
    other["train"][1] = turned
    write(folder / "training" / "task03.json", other)
    write(folder / "evaluation" / "task10.json", task(1000))
    build_dataset(request(folder), layout)
    assert verify_dataset(layout, "arc").problems == [
        "test task task10: a test pair is a training pair of task03, up to symmetry"
    ]


def test_known_duplicates_are_named_and_can_be_left_out(folder, layout: Layout) -> None:
    write(folder / "training" / "40853293.json", task(7000))
    write(folder / "evaluation" / "070dd51e.json", task(7000))
    build_dataset(request(folder), layout)
    found = verify_dataset(layout, "arc")
    assert found.problems == []
    assert [note for note in found.notes if "070dd51e is in training as 40853293" in note]
    result = build_dataset(request(folder, name="dropped", options={"drop_duplicates": True}), layout)
    assert "left out 40853293: a known duplicate" in result.warnings
    assert result.manifest.splits["train"].num_groups == 11
    assert verify_dataset(layout, "dropped").notes == []


def test_tasks_without_solutions_are_built_and_marked(folder, layout: Layout) -> None:
    write(folder / "evaluation" / "task10.json", task(1000, solved=False))
    result = build_dataset(request(folder), layout)
    assert any("1 test tasks have no solutions" in warning for warning in result.warnings)
    found = query_catalog(layout, "SELECT task, scored FROM puzzles WHERE split = 'test'").rows
    assert {name for name, scored in found if not scored} == {"task10"}
    dataset = open_dataset("arc", layout.machine, "test")
    labels = dataset.read(np.arange(len(dataset)))["labels"]
    unknown = ~labels.any(axis=1)
    assert unknown.sum() == 7 * 2
    assert verify_dataset(layout, "arc").problems == []


def test_validation_holds_out_test_pairs_of_training_tasks(folder, layout: Layout) -> None:
    manifest = build_dataset(request(folder, val_size=2), layout).manifest
    assert manifest.splits["validation"].num_examples == 2 * 7 * 2
    assert manifest.splits["train"].num_examples == 7 * (6 * 5 + 4 * 3 - 2 * 2)
    assert verify_dataset(layout, "arc").problems == []
    with pytest.raises(SpecError, match="--val-size 7: only 6 tasks"):
        build_dataset(request(folder, val_size=7, name="more"), layout)


def test_a_broken_file_stops_the_build(folder, layout: Layout) -> None:
    (folder / "training" / "task02.json").write_text('{"train": [')
    with pytest.raises(SourceError, match=r"task02\.json"):
        build_dataset(request(folder), layout)
    assert not layout.dataset("arc").here.exists()


def test_the_offset_row_is_what_encode_pair_makes() -> None:
    inputs, labels = encode_pair(np.array([[1, 2]], np.uint8), np.array([[3]], np.uint8), 4, 5)
    assert decode_row(inputs, 4, 5).tolist() == [[1, 2]]
    assert decode_row(labels, 4, 5).tolist() == [[3]]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("version", "groups"), [(1, 960), pytest.param(2, 1280, marks=pytest.mark.integration)]
)
def test_the_published_sets(shared_data, layout: Layout, version: int, groups: int) -> None:
    subsets = {1: ("training", "evaluation", "concept"), 2: ("training2", "evaluation2", "concept")}[version]
    source = parse_source(f"kaggle:{shared_data / 'arc'}", allowed=("kaggle",))
    options = ArcOptions(version=version, subsets=subsets, evaluation=subsets[1])
    made = BuildRequest(kind="arc", source=source, aug=20, test_size=None, options=options, name="real")
    manifest = build_dataset(made, layout).manifest
    assert manifest.splits["train"].num_groups == groups
    found = verify_dataset(layout, "real")
    assert found.problems == []
    assert len(found.notes) == (10 if version == 1 else 0)  # nine known duplicates, and the rows they share


@pytest.mark.parametrize(("source", "tasks"), [("kaggle:35-kaggle2026", 12), ("repo:30-arc2-repo", 12)])
def test_the_documented_command_builds_from_the_folders_that_users_have(
    shared_data: Path, tmp_path: Path, source: str, tasks: int
) -> None:
    """ConceptARC is left out, and the name tells so."""
    kind, _, folder = source.partition(":")
    place = shared_data.parent / "cases" / folder
    if not place.is_dir():
        pytest.skip("no shared/cases beside the checkout")
    done = run_here(
        main, "build", "arc", "--version", "2", "--source", f"{kind}:{place}", "--root", str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("arc2-aug-0: ")
    manifest = read_manifest(resolve_root(tmp_path), "arc2-aug-0")
    assert manifest.spec.options.subsets == ("training2", "evaluation2")
    assert manifest.splits["train"].num_groups == tasks


def test_bad_tasks_stop_a_build_or_are_in_its_rejects(tmp_path: Path) -> None:
    good = [{"input": [[number]], "output": [[number + 1]]} for number in range(3)]
    (tmp_path / "tasks.jsonl").write_text(
        "\n".join(map(json.dumps, [good, [{"input": [[1]]}] * 2, good[::-1]]))
    )
    options = ("--subsets", "tasks", "--evaluation", "tasks", "--name", "mine", "--root", str(tmp_path))
    stopped = run_here(main, "build", "arc", "--source", f"repo:{tmp_path}", *options)
    assert stopped.returncode == 2
    assert (
        "tasks.jsonl: line 2, task tasks-000002, train pair 1: has no 'output' (--on-bad-row skip"
        in stopped.stderr
    )
    done = run_here(main, "build", "arc", "--source", f"repo:{tmp_path}", "--on-bad-row", "skip", *options)
    assert done.returncode == 0, done.stderr
    rows = query_catalog(resolve_root(tmp_path), "SELECT file, line, reason FROM rejects").rows
    assert [(file.rpartition("/")[2], line) for file, line, _ in rows] == [("tasks.jsonl", 2)]
    manifest = read_manifest(resolve_root(tmp_path), "mine")
    assert manifest.splits["train"].num_groups == 2


@pytest.mark.parametrize(
    ("good", "more", "named"),
    [(0, (), "has no usable task"), (2, ("--size", "9"), "--size 9")],
)
def test_a_build_that_lacks_tasks_names_the_rejected_ones_by_reason(
    tmp_path: Path, good: int, more: tuple[str, ...], named: str
) -> None:
    whole = [[{"input": [[i]], "output": [[i + 1]]}, {"input": [[2]], "output": [[i]]}] for i in range(good)]
    wrong = [*[[{"input": [[1]]}] * 2] * 3, [{"input": [[1], [1, 2]], "output": [[1]]}] * 2]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, [*whole, *wrong])))
    options = ("--subsets", "tasks", "--evaluation", "tasks", "--name", "mine", "--root", str(tmp_path))
    build = ("build", "arc", "--source", f"repo:{tmp_path}", "--on-bad-row", "skip", "--aug", "1")
    code, line = error_of(main, *build, *options, *more)
    assert code == 2
    assert named in line
    assert "4 tasks were left out: 3 train pair 1: has no 'output'; 1 train pair 1 input: row 2" in line
