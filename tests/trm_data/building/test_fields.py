"""`trm_data.build_dataset`: the options of the command in Python, and the same errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trm_data
from trm_data.errors import BuildError, SpecError
from trm_data.named import NamedDataset

SMALL: dict[str, Any] = {
    "size": 12,
    "aug": 2,
    "val_size": 2,
    "test_size": 3,
    "box": "2x2",
    "quiet": True,
    "workers": 1,
}


def test_a_dataset_is_built_opened_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = trm_data.build_dataset("sudoku", root=tmp_path, **SMALL)
    assert (built.name, built.split, len(built)) == ("sudoku-2x2-generated-12-aug-2", "train", 36)
    assert len(trm_data.open_dataset(built.name, tmp_path, "test")) == 3
    (listed,) = trm_data.list_datasets(tmp_path)
    assert (listed.name, listed.splits) == (built.name, {"train": 36, "validation": 2, "test": 3})
    monkeypatch.setenv("TRM_ROOT", str(tmp_path))
    again = trm_data.build_dataset("sudoku", **SMALL)
    assert again.content_digest == built.content_digest
    assert [each.name for each in trm_data.list_datasets()] == [built.name]
    mine = trm_data.build_dataset("sudoku", **SMALL, name="mine")  # an option like any other
    assert (mine.name, mine.content_digest) == ("mine", built.content_digest)


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("sudoko", {}, "no kind or named dataset 'sudoko'; did you mean 'sudoku'"),
        ("sudoku", {"sise": 5}, "a sudoku dataset has no option 'sise'; did you mean 'size'"),
        ("sudoku", {"size": "5"}, "size = '5': expected int"),
        ("sudoku", {"val_size": 1.5}, "val_size = 1.5: expected int or None"),
        ("sudoku", {"engine": "spark"}, "engine = 'spark': expected 'local' or 'ray'"),
        ("sudoku-extreme-1000-aug-1000", {"size": 5}, "size is as its file says"),
    ],
)
def test_what_it_is_not_given_right_is_named(
    kind: str, options: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=says):
        trm_data.build_dataset(kind, root=tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_named_dataset_has_its_digest_or_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {name: value for name, value in SMALL.items() if name not in ("quiet", "workers")}
    digest = trm_data.build_dataset("sudoku", root=tmp_path / "other", **SMALL).content_digest
    known: dict[str, NamedDataset] = {}

    def name_it(digest: str) -> None:
        known["tiny-one"] = NamedDataset(
            name="tiny-one", kind="sudoku", options=options, digest=digest, about="of a test"
        )

    monkeypatch.setattr("trm_data.named.named_datasets", lambda: known)
    name_it(digest)
    run: dict[str, Any] = {"root": tmp_path, "quiet": True, "workers": 1}
    assert trm_data.build_dataset("tiny-one", **run).name == "tiny-one"
    assert trm_data.build_dataset("tiny-one", augment="virtual", **run).name == "tiny-one-virtual"
    name_it("0" * 64)
    with pytest.raises(BuildError, match="these rows differ from the recorded ones"):
        trm_data.build_dataset("tiny-one", **run)
