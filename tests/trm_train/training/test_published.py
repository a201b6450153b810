"""Published weights: imported as a run, exported from one, and refused if they do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import error_of, run_here
from tests.trm_train.training.published_files import NAMES, NETWORK, PUBLISHED, TABLE, add_dataset, published
from trm_data.storage.atomic import file_sha256
from trm_data.storage.root import Layout, resolve_root
from trm_train.cli import main
from trm_train.runs.record import find_run, read_record
from trm_train.training.initial import rows_by_name, saved_weights
from trm_train.weights import read_weights, write_weights_file


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A root with `one` (only the blank identifier), `three` (the fixture's), `others` and `seven` (7 tokens)."""
    folder = tmp_path_factory.mktemp("published")
    layout = resolve_root(folder / "root")
    add_dataset(layout, "one", folder, ["<blank>"])
    add_dataset(layout, "three", folder, NAMES)
    add_dataset(layout, "others", folder, ["<blank>", "b", "a", "c"])
    add_dataset(layout, "seven", folder, ["<blank>"], vocabulary=7)
    return layout


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Published identifiers.json."""
    path = tmp_path_factory.mktemp("names") / "identifiers.json"
    path.write_text(json.dumps(NAMES))
    return path


def words(layout: Layout, file: Path, dataset: str, *more: str) -> list[str]:
    """Return the command that imports a file."""
    named = ["import-weights", str(file), "--as", "quickstart", "--dataset", dataset]
    return [*named, "--root", layout.place, *NETWORK, *more]


def imported(layout: Layout, file: Path, dataset: str, *more: str) -> dict[str, Any]:
    """Import a file; return the JSON output of the command."""
    done = run_here(main, *words(layout, file, dataset, *more, "--json"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def stored(layout: Layout, run: str) -> Any:
    """Return the weights of a run."""
    return saved_weights(find_run(layout, run), None)[2]


def test_an_imported_run_has_the_digest_of_its_file_and_the_values(layout: Layout) -> None:
    facts = imported(layout, PUBLISHED, "one")
    record = read_record(find_run(layout, facts["run"]))
    assert record.config.initial.imported == facts["sha256"] == file_sha256(PUBLISHED)
    assert record.run.startswith("quickstart-")
    assert (facts["rows"], facts["identifiers"], facts["matched"]) == (3, 1, 1)
    weights, tensors = stored(layout, facts["run"]), published()
    assert np.array_equal(weights.params["lm_head"]["kernel"], tensors["inner.lm_head.weight"].T)
    assert np.array_equal(weights.fixed["h_init"], tensors["inner.H_init"])
    assert np.array_equal(weights.puzzle_table, tensors[TABLE][:1])


def test_importing_again_changes_nothing_and_status_says_that_the_run_is_done(layout: Layout) -> None:
    assert [imported(layout, PUBLISHED, "one")["unchanged"] for _ in range(2)][1]
    runs = json.loads(run_here(main, "status", "--root", layout.place, "--json").stdout)
    assert {run["state"] for run in runs if run["step"] == 0} == {"done"}


def test_another_file_is_another_run(layout: Layout, tmp_path: Path) -> None:
    other = tmp_path / "other.npz"
    tensors = published()
    write_weights_file(other, tensors | {"inner.q_head.bias": tensors["inner.q_head.bias"] + 1})
    assert imported(layout, other, "one")["run"] != imported(layout, PUBLISHED, "one")["run"]


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_a_round_trip_is_equal_in_values(layout: Layout, names: Path, tmp_path: Path, suffix: str) -> None:
    run = imported(layout, PUBLISHED, "three", "--identifiers", str(names))["run"]
    out = tmp_path / f"weights{suffix}"
    done = run_here(main, "export-weights", f"{run}@0", "--out", str(out), "--root", layout.place)
    assert done.returncode == 0, done.stderr
    assert "identifiers.json" in done.stdout
    found, tensors = read_weights(out), published()
    assert found.keys() == tensors.keys()
    assert all(np.array_equal(found[name], tensors[name]) for name in tensors)
    again = imported(layout, out, "three", "--identifiers", str(names))["run"]
    ours, theirs = stored(layout, again), stored(layout, run)
    assert np.array_equal(ours.puzzle_table, theirs.puzzle_table)
    assert np.array_equal(ours.params["q_head"]["bias"], theirs.params["q_head"]["bias"])


def test_rows_are_matched_by_name_and_others_are_the_mean(layout: Layout, names: Path) -> None:
    facts = imported(layout, PUBLISHED, "others", "--identifiers", str(names))
    assert (facts["matched"], facts["identifiers"], facts["rows"]) == (2, 4, 3)
    rows, old = stored(layout, facts["run"]).puzzle_table, published()[TABLE]
    assert np.array_equal(rows[[0, 2]], old[[0, 1]])
    assert np.allclose(rows[[1, 3]], old.mean(axis=0), atol=1e-7)


def test_names_that_only_number_identifiers_match_nothing() -> None:
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    table, matched = rows_by_name(rows, ["<0>", "<1>", "<2>"], ["<0>", "<1>"])
    assert matched == 1
    assert table.tolist() == [[0, 1], [2, 3]]  # the mean happens to be the second row


def test_the_number_of_matched_identifiers_is_said(layout: Layout, names: Path) -> None:
    done = run_here(main, *words(layout, PUBLISHED, "others", "--identifiers", str(names)))
    assert "2 of 4 identifiers" in done.stdout


def test_rows_without_names_are_refused(layout: Layout, names: Path, tmp_path: Path) -> None:
    code, said = error_of(main, *words(layout, PUBLISHED, "three"))
    assert (code, "--identifiers" in said, "identifiers.json" in said) == (2, True, True)
    for content in ('["<blank>"]', "{}", '["<blank>", "a", 3]', "no json", '["<blank>", "x", "y"]'):
        (tmp_path / "names.json").write_text(content)
        code, said = error_of(
            main, *words(layout, PUBLISHED, "three", "--identifiers", str(tmp_path / "names.json"))
        )
        assert code == 2
        assert "--identifiers" in said


def test_all_that_does_not_fit_is_said_at_once(layout: Layout, tmp_path: Path) -> None:
    tensors = published()
    del tensors["inner.lm_head.weight"]
    tensors["inner.extra"] = np.zeros(2, np.float32)
    tensors["inner.q_head.bias"] = np.zeros(3, np.float32)
    tensors["inner.H_init"] = np.full(32, np.nan, np.float32)
    tensors[TABLE] = np.zeros((3, 31), np.float32)
    write_weights_file(tmp_path / "odd.npz", tensors)
    done = run_here(main, *words(layout, tmp_path / "odd.npz", "one"))
    assert done.returncode == 2
    lines = [line.strip() for line in done.stderr.splitlines()]
    assert "missing: inner.lm_head.weight" in lines
    assert "unknown: inner.extra" in lines
    for name in ("inner.q_head.bias: shape (3,)", "inner.H_init: has", f"{TABLE}: shape (3, 31)"):
        assert any(line.startswith(name) for line in lines), name


def test_a_dataset_with_another_vocabulary_or_length_is_refused(layout: Layout, tmp_path: Path) -> None:
    done = run_here(main, *words(layout, PUBLISHED, "seven"))
    assert done.returncode == 2
    assert "inner.lm_head.weight: shape (6, 32); expected (7, 32)" in done.stderr
    assert "16 cells, 7 tokens" in done.stderr


def test_names_that_differ_in_their_prefix_alone_are_refused(layout: Layout, tmp_path: Path) -> None:
    tensors = published()
    twice = tensors | {"model.inner.H_init": tensors["inner.H_init"]}
    write_weights_file(tmp_path / "twice.npz", twice)
    done = run_here(main, *words(layout, tmp_path / "twice.npz", "one"))
    assert done.returncode == 2
    assert "prefix" in done.stderr


@pytest.mark.parametrize("options", [("--model.multi-scale",)])
def test_a_network_without_published_names_is_refused(layout: Layout, options: tuple[str, ...]) -> None:
    code, said = error_of(main, *words(layout, PUBLISHED, "one", *options))
    assert code == 2
    assert "published names" in said


def test_missing_files_datasets_and_runs_are_refused(layout: Layout, tmp_path: Path) -> None:
    out = tmp_path / "weights.npz"
    for command, said in (
        (words(layout, tmp_path / "none.pt", "one"), "none.pt"),
        (words(layout, PUBLISHED, "nowhere"), "nowhere"),
        (["export-weights", "nobody", "--out", str(out), "--root", layout.place], "nobody"),
        (["export-weights", "nobody", "--out", "weights.pt", "--root", layout.place], "nobody"),
    ):
        code, line = error_of(main, *command)
        assert (code, said in line) == (2, True), line
    run = imported(layout, PUBLISHED, "one")["run"]
    for file in ("weights.pt", str(PUBLISHED)):
        assert error_of(main, "export-weights", run, "--out", file, "--root", layout.place)[0] == 2
    code, line = error_of(main, "export-weights", f"{run}@7", "--out", str(out), "--root", layout.place)
    assert (code, "step 7" in line) == (2, True)
    assert not out.exists()
