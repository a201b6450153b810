"""Names stay inside the root; a specification survives JSON; its digest covers every field."""

import dataclasses

import pytest

from trm_data.errors import SpecError
from trm_data.kinds.registry import spec_from_json
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.specs import DatasetSpec, SourceSpec, check_name
from trm_data.storage.root import resolve_root

SPEC = DatasetSpec(
    kind="sudoku",
    source=SourceSpec(kind="csv", name="a.csv", sha256="00"),
    test_source=SourceSpec(kind="txt", name="b.txt", sha256="11"),
    size=5,
    aug=2,
    options=SudokuOptions(min_rating=1.5),
)


@pytest.mark.parametrize("name", ["../x", "a/b", "a..b", "", ".hidden", "-x", "x" * 101, "a b", "x\n", "ä"])
def test_names_that_could_be_paths_are_refused(name: str) -> None:
    with pytest.raises(SpecError, match="dataset name"):
        check_name(name)


@pytest.mark.parametrize("name", ["a", "sudoku-extreme-1k-aug-1000", "A.b_c-1"])
def test_ordinary_names_pass(name: str) -> None:
    assert check_name(name) == name


def test_a_specification_survives_json() -> None:
    assert spec_from_json(SPEC.to_json()) == SPEC


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(SpecError, match="colour"):
        spec_from_json({**SPEC.to_json(), "colour": "red"})


@pytest.mark.parametrize(
    "change",
    [
        {"size": 6},
        {"seed": 1},
        {"on_bad_row": "skip"},
        {"test_source": None},
        {"source": SourceSpec(kind="csv", name="a.csv", sha256="01")},
        {"options": SudokuOptions(min_rating=1.5, max_rating=9.0)},
    ],
)
def test_the_digest_sees_every_field(change: dict) -> None:
    assert dataclasses.replace(SPEC, **change).digest() != SPEC.digest()


def test_a_root_on_a_bucket_keeps_local_things_in_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("TRM_CACHE", str(tmp_path))
    layout = resolve_root("gs://bucket/prefix/")
    assert layout.place == "gs://bucket/prefix"
    assert layout.machine.parent == tmp_path / "roots"
    assert layout == resolve_root("gs://bucket/prefix")
    assert layout.machine != resolve_root("gs://bucket/other").machine


def test_the_root_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("TRM_ROOT", str(tmp_path))
    assert resolve_root().machine == tmp_path
    assert resolve_root(tmp_path / "other").machine == tmp_path / "other"
