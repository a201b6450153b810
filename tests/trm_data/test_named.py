"""Named datasets: every file can be built as it stands, studies find theirs, a wrong digest is an error."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from trm_data.errors import BuildError, SpecError
from trm_data.kinds.registry import make_fields
from trm_data.named import datasets_of_study, named_dataset, named_datasets
from trm_data.storage.root import Layout

TRM_DATA = Path(sys.executable).with_name("trm-data")


@pytest.mark.parametrize("name", sorted(named_datasets()))
def test_every_file_is_a_request(name: str) -> None:
    named = named_datasets()[name]
    request = make_fields(named.kind, {**named.options, "name": name}).request()
    assert request.dataset_name() == name
    assert named.used_by
    assert named.about
    assert len(named.digest) in (0, 64)


def test_what_the_study_needs_is_there() -> None:
    names = set(named_datasets())
    sizes = ("100", "250", "500", "1k", "2k", "5k")
    assert {f"sudoku-extreme-{size}-aug-1000" for size in sizes} <= names
    assert {f"sudoku-extreme-1k-aug-{aug}" for aug in (10, 100, 500, 1000, 2000)} <= names
    assert {"maze-30x30-hard-1k", "maze-30x30-hard-1k-aug-8", "maze-50x50-generated-1k-aug-8"} <= names
    assert {"arc1concept-aug-1000", "arc2concept-aug-1000"} <= names
    assert {dataset.name for dataset in datasets_of_study("exp04a")} == {
        f"sudoku-extreme-{size}-aug-1000" for size in sizes
    }
    assert len(datasets_of_study("exp04")) > len(datasets_of_study("exp04a"))


def test_unknown_names_and_studies() -> None:
    with pytest.raises(SpecError, match=r"similar: .*sudoku-extreme-1k-aug-1000"):
        named_dataset("sudoku-extreme-1k-aug-100O")
    with pytest.raises(SpecError, match="studies are"):
        datasets_of_study("exp99")


def test_a_digest_that_does_not_match_is_an_error(small_layout: Layout) -> None:
    from trm_data.manifest import read_manifest

    manifest = read_manifest(small_layout, "small")
    named = named_dataset("sudoku-4x4-generated-10-aug-100")
    dataclasses.replace(named, digest=manifest.content_digest).check_digest(manifest)
    dataclasses.replace(named, digest="").check_digest(manifest)
    with pytest.raises(BuildError, match="these are not the rows of the research"):
        dataclasses.replace(named, digest="0" * 64).check_digest(manifest)


def test_a_recorded_digest_is_what_a_build_gives(tmp_path: Path) -> None:
    done = subprocess.run(
        [TRM_DATA, "build", "sudoku-4x4-generated-10-aug-100", "--quiet", "--root", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    digest = named_dataset("sudoku-4x4-generated-10-aug-100").digest
    assert digest
    assert digest[:12] in done.stdout
