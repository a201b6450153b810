"""Named datasets: every file can be built as it is, studies find their datasets, a wrong digest is an error."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.support.roots import remove_dataset
from trm_data.building.estimate import estimate_build
from trm_data.building.flow import build_dataset
from trm_data.errors import BuildError, DatasetNotFoundError, SpecError
from trm_data.kinds.maze.options import MazeOptions
from trm_data.kinds.registry import make_fields
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.manifest import read_manifest
from trm_data.named import named_dataset, named_datasets, names_of
from trm_data.sources.base import SourceRef
from trm_data.specs import BuildRequest, check_name
from trm_data.storage.root import Layout, resolve_root


@pytest.mark.parametrize("name", sorted(named_datasets()))
def test_every_file_is_called_as_a_build_calls_it(name: str) -> None:
    dataset = named_datasets()[name]
    assert dataset.request().dataset_name() == name
    assert make_fields(dataset.kind, dataset.options).request().dataset_name() == name
    assert names_of(name)[0] == name
    assert dataset.about
    assert len(dataset.digest) in (0, 64)
    assert all(named_dataset(alias) is dataset for alias in dataset.aliases)


def test_no_two_datasets_have_a_name_in_common() -> None:
    names = [name for entry in named_datasets().values() for name in (entry.name, *entry.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("sudoku-extreme-1k-aug-1000", "sudoku-extreme-1000-aug-1000"),
        ("sudoku-generated-extreme-5k-aug-1000", "sudoku-generated-extreme-5000-aug-1000"),
        ("sudoku-6x6-generated-500-aug-200", "sudoku-2x3-generated-500-aug-200"),
        ("sudoku-4x4-generated-10-aug-100", "sudoku-2x2-generated-10-aug-100"),
        ("maze-30x30-hard-1k", "maze-30x30-hard-1000-aug-0"),
        ("maze-30x30-hard-1k-aug-8", "maze-30x30-hard-1000-aug-7"),
    ],
)
def test_names_of_the_study_are_available(given: str, canonical: str) -> None:
    assert named_dataset(given).name == canonical
    assert canonical in names_of(given)
    assert given in names_of(canonical)
    assert f"{canonical}-virtual" in names_of(f"{given}-virtual")


def request(**changes: Any) -> BuildRequest:
    fields = {"size": 3, "test_size": 0, "options": SudokuOptions(box_rows=2, box_columns=2), **changes}
    return BuildRequest(kind="sudoku", source=SourceRef("generated"), **fields)


def test_names_say_what_is_not_as_usual() -> None:
    stem = "sudoku-2x2-generated-3-aug-0"
    bins = SudokuOptions(box_rows=2, box_columns=2, rating_bins=(0.0, 0.5, 10.0))
    rated = SudokuOptions(box_rows=2, box_columns=2, min_rating=2.0, max_rating=100.0)
    assert request().names() == (stem,)
    assert request(seed=1).names() == (f"{stem}-seed-1", stem)
    assert request(seed=1, augment="virtual").dataset_name() == f"{stem}-seed-1-virtual"
    assert request(options=bins).dataset_name() == f"{stem}-bins-0-0.5-10"
    assert request(options=rated).names() == (f"{stem}-min-rating-2-max-rating-100", stem)
    assert request(seed=1, name="mine").names() == ("mine",)
    assert check_name(request(options=bins, seed=7).dataset_name())


def test_a_dataset_named_before_names_said_the_seed_is_found(tmp_path: Path) -> None:
    layout = resolve_root(tmp_path)
    old = "sudoku-2x2-generated-3-aug-0"
    build_dataset(request(seed=1, name=old), layout)
    found = build_dataset(request(seed=1), layout)
    assert (found.unchanged, found.manifest.name) == (True, old)
    assert estimate_build(request(seed=1), layout).built
    assert not estimate_build(request(seed=2), layout).built
    other = build_dataset(request(seed=2), layout)
    assert (other.unchanged, other.manifest.name) == (False, f"{old}-seed-2")
    with pytest.raises(SpecError, match=f"{old}' is taken by another dataset .*seed: 1 there, 0 asked"):
        build_dataset(request(seed=0), layout)


def test_a_name_of_the_study_means_its_specification(tmp_path: Path) -> None:
    """A default name omits the sizes of held-out sets, so a dataset found under another name is compared."""
    layout = resolve_root(tmp_path)
    canonical, alias = "sudoku-2x2-generated-10-aug-100", "sudoku-4x4-generated-10-aug-100"
    build_dataset(request(size=10, aug=100, test_size=1), layout)
    assert layout.dataset_names() == [canonical]
    with pytest.raises(DatasetNotFoundError, match=alias):
        read_manifest(layout, alias)
    remove_dataset(layout, canonical)
    build_dataset(named_dataset(alias).request(), layout)
    assert read_manifest(layout, alias).name == canonical


def test_unknown_names() -> None:
    with pytest.raises(SpecError, match=r"did you mean 'sudoku-extreme-1k-aug-100'"):
        named_dataset("sudoku-extreme-1k-aug-100O")


def test_a_digest_that_does_not_match_is_an_error(small_layout: Layout) -> None:
    manifest = read_manifest(small_layout, "small")
    dataset = named_dataset("sudoku-4x4-generated-10-aug-100")
    dataclasses.replace(dataset, digest=manifest.content_digest).check_digest(manifest.content_digest)
    dataclasses.replace(dataset, digest="").check_digest(manifest.content_digest)
    with pytest.raises(BuildError, match="these rows differ from the recorded ones"):
        dataclasses.replace(dataset, digest="0" * 64).check_digest(manifest.content_digest)


@pytest.mark.parametrize(
    ("reference", "stem"),
    [
        ("", "sudoku-extreme"),
        ("sapientinc/sudoku-extreme", "sudoku-extreme"),
        (f"sapientinc/sudoku-extreme@{'a' * 40}", "sudoku-extreme"),
        ("somebody/else", "sudoku-somebody-else"),
        ("somebody/else@main", "sudoku-somebody-else"),
        ("somebody/sudoku-extreme", "sudoku-somebody-sudoku-extreme"),
        ("some.body/my_set.v2", "sudoku-some-body-my-set-v2"),
    ],
)
def test_a_dataset_of_another_repository_is_named_after_it(reference: str, stem: str) -> None:
    asked = BuildRequest(
        kind="sudoku", source=SourceRef("hf", reference), size=1000, aug=10, options=SudokuOptions()
    )
    assert asked.dataset_name() == f"{stem}-1000-aug-10"
    assert asked.names()[-1] == "sudoku-extreme-1000-aug-10"  # its former name


def test_mazes_of_another_repository_are_named_after_it() -> None:
    fields = {"kind": "maze", "size": 10, "options": MazeOptions()}
    names = [
        BuildRequest(source=SourceRef("hf", path), **fields).dataset_name()
        for path in ("sapientinc/maze-30x30-hard-1k", "somebody/else")
    ]
    assert names == ["maze-30x30-hard-10-aug-0", "maze-30x30-somebody-else-10-aug-0"]
